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
  for (const one of connections) slots.take(mine, one);
  assert.throws(() => slots.take(mine, connection()), {
    code: 'streams_busy',
    details: { limit: 2, retry_after: 5, reset_at: 1_800_000_005 },
  });
  slots.take({ keyId: 'key_2', userId: 'u_1' }, connection());
  connections[0]?.emit('close');
  slots.take(mine, connection());
  assert.throws(() => slots.take(mine, connection()), { code: 'streams_busy' });
});

test('a user has at most the streams of four keys, however many keys they have', () => {
  const slots = new StreamSlots({ clock, perKeyMax: 2 });
  for (let stream = 0; stream < 8; stream += 1)
    slots.take({ keyId: `key_${stream}`, userId: 'u_1' }, connection());
  assert.throws(() => slots.take({ keyId: 'key_9', userId: 'u_1' }, connection()), {
    code: 'streams_busy',
    message: /this user/,
    details: { limit: 8, retry_after: 5, reset_at: 1_800_000_005 },
  });
  slots.take({ keyId: 'key_10', userId: 'u_2' }, connection());
});

test('a reader that left before it was counted takes no place', () => {
  const slots = new StreamSlots({ clock, perKeyMax: 1 });
  const mine = { keyId: 'key_1', userId: 'u_1' };
  slots.take(mine, Object.assign(connection(), { destroyed: true }));
  slots.take(mine, connection());
});
