import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { emitEvents } from '#events/emit-event.ts';
import type { StoredEvent } from '#events/event.ts';
import { EventBus } from '#events/event-bus.ts';
import { formatEventId } from '#events/event-id.ts';
import { deleteEventRange, insertEmitter } from '#events/event-store.ts';
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

  test('events that are deleted while a reader catches up are told as a gap', async () => {
    const { store } = fixture;
    await store.transaction((tx) => insertEmitter(tx, { id: 'dc_1', ownerId: 'u_1' }));
    const texts = [
      '"seen"',
      ...Array.from({ length: 4 }, (_, n) => JSON.stringify(`${n}`.padEnd(1_500_000))),
    ];
    const stored = await store.transaction(async (tx) => {
      const events = texts.map((event) => ({ channel: '', event }));
      const [result] = await emitEvents(
        store,
        tx,
        [{ emitterId: 'dc_1', hops: 0, events }],
        1_800_000_000_000,
      );
      return result?.accepted === true ? result.stored : [];
    });
    const [seen, , , third] = stored;
    assert.ok(seen !== undefined && third !== undefined);
    const written: string[] = [];
    // A reader that takes the first event, and nothing more until it is told to.
    const response = Object.assign(new EventEmitter(), {
      writableLength: 0,
      writeHead: () => {},
      end: () => {},
      destroy: () => {},
      write(text: string) {
        written.push(/^data: {"event":"(.)/m.exec(text)?.[1] ?? text.slice(0, 10));
        if (written.at(-1) === '0') this.writableLength = 2_000_000;
      },
    });
    const streams = new LiveStreams();
    await streams.open(response as unknown as ServerResponse, {
      store,
      bus: new EventBus(silentLogger),
      logger: silentLogger,
      emitterId: 'dc_1',
      channel: '',
      lastEventId: seen,
    });
    try {
      await waitFor(() => response.listenerCount('drain') > 0);
      await store.transaction((tx) =>
        deleteEventRange(tx, { emitterId: 'dc_1', channel: '', start: third, end: third, limit: 1 }),
      );
      response.writableLength = 0;
      response.emit('drain');
      await waitFor(() => written.at(-1) === '3');
      assert.deepEqual(written.slice(1), ['0', '1', 'event: gap', '3']);
    } finally {
      streams.close();
    }
  });
});
