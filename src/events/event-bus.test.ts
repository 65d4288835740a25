import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLogger } from '#lib/logger.ts';
import type { StoredEvent } from './event.ts';
import { type BusListener, EventBus, type OwnerListener } from './event-bus.ts';
import { removedNotice, storedNotice } from './event-notice.ts';

const event = (emitterId: string, seq: number, ownerId = 'o_1') =>
  ({ emitter_id: emitterId, owner_id: ownerId, channel: '', ms: 1, seq }) as StoredEvent;
const stored = (...emitters: string[]) =>
  storedNotice(emitters.map((emitter) => event(emitter, 1, emitter.startsWith('dc_other') ? 'o_2' : 'o_1')));

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

test('an observer of removals is notified of each, also of those of another process', () => {
  const bus = new EventBus(silentLogger);
  const removed: string[] = [];
  bus.observeRemovals((id) => removed.push(id));
  bus.emitterRemoved('dc_1');
  bus.heard(removedNotice('p_1'));
  assert.deepEqual(removed, ['dc_1', 'p_1']);
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

test('what another process stored or removed is reported only to the readers of those emitters', () => {
  const bus = new EventBus(silentLogger);
  const seen: string[] = [];
  for (const n of [1, 2, 3]) bus.subscribe(`dc_${n}`, listener(seen, `${n}`));
  bus.heard(stored('dc_1', 'dc_other', 'dc_3', 'dc_1', 'dc_unread'));
  bus.heard(removedNotice('dc_2'));
  assert.deepEqual(seen.splice(0), ['1 elsewhere', '3 elsewhere', '2 removed']);
  bus.heard('');
  assert.deepEqual(seen.splice(0), ['1 elsewhere', '2 elsewhere', '3 elsewhere']);
  const many = Array.from({ length: 10_000 }, (_, n) => `dc_${n}`);
  assert.equal(stored(...many), '', 'too many to name are reported to all listeners');
});

test('a listener may leave while it is notified', () => {
  const bus = new EventBus(silentLogger);
  const seen: string[] = [];
  const leave = bus.subscribe('dc_1', { ...listener(seen, 'a'), event: () => leave() });
  bus.subscribe('dc_1', listener(seen, 'b'));
  bus.publish([event('dc_1', 1), event('dc_1', 2)]);
  assert.deepEqual(seen, ['b 1', 'b 2']);
});

test('a listener to an owner is notified of all emitters of that owner, new ones too, and of no other', () => {
  const bus = new EventBus(silentLogger);
  const seen: string[] = [];
  const listener = (name: string): OwnerListener => ({
    event: ({ emitter_id, seq }) => seen.push(`${name} ${emitter_id} ${seq}`),
    storedElsewhere: (emitterId = 'anything') => seen.push(`${name} elsewhere ${emitterId}`),
    emitterRemoved: (emitterId) => seen.push(`${name} removed ${emitterId}`),
  });
  const leave = bus.subscribeToOwner('o_1', listener('1'));
  bus.subscribeToOwner('o_2', listener('2'));
  bus.publish([event('dc_1', 1), event('dc_other', 2, 'o_2'), event('dc_3', 3), event('dc_4', 4, 'u_1')]);
  assert.deepEqual(seen.splice(0), ['1 dc_1 1', '2 dc_other 2', '1 dc_3 3']);
  bus.heard(stored('dc_1', 'dc_other', 'dc_new', 'dc_1'));
  assert.deepEqual(seen.splice(0), ['1 elsewhere dc_1', '1 elsewhere dc_new', '2 elsewhere dc_other']);
  bus.heard(removedNotice('dc_1'));
  bus.heard('');
  assert.deepEqual(seen.splice(0), [
    '1 removed dc_1',
    '2 removed dc_1',
    '1 elsewhere anything',
    '2 elsewhere anything',
  ]);
  leave();
  bus.publish([event('dc_1', 5)]);
  bus.heard('');
  assert.deepEqual(seen, ['2 elsewhere anything']);
});
