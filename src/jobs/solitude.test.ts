import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Deferred } from '#lib/deferred.ts';
import { silentLogger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import type { LeasedJob } from './job-store.ts';
import { Solitude } from './solitude.ts';

const hourMs = 3_600_000;
const times = { provenMs: hourMs, aloneMs: hourMs, betweenMs: hourMs };
const named = (id: string) => ({ id, kind: 'run_source', lane: null }) as LeasedJob;

function suspectsOf(suspects: LeasedJob[]) {
  const begun: { job: LeasedJob; ended: Deferred<void> }[] = [];
  const counts = { claims: 0, over: 0 };
  const hasBegun = [new Deferred<void>(), new Deferred<void>()];
  const solitude = new Solitude({
    store: {} as Store,
    logger: silentLogger,
    times,
    claim: async () => {
      counts.claims += 1;
      return suspects.shift();
    },
    begin: (job) => {
      const ended = new Deferred<void>();
      hasBegun[begun.length]?.resolve();
      begun.push({ job, ended });
      return ended.promise;
    },
    onOver: () => {
      counts.over += 1;
    },
  });
  return { solitude, begun, counts, hasBegun: hasBegun.map(({ promise }) => promise) };
}

test('suspects begin one at a time, when what runs has ended, and nothing else begins until they have', async () => {
  const [first, second, other] = ['first', 'second', 'other'].map(named) as [LeasedJob, LeasedJob, LeasedJob];
  const { solitude, begun, counts, hasBegun } = suspectsOf([first, second]);
  assert.equal(solitude.mayBegin(other), undefined);
  const before = new Deferred<void>();
  const run = solitude.run([before.promise]);
  assert.deepEqual([solitude.isUnderWay, counts.claims], [true, 0]);
  let otherBegan = false;
  const otherBegins = solitude.mayBegin(other)?.then(() => {
    otherBegan = true;
  });
  before.resolve();
  await hasBegun[0];
  assert.equal(solitude.mayBegin(first), undefined);
  assert.notEqual(solitude.mayBegin(second), undefined);
  begun[0]?.ended.resolve();
  await hasBegun[1];
  assert.deepEqual([begun.map(({ job }) => job.id), otherBegan], [['first', 'second'], false]);
  begun[1]?.ended.resolve();
  await run;
  await otherBegins;
  assert.deepEqual([solitude.isUnderWay, counts.over, otherBegan], [false, 1, true]);
  // Its timers end with it.
  solitude.stop();
});

test('the others have their time before suspects are alone again', async () => {
  const { solitude, counts } = suspectsOf([]);
  await solitude.run([]);
  assert.deepEqual(counts, { claims: 1, over: 1 });
  await solitude.run([]);
  assert.deepEqual(counts, { claims: 1, over: 1 });
  solitude.stop();
});

test('a stop ends the wait for what runs, and no suspect begins', async () => {
  const { solitude, begun } = suspectsOf([named('first')]);
  const run = solitude.run([new Promise(() => {})]);
  solitude.stop();
  await run;
  assert.equal(begun.length, 0);
});
