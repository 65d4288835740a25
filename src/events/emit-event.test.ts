import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { forEachStore } from '../../test/support/stores.ts';
import { type Emission, emitEvents, type NewEvent } from './emit-event.ts';
import { eventSummaryJson, type StoredEvent } from './event.ts';
import { readEvents } from './event-page-store.ts';
import { insertEmitter } from './event-store.ts';

const start = 1_800_000_000_000;

describe('emitting', () => {
  forEachStore((fixture) => {
    const addEmitter = () =>
      fixture.store.transaction((tx) => insertEmitter(tx, { id: 'dc_1', ownerId: 'o_1' }));
    const emit = (
      events: NewEvent[],
      options: Partial<Emission> & { nowMs?: number } = {},
    ): Promise<StoredEvent[]> =>
      fixture.store.transaction(async (tx) => {
        const { nowMs = start, ...rest } = options;
        const emission = { emitterId: 'dc_1', hops: 0, events, ...rest };
        const [result] = await emitEvents(fixture.store, tx, [emission], nowMs);
        assert.ok(result?.accepted);
        return result.stored;
      });
    const read = (channel = '') => readEvents(fixture.store.read, { emitterId: 'dc_1', channel, limit: 100 });

    test('the JSON of an event is kept on one line, and means the same', async () => {
      await addEmitter();
      await emit([{ channel: '', event: '{\r\n  "a": "one\\ntwo",\n\n  "b": [\r1 ]\n}' }]);
      const [kept] = await read();
      assert.equal(/[\r\n]/.test(kept?.event ?? '\n'), false);
      assert.deepEqual(JSON.parse(kept?.event ?? ''), { a: 'one\ntwo', b: [1] });
    });

    test('an error event has its metadata inside as well as beside it', async () => {
      await addEmitter();
      await emit([{ channel: '$errors', event: '{"error":{}}', holdsMetadata: true }]);
      const [kept] = await read('$errors');
      const summary = JSON.parse(eventSummaryJson(kept as StoredEvent, { expand: true }));
      assert.ok(summary.metadata.emit_id.length > 0);
      assert.deepEqual(summary.event, { error: {}, metadata: summary.metadata });
    });
  });
});
