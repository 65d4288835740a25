import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Logger, silentLogger } from '#lib/logger.ts';
import { ShareRecords } from './share-records.ts';

function recordsAt(time: { nowMs: number }) {
  const logged: unknown[] = [];
  const logger: Logger = {
    ...silentLogger,
    warn: (fields: unknown, event?: string) => void logged.push({ event, ...(fields as object) }),
  };
  return { records: new ShareRecords({ logger, nowMs: () => time.nowMs }), logged };
}

test('calls that wait or are refused because of a share are counted by resource and by owner', () => {
  const { records } = recordsAt({ nowMs: 0 });
  records.delayed('a', 'processes');
  records.delayed('b', 'memory');
  records.refused('a', 'processes', 'why');
  assert.deepEqual(records.byResource, {
    processes: { delayed: 1, refused: 1 },
    memory: { delayed: 1, refused: 0 },
    connections: { delayed: 0, refused: 0 },
  });
  const { delayed, refused } = records.byOwner.get('a') ?? {};
  assert.deepEqual([delayed, refused, records.byOwner.get('b')?.refused], [1, 1, 0]);
});

test('the log has one line a minute for an owner and a resource, with the number of those refused since the last', () => {
  const time = { nowMs: 5 };
  const { records, logged } = recordsAt(time);
  for (let n = 0; n < 3; n += 1) records.refused('a', 'memory', 'why');
  records.refused('a', 'processes', 'why');
  time.nowMs += 60_000;
  records.refused('a', 'memory', 'why');
  const line = { event: 'share.refused', owner: 'a', reason: 'why' };
  assert.deepEqual(logged, [
    { ...line, resource: 'memory', refused: 1 },
    { ...line, resource: 'processes', refused: 1 },
    { ...line, resource: 'memory', refused: 3 },
  ]);
});

test('counts of a thousand owners are kept', () => {
  const { records } = recordsAt({ nowMs: 0 });
  for (let n = 0; n <= 1_000; n += 1) records.delayed(`o${n}`, 'memory');
  assert.deepEqual([records.byOwner.size, records.byOwner.has('o0')], [1_000, false]);
  assert.equal(records.byResource.memory.delayed, 1_001);
});
