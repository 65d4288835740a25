import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, test } from 'node:test';
import { removeEmitter } from '#events/delete-events.ts';
import type { StoredEvent } from '#events/event.ts';
import { EventBus } from '#events/event-bus.ts';
import { formatEventId } from '#events/event-id.ts';
import { deleteEmitter, deleteEventRange, insertEmitter } from '#events/event-store.ts';
import { ActiveOwners } from '#lib/active-owners.ts';
import { silentLogger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import { emitUnheard } from '../../test/support/no-subscribers.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { patienceMs, waitFor, within } from '../../test/support/wait-for.ts';
import { LiveStreams } from './live-streams.ts';

forEachStore((fixture) => {
  test('an event that another process stored is sent before the next one of this process', async () => {
    const { store } = fixture;
    await store.transaction((tx) => insertEmitter(tx, { id: 'dc_1', ownerId: 'u_1' }));
    const emit = (n: number): Promise<StoredEvent[]> =>
      store.transaction(async (tx) => {
        const emission = { emitterId: 'dc_1', hops: 0, events: [{ channel: '', event: `{"n":${n}}` }] };
        const [result] = await emitUnheard(store, tx, [emission], 1_800_000_000_000);
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
        ownerId: 'u_1',
        channel: '',
        lastEventId: undefined,
        mayRead: async () => true,
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

  test('while other owners have something to do, readers of one owner share what is written, and all get every event', async () => {
    const { store } = fixture;
    await store.transaction((tx) => insertEmitter(tx, { id: 'dc_1', ownerId: 'u_1' }));
    const owners = new ActiveOwners();
    const bus = new EventBus(silentLogger);
    const streams = new LiveStreams({ owners });
    const readers = Array.from({ length: 20 }, () => ({ numbers: [] as number[], bytes: 0 }));
    for (const reader of readers) {
      const response = Object.assign(new EventEmitter(), {
        writableLength: 0,
        writeHead: () => {},
        end: () => {},
        destroy: () => {},
        write(message: Buffer) {
          reader.bytes += message.length;
          for (const [, number] of String(message).matchAll(/"n":(\d+)/g))
            reader.numbers.push(Number(number));
        },
      });
      await streams.open(response as unknown as ServerResponse, {
        ...{ store, bus, logger: silentLogger, emitterId: 'dc_1', ownerId: 'u_1', channel: '' },
        lastEventId: undefined,
        mayRead: async () => true,
      });
    }
    const emit = (first: number, count: number): Promise<StoredEvent[]> =>
      store.transaction(async (tx) => {
        const events = Array.from({ length: count }, (_, index) => ({
          channel: '',
          event: JSON.stringify({ n: first + index, text: 'y'.repeat(50_000) }),
        }));
        const emission = { emitterId: 'dc_1', hops: 0, events };
        const [result] = await emitUnheard(store, tx, [emission], 1_800_000_000_000);
        return result?.accepted === true ? result.stored : [];
      });
    const others = setInterval(() => {
      owners.note('u_other');
      owners.note('u_1');
    }, 20);
    owners.note('u_1');
    owners.note('u_other');
    try {
      const startedAt = performance.now();
      // 20 MB for all of them; four may be written at once.
      for (let n = 0; n < 20; n += 5) bus.publish(await emit(n, 5));
      const all = Array.from({ length: 20 }, (_, n) => n);
      await waitFor(() => readers.every(({ numbers }) => numbers.length >= all.length));
      const ms = performance.now() - startedAt;
      assert.ok(ms > 500, `20 MB were written in ${ms} ms`);
      for (const { numbers } of readers) assert.deepEqual(numbers, all);
    } finally {
      clearInterval(others);
      streams.close();
    }
  });

  /** A connection whose reader takes nothing unless a test says so. */
  const heldConnection = (onWrite: (text: string, response: { writableLength: number }) => void) =>
    Object.assign(new EventEmitter(), {
      writableLength: 0,
      destroyed: false,
      writeHead: () => {},
      end: () => {},
      destroy: () => {},
      write(message: Buffer) {
        onWrite(String(message), this);
      },
    });
  /** The store, with the number of its reads. */
  const countedStore = () => {
    const { store } = fixture;
    const counted = { reads: 0, store };
    const read = new Proxy(store.read, {
      get: (target, property) => {
        if (property === 'selectFrom') counted.reads += 1;
        const value = Reflect.get(target, property);
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
    counted.store = { ...store, read };
    return counted;
  };
  const emitLarge = async (count: number, bytes: number, emitterId = 'dc_1'): Promise<StoredEvent[]> => {
    const { store } = fixture;
    const [result] = await store.transaction((tx) => {
      const events = Array.from({ length: count }, (_, n) => ({
        channel: '',
        event: JSON.stringify({ n, text: 'y'.repeat(bytes) }),
      }));
      return emitUnheard(store, tx, [{ emitterId, hops: 0, events }], 1_800_000_000_000);
    });
    return result?.accepted === true ? result.stored : [];
  };

  test('a reader that is slower than the events of its source are kept gets a gap, and continues with those that are there', async () => {
    const { store } = fixture;
    await store.transaction((tx) => insertEmitter(tx, { id: 'dc_1', ownerId: 'u_1' }));
    const bus = new EventBus(silentLogger);
    const streams = new LiveStreams();
    const counted = countedStore();
    const written: string[] = [];
    const response = heldConnection((text, connection) => {
      written.push(text);
      // It takes the first event, and no more.
      if (text.includes('"n":0')) connection.writableLength = 2_000_000;
    });
    try {
      const [seen] = await emitLarge(1, 1);
      const stored = await emitLarge(40, 600_000);
      await streams.open(response as unknown as ServerResponse, {
        ...{ store: counted.store, bus, logger: silentLogger, emitterId: 'dc_1', ownerId: 'u_1' },
        ...{ channel: '', lastEventId: seen, mayRead: async () => true },
      });
      await waitFor(() => response.listenerCount('drain') > 0);
      // All but the last are removed while the reader has their places.
      const [first, lastOfGone] = [stored[1], stored.at(-2)];
      assert.ok(first !== undefined && lastOfGone !== undefined);
      await store.transaction((tx) =>
        deleteEventRange(tx, { emitterId: 'dc_1', channel: '', start: first, end: lastOfGone, limit: 100 }),
      );
      counted.reads = 0;
      response.writableLength = 0;
      response.emit('drain');
      await waitFor(() => written.at(-1)?.includes('"n":39') === true);
      assert.ok(counted.reads < 10, `${counted.reads} reads: what is gone is not looked for part by part`);
      assert.equal(written.filter((text) => text.includes('event: gap')).length, 1);
    } finally {
      streams.close();
    }
  });

  test('the more readers an owner has, the less is read and kept for each that does not take it', async () => {
    const { store } = fixture;
    for (const id of ['dc_1', 'dc_2'])
      await store.transaction((tx) => insertEmitter(tx, { id, ownerId: 'u_1' }));
    const bus = new EventBus(silentLogger);
    const streams = new LiveStreams();
    const open = async (
      response: ReturnType<typeof heldConnection>,
      options: { emitterId: string; store?: Store; lastEventId?: StoredEvent | undefined },
    ) =>
      streams.open(response as unknown as ServerResponse, {
        ...{ store, bus, logger: silentLogger, ownerId: 'u_1', channel: '', lastEventId: undefined },
        mayRead: async () => true,
        ...options,
      });
    /** Reads until a reader that was away has events of 1.2 MB. */
    const readsOfAll = async () => {
      const counted = countedStore();
      const written: string[] = [];
      const response = heldConnection((text) => written.push(text));
      await open(response, { emitterId: 'dc_1', store: counted.store, lastEventId: seen });
      await waitFor(() => written.at(-1)?.includes('"n":11') === true);
      return counted.reads;
    };
    const [seen] = await emitLarge(1, 1);
    await emitLarge(12, 100_000);
    try {
      const few = await readsOfAll();
      const others = Array.from({ length: 255 }, () => heldConnection(() => {}));
      for (const other of others) await open(other, { emitterId: 'dc_2' });
      assert.ok((await readsOfAll()) > few, 'smaller parts are read');
      const slow = heldConnection((text, connection) => {
        if (text.includes('"n":0')) connection.writableLength = 400_000;
      });
      await open(slow, { emitterId: 'dc_2' });
      bus.publish(await emitLarge(2, 1, 'dc_2'));
      await waitFor(() => slow.listenerCount('drain') > 0, { what: 'a reader that waits with 400 KB' });
      for (const other of others) other.emit('close');
      const fast: string[] = [];
      const alone = heldConnection((text) => fast.push(text));
      alone.writableLength = 400_000;
      await open(alone, { emitterId: 'dc_2' });
      bus.publish(await emitLarge(2, 1, 'dc_2'));
      await waitFor(() => fast.at(-1)?.includes('"n":1') === true);
    } finally {
      streams.close();
    }
  });

  test('events that are deleted while a reader catches up are reported as a gap', async () => {
    const { store } = fixture;
    await store.transaction((tx) => insertEmitter(tx, { id: 'dc_1', ownerId: 'u_1' }));
    const texts = [
      '"seen"',
      ...Array.from({ length: 4 }, (_, n) => JSON.stringify(`${n}`.padEnd(1_500_000))),
    ];
    const stored = await store.transaction(async (tx) => {
      const events = texts.map((event) => ({ channel: '', event }));
      const [result] = await emitUnheard(
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
    // A reader that takes the first event, and nothing more until it is drained.
    const response = Object.assign(new EventEmitter(), {
      writableLength: 0,
      writeHead: () => {},
      end: () => {},
      destroy: () => {},
      write(message: string | Buffer) {
        for (const text of String(message).split('\n\n').slice(0, -1))
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
      ownerId: 'u_1',
      channel: '',
      lastEventId: seen,
      mayRead: async () => true,
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

  test('what another process stored is read once for all readers, who all get it', async () => {
    const { store } = fixture;
    await store.transaction((tx) => insertEmitter(tx, { id: 'dc_1', ownerId: 'u_1' }));
    let reads = 0;
    const read = new Proxy(store.read, {
      get: (target, property) => {
        if (property === 'selectFrom') reads += 1;
        const value = Reflect.get(target, property);
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
    const bus = new EventBus(silentLogger);
    const streams = new LiveStreams();
    const readers = Array.from({ length: 50 }, () => {
      const written: string[] = [];
      return Object.assign(new EventEmitter(), {
        ...{ written, writableLength: 0, writeHead: () => {}, end: () => {}, destroy: () => {} },
        write: (message: string | Buffer) => written.push(String(message)),
      });
    });
    for (const response of readers) {
      await streams.open(response as unknown as ServerResponse, {
        ...{ store: Object.create(store, { read: { value: read } }) as Store, bus, logger: silentLogger },
        ...{
          emitterId: 'dc_1',
          ownerId: 'u_1',
          channel: '',
          lastEventId: undefined,
          mayRead: async () => true,
        },
      });
    }
    reads = 0;
    try {
      for (const n of [1, 2]) {
        const emission = { emitterId: 'dc_1', hops: 0, events: [{ channel: '', event: `"theirs ${n}"` }] };
        await store.transaction((tx) => emitUnheard(store, tx, [emission], 1_800_000_000_000));
        bus.heard('u_1:dc_1');
        await waitFor(() => readers.every(({ written }) => written.at(-1)?.includes(`theirs ${n}`)));
      }
      assert.ok(reads <= 8, `${reads} reads for 2 events and 50 readers`);
    } finally {
      streams.close();
    }
  });

  test('a reader that comes when the store is away is cut off, and nothing is kept for it', async () => {
    const { store } = fixture;
    const away = new Error('the store is away');
    const read = new Proxy(store.read, {
      get: () => () => {
        throw away;
      },
    });
    const subscribed = new Set<string>();
    const bus = {
      subscribe: (emitterId: string) => {
        subscribed.add(emitterId);
        return () => subscribed.delete(emitterId);
      },
    } as unknown as EventBus;
    const streams = new LiveStreams();
    const opened: Promise<void>[] = [];
    const server = createServer((_request, response) => {
      const options = {
        store: Object.create(store, { read: { value: read } }) as Store,
        bus,
        logger: silentLogger,
        emitterId: 'dc_1',
        ownerId: 'u_1',
        channel: '',
        lastEventId: undefined,
        mayRead: async () => true,
      };
      opened.push(streams.open(response, options));
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    try {
      const asked = fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
      const cutOff = assert.rejects(asked, (error: Error) => /other side closed/.test(String(error.cause)));
      await within(cutOff, patienceMs, 'the connection to end');
      await Promise.all(opened);
      assert.deepEqual([opened.length, streams.count, subscribed.size], [1, 0, 0]);
    } finally {
      streams.close();
      server.closeAllConnections();
      server.close();
    }
  });

  describe('a stream whose reader gets no event', () => {
    const place = { emitterId: 'dc_1', channel: '' };
    const opened: LiveStreams[] = [];
    afterEach(() => {
      for (const streams of opened.splice(0)) streams.close();
    });
    const open = async (
      keepAliveMs: number,
      mayRead: () => Promise<boolean>,
      bus = new EventBus(silentLogger),
    ) => {
      await fixture.store.transaction((tx) => insertEmitter(tx, { id: 'dc_1', ownerId: 'u_1' }));
      const written: string[] = [];
      const response = Object.assign(new EventEmitter(), {
        writableLength: 0,
        writeHead: () => {},
        end: () => written.push('end'),
        destroy: () => {},
        write: (message: string | Buffer) => written.push(String(message)),
      });
      const streams = new LiveStreams({ keepAliveMs });
      await streams.open(response as unknown as ServerResponse, {
        store: fixture.store,
        bus,
        logger: silentLogger,
        ...place,
        ownerId: 'u_1',
        lastEventId: undefined,
        mayRead,
      });
      opened.push(streams);
      return { written };
    };
    const emit = (store: Store, event: string) =>
      store.transaction((tx) =>
        emitUnheard(
          store,
          tx,
          [{ emitterId: 'dc_1', hops: 0, events: [{ channel: '', event }] }],
          1_800_000_000_000,
        ),
      );

    test('ends soon after the reader lost its right, and not before', async () => {
      let allowed = true;
      let asked = 0;
      const { written } = await open(10, async () => {
        asked += 1;
        return allowed;
      });
      await waitFor(() => asked >= 3);
      assert.equal(written.includes('end'), false);
      allowed = false;
      await waitFor(() => written.includes('end'));
    });

    test('ends when the right cannot be looked up', async () => {
      const { written } = await open(10, () => Promise.reject(new Error('the store is away')));
      await waitFor(() => written.includes('end'));
    });

    test('still gets events whose notification was lost, and ends when its emitter is gone', async () => {
      const { written } = await open(10, async () => true);
      await emit(fixture.store, '"lost"');
      await waitFor(() => written.some((text) => text.includes('"lost"')));
      await fixture.store.transaction((tx) => deleteEmitter(tx, 'dc_1', 100));
      await waitFor(() => written.includes('end'));
    });

    if (fixture.dialect === 'postgres') {
      test('gets at once what another process stores, and ends at once when that removes the emitter', async () => {
        const other = await fixture.open();
        const bus = new EventBus(silentLogger);
        const heard: string[] = [];
        fixture.store.onNotify((channel, notice) => {
          if (channel !== 'millrace_events') return;
          heard.push(notice);
          bus.heard(notice);
        });
        const { written } = await open(60_000, async () => true, bus);
        await emit(other, '"theirs"');
        await waitFor(() => written.some((text) => text.includes('"theirs"')));
        await other.transaction((tx) =>
          removeEmitter(other, tx, { id: 'dc_1', ownerId: 'u_1' }, 1_800_000_000_000),
        );
        await waitFor(() => written.includes('end'));
        assert.deepEqual(heard, ['u_1:dc_1', '-dc_1']);
      });
    }
  });
});
