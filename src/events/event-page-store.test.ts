import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { readEvents } from '../../test/support/stored-events.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { eventSummaryJson, type StoredEvent } from './event.ts';
import { type EventBatch, eventBatches, pageOfPlaces, readBeginnings } from './event-page-store.ts';
import { deleteEventRange, insertEvents } from './event-store.ts';

const channel = { emitterId: 'dc_1', channel: '' };

describe('pages of events', () => {
  forEachStore((fixture) => {
    /** Events with these JSON texts, oldest first; their ids are 1-0, 2-0, … */
    const fill = async (...texts: string[]) => {
      const rows = texts.map(
        (event, index): StoredEvent => ({
          emitter_id: 'dc_1',
          channel: '',
          ms: index + 1,
          seq: 0,
          owner_id: 'o_1',
          emit_id: `em${index}`,
          given_id: null,
          summary: null,
          ts_ms: null,
          event,
          deliver_channel: null,
          deliver_at_ms: null,
          hops: 0,
        }),
      );
      await fixture.store.transaction((tx) => insertEvents(fixture.store, tx, rows));
    };
    const large = (character: string, bytes: number) =>
      JSON.stringify(character.repeat((bytes - 2) / Buffer.byteLength(character)));

    test('summaries are the same whether the whole events were read or their beginnings', async () => {
      const sizes = [2, 1000, 1022, 1024, 1026, 5000];
      await fill(...['x', 'é', '🙂'].flatMap((character) => sizes.map((size) => large(character, size))));
      const whole = await readEvents(fixture.store.read, { ...channel, limit: 100 });
      const beginnings = await readBeginnings(fixture.store.read, { ...channel, limit: 100 });
      const summaries = (events: StoredEvent[]) =>
        events.map((event) => eventSummaryJson(event, { expand: false }));
      assert.deepEqual(summaries(beginnings), summaries(whole));
      assert.equal(beginnings.length, 18);
      for (const { event } of beginnings) assert.ok(event.length <= 2048);
    });

    test('whole events are read a few megabytes at a time, in the order of the page', async () => {
      await fill(...Array.from({ length: 10 }, () => large('x', 1_000_000)), ...Array(30).fill('1'));
      const places = await pageOfPlaces(fixture.store.read, { ...channel, limit: 100 });
      for (const page of [places, places.toReversed()]) {
        const batches: EventBatch[] = [];
        for await (const batch of eventBatches(fixture.store.read, channel, page)) batches.push(batch);
        assert.deepEqual(
          batches.flatMap(({ events }) => events.map(({ ms }) => ms)),
          page.map(({ ms }) => ms),
        );
        for (const { events } of batches)
          assert.ok(events.reduce((sum, { event }) => sum + event.length, 0) <= 3_100_000);
        assert.ok(batches.length <= 5);
      }
    });

    test('an event that was deleted since the page was begun is left out', async () => {
      await fill('1', '2', '3');
      const places = await pageOfPlaces(fixture.store.read, { ...channel, limit: 100 });
      const id = { ms: 2, seq: 0 };
      await fixture.store.transaction((tx) =>
        deleteEventRange(tx, { ...channel, start: id, end: id, limit: 1 }),
      );
      for await (const { places: at, events } of eventBatches(fixture.store.read, channel, places)) {
        assert.equal(at.length, 3);
        assert.deepEqual(
          events.map(({ event }) => event),
          ['3', '1'],
        );
      }
      for await (const batch of eventBatches(fixture.store.read, channel, [])) assert.fail(String(batch));
    });
  });
});
