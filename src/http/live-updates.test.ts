import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { emitEvents } from '#events/emit-event.ts';
import type { StoredEvent } from '#events/event.ts';
import { EventBus } from '#events/event-bus.ts';
import { formatEventId } from '#events/event-id.ts';
import { insertEmitter } from '#events/event-store.ts';
import { silentLogger } from '#lib/logger.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { LiveStreams } from './live-updates.ts';

forEachStore((fixture) => {
  test('an event that another process stored is sent before the next one of this process', async () => {
    const { store } = fixture;
    await store.transaction((tx) => insertEmitter(tx, { id: 'dc_1', ownerId: 'u_1' }));
    const emit = (n: number): Promise<StoredEvent[]> =>
      store.transaction(async (tx) => {
        const emission = { emitterId: 'dc_1', hops: 0, events: [{ channel: '', event: `{"n":${n}}` }] };
        const [result] = await emitEvents(store, tx, [emission], 1_800_000_000_000);
        return result?.accepted === true ? result.stored : [];
      });
    const bus = new EventBus(silentLogger);
    const streams = new LiveStreams();
    const server = createServer((_request, response) => {
      const options = {
        store,
        bus,
        logger: silentLogger,
        emitterId: 'dc_1',
        channel: '',
        lastEventId: undefined,
      };
      void streams.open(response, options);
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const response = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    let text = '';
    const reading = (async () => {
      for await (const chunk of response.body ?? []) text += Buffer.from(chunk).toString();
    })();
    try {
      await waitFor(() => text.includes(':sse-handshake'));
      const mine = await emit(1);
      bus.publish(mine);
      await waitFor(() => text.includes('"n":1'));
      const theirs = await emit(2);
      bus.publish(await emit(3));
      await waitFor(() => text.includes('"n":3'));
      assert.ok(text.indexOf('"n":2') > 0, 'the event of the other process is there');
      assert.ok(text.indexOf('"n":2') < text.indexOf('"n":3'), 'and in its place');
      assert.ok(text.includes(`id: ${theirs[0] === undefined ? '' : formatEventId(theirs[0])}\n`));
    } finally {
      streams.close();
      await reading;
      server.close();
    }
  });
});
