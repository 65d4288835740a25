import assert from 'node:assert/strict';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { describe, test } from 'node:test';
import type { FastifyReply } from 'fastify';
import type { StoredEvent } from '#events/event.ts';
import { pageOfPlaces } from '#events/event-page-store.ts';
import { insertEvents } from '#events/event-store.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { sendWholeEvents } from './event-answer.ts';

const channel = { emitterId: 'dc_1', channel: '' };

describe('pages of whole events', () => {
  forEachStore((fixture) => {
    test('each part is asked for by its size, and read when it may be sent', async () => {
      const { store } = fixture;
      const rows = [1, 2, 3].map(
        (ms): StoredEvent => ({
          ...{ emitter_id: 'dc_1', channel: '', ms, seq: 0, owner_id: 'o_1', emit_id: `em${ms}` },
          ...{ given_id: null, summary: null, ts_ms: null, deliver_channel: null, deliver_at_ms: null },
          ...{ hops: 0, event: JSON.stringify('x'.repeat(2_999_998)) },
        }),
      );
      await store.transaction((tx) => insertEvents(store, tx, rows));
      const asked: number[] = [];
      let written = 0;
      const answer = {
        expects: async (bytes: number) => {
          assert.equal(written, asked.length, 'nothing is read before it was asked for');
          asked.push(bytes);
        },
      };
      const reply = { request: { answer }, type: () => reply, send: (payload: unknown) => payload };
      const places = await pageOfPlaces(store.read, { ...channel, limit: 100 });
      const sent: unknown = await sendWholeEvents(reply as unknown as FastifyReply, store.read, {
        ...{ channel, places, ending: () => '' },
        rowOf: ({ ms }) => {
          written += 1;
          return `${ms}`;
        },
      });
      assert.equal(await text(sent as Readable), '{"data":[3,2,1]}');
      assert.deepEqual(asked, [3_000_000, 3_000_000, 3_000_000]);
    });
  });
});
