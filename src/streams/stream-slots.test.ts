import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import type { ServerResponse } from 'node:http';
import { test } from 'node:test';
import { TestClock } from '../../test/support/test-clock.ts';
import { StreamSlots } from './stream-slots.ts';

const connection = () => Object.assign(new EventEmitter(), { destroyed: false }) as unknown as ServerResponse;
const clock = new TestClock(1_800_000_000_000);

test('a key has a maximum of open streams, and its places are free again when connections close', () => {
  const slots = new StreamSlots({ clock, perKeyMax: 2 });
  const mine = { keyId: 'key_1', userId: 'u_1' };
  const connections = [connection(), connection()];
  for (const one of connections) slots.take(mine, one, 'o_1');
  assert.throws(() => slots.take(mine, connection(), 'o_1'), {
    code: 'streams_busy',
    details: { limit: 2, retry_after: 5, reset_at: 1_800_000_005 },
  });
  slots.take({ keyId: 'key_2', userId: 'u_1' }, connection(), 'o_1');
  connections[0]?.emit('close');
  slots.take(mine, connection(), 'o_1');
  assert.throws(() => slots.take(mine, connection(), 'o_1'), { code: 'streams_busy' });
});

test('a user has at most the streams of four keys, however many keys they have', () => {
  const slots = new StreamSlots({ clock, perKeyMax: 2 });
  for (let stream = 0; stream < 8; stream += 1)
    slots.take({ keyId: `key_${stream}`, userId: 'u_1' }, connection(), 'o_1');
  assert.throws(() => slots.take({ keyId: 'key_9', userId: 'u_1' }, connection(), 'o_1'), {
    code: 'streams_busy',
    message: /this user/,
    details: { limit: 8, retry_after: 5, reset_at: 1_800_000_005 },
  });
  slots.take({ keyId: 'key_10', userId: 'u_2' }, connection(), 'o_1');
});

test('the streams of what an owner has may be limited, whichever user reads them', () => {
  let refusals = 0;
  const slots = new StreamSlots({
    ...{ clock, perKeyMax: 10 },
    perOwnerMax: (ownerId) => (ownerId === 'o_1' ? 1 : 0),
    onOwnerRefused: () => {
      refusals += 1;
    },
  });
  const first = connection();
  slots.take({ keyId: 'key_1', userId: 'u_1' }, first, 'o_1');
  const second = { keyId: 'key_2', userId: 'u_2' };
  assert.throws(() => slots.take(second, connection(), 'o_1'), {
    code: 'quota_exceeded',
    message: /^quota used up: 1 open streams on each node; close one/,
    details: { quota: 'streams', limit: 1, retry_after: 5, reset_at: 1_800_000_005 },
  });
  assert.deepEqual([refusals, slots.openOf('o_1')], [1, 1]);
  slots.take(second, connection(), 'o_2');
  first.emit('close');
  slots.take(second, connection(), 'o_1');
});

test('an owner has three quarters of all streams while others have none, and a quarter while they have the rest', () => {
  const refused: string[] = [];
  const shares = { delayed: () => {}, refused: (ownerId: string) => refused.push(ownerId) };
  const slots = new StreamSlots({ clock, perKeyMax: 100, max: 8, shares });
  const open = (ownerId: string) => {
    const one = connection();
    slots.take({ keyId: `key_${ownerId}`, userId: `u_${ownerId}` }, one, ownerId);
    return one;
  };
  const greedy = Array.from({ length: 6 }, () => open('o_greedy'));
  assert.throws(() => open('o_greedy'), {
    code: 'streams_busy',
    message:
      'too many live streams are open: found 6 of this owner, which is its share while 6 of 8 are open on this node; close some',
    details: { limit: 6, retry_after: 5, reset_at: 1_800_000_005 },
  });
  open('o_other');
  open('o_other');
  assert.throws(() => open('o_other'), { code: 'streams_busy' });
  assert.deepEqual(refused, ['o_greedy', 'o_other']);
  greedy[0]?.emit('close');
  assert.throws(() => open('o_greedy'), { code: 'streams_busy' });
  open('o_late');
  assert.deepEqual([slots.openOf('o_greedy'), slots.openOf('o_late')], [5, 1]);
});

test('a reader that left before it was counted takes no place', () => {
  const slots = new StreamSlots({ clock, perKeyMax: 1 });
  const mine = { keyId: 'key_1', userId: 'u_1' };
  slots.take(mine, Object.assign(connection(), { destroyed: true }), 'o_1');
  slots.take(mine, connection(), 'o_1');
});
