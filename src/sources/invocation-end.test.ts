import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CallOutcome } from '#runner/call-outcome.ts';
import { defaultRunnerLimits } from '#runner/runner-limits.ts';
import type { Deployment } from './deployment.ts';
import { endOfInvocation } from './invocation-end.ts';

const keysOf = (count: number, prefix = 'k') =>
  Object.fromEntries(Array.from({ length: count }, (_, n) => [`${prefix}${n}`, '1']));

/** What a run stores that sets these keys. */
function endOf(db: Record<string, string>, dbSets: Record<string, string>) {
  const source = { id: 'dc_1', owner_id: 'u_1' };
  const outcome = { status: 'finished', emits: [], logs: [], logsDropped: 0, durationMs: 1, dbSets };
  return endOfInvocation(
    { source, shape: {}, revision: '1' } as unknown as Deployment,
    outcome as unknown as CallOutcome,
    {
      ...{ db, redact: (text: string) => text, nowMs: 1, originalEvent: undefined, hops: 0, isRun: true },
      limits: { deadlineMs: 1, memoryMb: 1, componentDbBytesMax: 1024 * 1024 },
      isStale: () => false,
    },
  );
}

test('a db with more keys than are allowed is not stored, and the error says so', () => {
  const { dbKeysMax } = defaultRunnerLimits;
  assert.equal(Object.keys(endOf(keysOf(dbKeysMax - 1), { new: '1' }).dbSets).length, 1);
  const { dbSets, run } = endOf(keysOf(dbKeysMax), { new: '1' });
  assert.deepEqual(dbSets, {});
  assert.match(
    run?.failure ?? '',
    /would have 10,001 keys, at most 10,000 are allowed: nothing that this run set was stored/,
  );
});

test('a db that had more keys before may change them', () => {
  const before = keysOf(defaultRunnerLimits.dbKeysMax + 5);
  assert.deepEqual(endOf(before, { k1: '2' }).dbSets, { k1: '2' });
  assert.deepEqual(endOf(before, { new: '2' }).dbSets, {});
});
