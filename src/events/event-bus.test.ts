import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLogger } from '#lib/logger.ts';
import type { StoredEvent } from './event.ts';
import { type BusListener, EventBus } from './event-bus.ts';
import { removedNotice, storedNotice } from './event-notice.ts';

const event = (emitterId: string, seq: number) =>
  ({ emitter_id: emitterId, channel: '', ms: 1, seq }) as StoredEvent;

function listener(seen: string[], name: string): BusListener {
  return {
    event: ({ seq }) => seen.push(`${name} ${seq}`),
    storedElsewhere: () => seen.push(`${name} elsewhere`),
    emitterRemoved: () => seen.push(`${name} removed`),
  };
}

const broken: BusListener = {
  event: () => {
    throw new Error('broken reader');
  },
  storedElsewhere: () => {
    throw new Error('broken reader');
  },
  emitterRemoved: () => {
    throw new Error('broken reader');
  },
};

test('a listener gets the events of its emitter, in order, until it leaves', () => {
  const bus = new EventBus(silentLogger);
  const seen: string[] = [];
  const leave = bus.subscribe('dc_1', listener(seen, 'a'));
  bus.subscribe('dc_2', listener(seen, 'b'));
  bus.publish([event('dc_1', 1), event('dc_2', 2), event('dc_1', 3)]);
  assert.deepEqual(seen, ['a 1', 'b 2', 'a 3']);
  leave();
  leave();
  bus.publish([event('dc_1', 4), event('dc_2', 5)]);
  bus.emitterRemoved('dc_1');
  bus.emitterRemoved('dc_2');
  bus.heard('');
  assert.deepEqual(seen.slice(3), ['b 5', 'b removed', 'b elsewhere']);
});

test('a listener or observer that throws keeps nothing from the others, nor from the publisher', () => {
  const bus = new EventBus(silentLogger);
  const seen: string[] = [];
  bus.observe(() => {
    throw new Error('broken observer');
  });
  bus.observe((events) => seen.push(`observed ${events.length}`));
  bus.subscribe('dc_1', broken);
  bus.subscribe('dc_1', listener(seen, 'a'));
  bus.publish([event('dc_1', 1), event('dc_1', 2)]);
  bus.heard('');
  bus.emitterRemoved('dc_1');
  assert.deepEqual(seen, ['observed 2', 'a 1', 'a 2', 'a elsewhere', 'a removed']);
});

test('what another process stored or removed is told to the readers of those emitters alone', () => {
  const bus = new EventBus(silentLogger);
  const seen: string[] = [];
  for (const n of [1, 2, 3]) bus.subscribe(`dc_${n}`, listener(seen, `${n}`));
  bus.heard(storedNotice(['dc_1', 'dc_3', 'dc_1', 'dc_unread']));
  bus.heard(removedNotice('dc_2'));
  assert.deepEqual(seen.splice(0), ['1 elsewhere', '3 elsewhere', '2 removed']);
  bus.heard('');
  assert.deepEqual(seen.splice(0), ['1 elsewhere', '2 elsewhere', '3 elsewhere']);
  const many = Array.from({ length: 10_000 }, (_, n) => `dc_${n}`);
  assert.equal(storedNotice(many), '', 'too many to name are told to everybody');
});

test('a listener may leave while it is told', () => {
  const bus = new EventBus(silentLogger);
  const seen: string[] = [];
  const leave = bus.subscribe('dc_1', { ...listener(seen, 'a'), event: () => leave() });
  bus.subscribe('dc_1', listener(seen, 'b'));
  bus.publish([event('dc_1', 1), event('dc_1', 2)]);
  assert.deepEqual(seen, ['b 1', 'b 2']);
});
