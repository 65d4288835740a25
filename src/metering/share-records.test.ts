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
  const { processes, memory, connections, builds } = records.byResource;
  assert.deepEqual(
    [processes, memory, connections, builds].map(({ delayed, refused }) => [delayed, refused]),
    [
      [1, 1],
      [1, 0],
      [0, 0],
      [0, 0],
    ],
  );
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

test('an owner sees what was delayed and refused of it alone, with the last time and the last reason', () => {
  const time = { nowMs: 5 };
  const { records } = recordsAt(time);
  records.delayed('a', 'runs');
  records.refused('a', 'builds', 'too many wait');
  time.nowMs = 9;
  records.delayed('a', 'builds');
  records.refused('b', 'builds', 'of another');
  assert.deepEqual(
    [...records.of('a')],
    [
      ['runs', { delayed: 1, refused: 0, atMs: 5, reason: undefined }],
      ['builds', { delayed: 1, refused: 1, atMs: 9, reason: 'too many wait' }],
    ],
  );
  assert.equal(records.of('c').size, 0);
});
