import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import type { ServerResponse } from 'node:http';
import { afterEach, test } from 'node:test';
import { removeEmitter } from '#events/delete-events.ts';
import type { StoredEvent } from '#events/event.ts';
import { EventBus } from '#events/event-bus.ts';
import { compareEventIds, formatEventId, parseEventId } from '#events/event-id.ts';
import { storedNotice } from '#events/event-notice.ts';
import { deleteEmitter, deleteEventRange, insertEmitter } from '#events/event-store.ts';
import { type Logger, silentLogger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import { emitUnheard } from '../../test/support/no-subscribers.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { waitFor, within } from '../../test/support/wait-for.ts';
import { LiveStreams } from './live-streams.ts';
import { StreamMark } from './stream-mark.ts';

const startMs = 1_800_000_000_000;
const workspace = 'o_1';

/** A connection whose reader takes what it gets, unless it is stuck. */
class Reader extends EventEmitter {
  writableLength = 0;
  destroyed = false;
  isEnded = false;
  text = '';

  writeHead(): void {}

  write(message: string | Buffer): void {
    this.text += message.toString();
  }

  end(): void {
    this.isEnded = true;
  }

  destroy(): void {
    this.isEnded = true;
    this.destroyed = true;
  }

  stick(): void {
    this.writableLength = 2 ** 21;
  }

  drain(): void {
    this.writableLength = 0;
    this.emit('drain');
  }

  leave(): void {
    this.drain();
    this.emit('close');
  }

  get messages(): { id: string | undefined; type: string; data: Record<string, unknown> }[] {
    const parts = this.text.split('\n\n').filter((part) => part.includes('data: '));
    return parts.map((part) => ({
      id: /^id: (.*)$/m.exec(part)?.[1],
      type: /^event: (.*)$/m.exec(part)?.[1] ?? 'message',
      data: JSON.parse(/^data: (.*)$/m.exec(part)?.[1] ?? ''),
    }));
  }

  /** `<emitter> <id>` of each event; other messages by their type. */
  get events(): string[] {
    return this.messages.map(({ type, data }) => {
      const { emitter_id } = { ...data, ...(data.metadata as object) } as { emitter_id?: string };
      return `${emitter_id} ${type === 'message' ? data.id : type}`;
    });
  }

  get mark(): StreamMark | undefined {
    const id = this.messages.findLast((message) => message.id !== undefined)?.id;
    return id === undefined ? undefined : StreamMark.parse(id, 'id');
  }
}

forEachStore((fixture) => {
  const opened: LiveStreams[] = [];
  afterEach(() => {
    for (const streams of opened.splice(0)) streams.close();
  });

  /** A process: its bus, its clock, its streams. */
  function createNode(options: { keepAliveMs?: number; store?: Store; logger?: Logger } = {}) {
    const { keepAliveMs = 60_000, store = fixture.store, logger = silentLogger } = options;
    const bus = new EventBus(logger);
    const streams = new LiveStreams({ keepAliveMs });
    opened.push(streams);
    const node = { nowMs: startMs, bus, streams };
    return Object.assign(node, {
      async open(mark?: StreamMark, channel = ''): Promise<Reader> {
        const reader = new Reader();
        await streams.openWorkspace(reader as unknown as ServerResponse, {
          ...{ store, bus, logger, channel, mark },
          clock: { now: () => node.nowMs },
          workspaceId: workspace,
          mayRead: async () => true,
        });
        return reader;
      },
    });
  }

  async function createEmitters(...ids: string[]): Promise<void> {
    await fixture.store.transaction(async (tx) => {
      for (const id of ids) {
        const empty = { sealed_props: null, dynamic_props: null, change_id: null, change_node: null };
        await tx
          .insertInto('sources')
          .values({
            ...{ id, owner_id: workspace, user_id: 'u_1', component_id: 'sc_1', name: id, name_slug: id },
            ...{ configured_props: '{}', state: 'active', ...empty, before_change: null, endpoint_key: null },
            ...{ revision: 1, concurrency: 1, isolated: 0, created_at_ms: startMs, updated_at_ms: startMs },
          })
          .execute();
        await insertEmitter(tx, { id, ownerId: workspace });
      }
    });
  }

  async function emit(
    emitterId: string,
    options: { count?: number; channel?: string; size?: number; nowMs?: number } = {},
  ): Promise<StoredEvent[]> {
    const { count = 1, channel = '', size = 0, nowMs = startMs } = options;
    const events = Array.from({ length: count }, () => ({
      channel,
      event: JSON.stringify('x'.repeat(size)),
    }));
    const [result] = await fixture.store.transaction((tx) =>
      emitUnheard(fixture.store, tx, [{ emitterId, hops: 0, events }], nowMs),
    );
    assert.ok(result?.accepted === true);
    return result.stored;
  }

  const named = (events: StoredEvent[]) =>
    events.map((event) => `${event.emitter_id} ${formatEventId(event)}`);

  test('whichever node stores an event, and whenever the others hear of it, each reader gets all of each emitter in order', async () => {
    const node = createNode({ keepAliveMs: 20 });
    const emitters = ['dc_1', 'dc_2', 'dc_3'];
    await createEmitters(...emitters);
    // Not random from run to run: a fault found is found again.
    let state = 42;
    const random = (below: number) => {
      state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
      return Math.floor((state / 2 ** 31) * below);
    };
    const steady = await node.open();
    const leaving = [await node.open()];
    const expected: string[] = [];
    const late: (() => void)[] = [];
    for (let step = 0; step < 250; step += 1) {
      const emitterId = emitters[random(emitters.length)] ?? '';
      // The clock goes back too.
      node.nowMs = startMs + random(5_000);
      const channel = random(4) === 0 ? '$logs' : '';
      const stored = await emit(emitterId, { count: 1 + random(2), channel, nowMs: node.nowMs });
      if (channel === '') expected.push(...named(stored));
      const hear = [
        () => node.bus.publish(stored),
        () => node.bus.publish(stored),
        () => node.bus.heard(storedNotice(stored)),
        () => node.bus.heard(''),
        // Lost: the next look finds it.
        () => undefined,
      ][random(5)];
      if (random(3) === 0) late.push(hear ?? (() => undefined));
      else hear?.();
      if (random(4) === 0) late.shift()?.();
      // So that readers come and go at each stage of what the feed does.
      for (let turns = random(12); turns > 0; turns -= 1) await new Promise(setImmediate);
      const reader = leaving.at(-1);
      if (random(6) === 0) steady.stick();
      if (random(3) === 0) steady.drain();
      if (random(5) === 0 && reader?.mark !== undefined) {
        reader.leave();
        leaving.push(await node.open(reader.mark));
      }
      if (step === 75) {
        emitters.push('dc_4');
        await createEmitters('dc_4');
      }
    }
    for (const hear of late) hear();
    steady.drain();
    const all = new Set(expected);
    await waitFor(() => new Set(steady.events).size === all.size, {
      what: 'all events, by the steady reader',
    });
    await waitFor(() => new Set(leaving.flatMap(({ events }) => events)).size === all.size, {
      what: 'all events, by the one that leaves and comes back',
    });
    assert.equal(steady.events.length, all.size, 'none twice for a reader that stays');
    for (const { events } of [steady, ...leaving]) {
      for (const emitterId of emitters) {
        const ids = events
          .filter((event) => event.startsWith(`${emitterId} `))
          .map((event) => parseEventId(event.split(' ')[1] ?? '', 'id'));
        for (const [at, id] of ids.entries())
          assert.ok(
            at === 0 || compareEventIds(id, ids[at - 1] ?? id) > 0,
            `${emitterId} ${formatEventId(id)}`,
          );
      }
    }
  });

  test('an event whose notification was lost is found, and the first event of a reader says where to resume', async () => {
    const node = createNode({ keepAliveMs: 10 });
    await createEmitters('dc_1', 'dc_2');
    const reader = await node.open();
    const lost = await emit('dc_1');
    await waitFor(() => reader.events.includes(named(lost)[0] ?? ''));
    const next = await node.open();
    node.bus.publish(await emit('dc_2'));
    await waitFor(() => next.messages.length === 1);
    assert.ok(next.messages[0]?.id !== undefined && reader.messages[0]?.id !== undefined);
    node.bus.publish(await emit('dc_2'));
    await waitFor(() => next.messages.length === 2);
    assert.equal(next.messages[1]?.id, undefined, 'then once a second');
  });

  test('a reader that falls behind the backlog continues from the store, and is told what is gone', async () => {
    const node = createNode();
    await createEmitters('dc_1', 'dc_2');
    const [slow, quick] = [await node.open(), await node.open()];
    const publish = async (...what: Parameters<typeof emit>) => {
      const stored = await emit(...what);
      node.bus.publish(stored);
      return stored;
    };
    const before = await publish('dc_1');
    slow.stick();
    const stored = [...(await publish('dc_2')), ...(await publish('dc_1', { count: 5, size: 2_500_000 }))];
    const [, , doomed] = stored;
    assert.ok(doomed !== undefined);
    await fixture.store.transaction((tx) =>
      deleteEventRange(tx, { emitterId: 'dc_1', channel: '', start: doomed, end: doomed, limit: 1 }),
    );
    slow.drain();
    await waitFor(() => slow.events.length >= 6);
    const after = await publish('dc_2');
    await waitFor(() => slow.events.includes(named(after)[0] ?? ''));
    await waitFor(() => quick.events.includes(named(after)[0] ?? ''));
    assert.deepEqual(quick.events, named([...before, ...stored, ...after]));
    const kept = [...before, ...stored.filter((event) => event !== doomed), ...after];
    assert.deepEqual(slow.events.toSorted(), named(kept).toSorted());
  });

  test('what was pruned before another process reported it is a gap of that emitter', async () => {
    const node = createNode();
    await createEmitters('dc_1', 'dc_2');
    const reader = await node.open();
    const [seen] = await emit('dc_1');
    assert.ok(seen !== undefined);
    node.bus.publish([seen]);
    const missed = await emit('dc_1', { count: 120 });
    await fixture.store.transaction((tx) =>
      deleteEventRange(tx, { emitterId: 'dc_1', channel: '', end: missed[19] ?? seen, limit: 100 }),
    );
    node.bus.heard(storedNotice(missed));
    node.bus.publish(await emit('dc_2'));
    await waitFor(() => reader.messages.length === 103);
    const [, gap] = reader.messages.filter(({ data }) => !JSON.stringify(data).includes('dc_2'));
    assert.equal(gap?.type, 'gap');
    assert.equal(gap.id, undefined);
    assert.deepEqual([gap.data.emitter_id, gap.data.after], ['dc_1', formatEventId(seen)]);
  });

  test('a reader of many emitters resumes with a short mark, and misses nothing', async () => {
    const node = createNode();
    const ids = Array.from({ length: 120 }, (_, n) => `dc_${String(n).padStart(12, '0')}`);
    await createEmitters(...ids);
    node.nowMs = startMs + 100_000;
    for (const id of ids.slice(0, 60)) await emit(id, { nowMs: startMs + 1 });
    const reader = await node.open();
    for (const id of ids.slice(30, 100)) node.bus.publish(await emit(id, { nowMs: node.nowMs }));
    node.nowMs += 1_001;
    node.bus.publish(await emit(ids[0] ?? '', { nowMs: node.nowMs }));
    await waitFor(() => reader.messages.length === 71);
    const { mark } = reader;
    assert.ok(mark !== undefined && String(mark).length < 2_000, String(mark));
    reader.leave();
    node.nowMs += 10;
    const missed: StoredEvent[] = [];
    for (const id of ids) missed.push(...(await emit(id, { nowMs: node.nowMs })));
    const again = await node.open(mark);
    await waitFor(() => named(missed).every((event) => again.events.includes(event)));
    assert.equal(
      again.events.some((event) => event.endsWith('gap')),
      false,
    );
  });

  test('a stream continues when an emitter is removed, wherever that happens, and sends what comes of others', async () => {
    const node = createNode();
    await createEmitters('dc_1', 'dc_2');
    const reader = await node.open();
    node.bus.publish(await emit('dc_1'));
    await fixture.store.transaction((tx) =>
      removeEmitter(fixture.store, tx, { id: 'dc_1', ownerId: workspace }, startMs),
    );
    node.bus.heard('-dc_1');
    node.bus.heard(storedNotice([{ emitter_id: 'dc_1', owner_id: workspace }]));
    const other = await emit('dc_2');
    node.bus.heard(storedNotice(other));
    await waitFor(() => reader.events.includes(named(other)[0] ?? ''));
    assert.equal(reader.isEnded, false);
  });

  test('nothing is kept when the last reader has gone, or when the store is away', async () => {
    const node = createNode();
    await createEmitters('dc_1');
    let listening = 0;
    const { subscribeToOwner } = node.bus;
    node.bus.subscribeToOwner = (...parameters) => {
      listening += 1;
      const leave = subscribeToOwner.apply(node.bus, parameters);
      return () => {
        listening -= 1;
        leave();
      };
    };
    const [a, b] = [await node.open(), await node.open(undefined, 'orders')];
    assert.deepEqual([listening, node.streams.count], [1, 2], 'one feed for all readers');
    a.leave();
    b.leave();
    assert.deepEqual([listening, node.streams.count], [0, 0]);
    const gone = Object.assign(new Reader(), { destroyed: true });
    const { streams, bus } = node;
    const options = { bus, logger: silentLogger, workspaceId: workspace, channel: '', mark: undefined };
    const clock = { now: () => startMs };
    const mayRead = async () => true;
    await streams.openWorkspace(gone as unknown as ServerResponse, {
      ...options,
      ...{ clock, mayRead, store: fixture.store },
    });
    assert.deepEqual([listening, node.streams.count], [0, 0], 'nor for one that left while it was opened');

    const away = new Proxy(fixture.store.read, {
      get: () => () => {
        throw new Error('the store is away');
      },
    });
    const store = Object.create(fixture.store, { read: { value: away } }) as Store;
    const cutOff = new Reader();
    await within(
      streams.openWorkspace(cutOff as unknown as ServerResponse, {
        ...options,
        ...{ clock, mayRead, store },
      }),
      5_000,
      'the stream to be cut off',
    );
    assert.deepEqual([cutOff.destroyed, listening, node.streams.count], [true, 0, 0]);
    const back = await node.open();
    node.bus.publish(await emit('dc_1'));
    await waitFor(() => back.events.length === 1, { what: 'the next reader to get a feed again' });
  });

  test('readers are told when the store can no longer be read, because they would miss something', async () => {
    let isAway = false;
    const read = new Proxy(fixture.store.read, {
      get: (target, property) => {
        if (isAway) throw new Error('the store is away');
        const value = Reflect.get(target, property);
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
    const node = createNode({ store: Object.create(fixture.store, { read: { value: read } }) as Store });
    await createEmitters('dc_1');
    const reader = await node.open();
    isAway = true;
    node.bus.heard(storedNotice(await emit('dc_1')));
    await waitFor(() => reader.isEnded);
    assert.deepEqual(reader.messages.at(-1), {
      id: undefined,
      type: 'end',
      data: { reason: 'the store could not be read' },
    });
    await fixture.store.transaction((tx) => deleteEmitter(tx, 'dc_1', 10));
  });
});
