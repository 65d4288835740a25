import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { UnavailableError } from '#lib/errors.ts';
import { ArrivingJob } from './arriving-job.ts';

/** A store that writes a row when it is told to; `withdrawable` until then. */
function rows() {
  const written: { resolve: () => void; reject: (error: Error) => void }[] = [];
  let withdrawn = 0;
  return {
    written,
    withdrawnCount: () => withdrawn,
    place: (options: { begun?: boolean } = {}) => {
      const { promise: done, resolve, reject } = Promise.withResolvers<void>();
      written.push({ resolve, reject });
      return {
        done,
        withdraw() {
          if (options.begun === true) return false;
          withdrawn += 1;
          return true;
        },
      };
    },
  };
}

describe('a job that runs while it is on its way to the disk', () => {
  test('is written when it has not ended soon, and is on disk when its row is', async () => {
    const store = rows();
    const placed = Promise.withResolvers<void>();
    const job = new ArrivingJob(() => {
      placed.resolve();
      return store.place({ begun: true });
    });
    await placed.promise;
    assert.equal(job.withdraw(), false, 'its row is being written');
    store.written[0]?.resolve();
    await job.onDisk;
  });

  test('is never written when it ended before that: it is on disk when what it caused is', async () => {
    const store = rows();
    const job = new ArrivingJob(() => store.place());
    assert.equal(job.withdraw(), true);
    const settled = Promise.withResolvers<void>();
    job.settledBy(settled.promise);
    settled.resolve();
    await job.onDisk;
    await job.write();
    assert.equal(store.written.length, 0);
  });

  test('is taken back from the batch it waits for', () => {
    const store = rows();
    const job = new ArrivingJob(() => store.place());
    void job.write();
    assert.equal(job.withdraw(), true);
    assert.equal(store.withdrawnCount(), 1);
  });

  test('is refused when the store refuses its row, or what it caused', async () => {
    const away = new UnavailableError('storage_full', 'full');
    const store = rows();
    const unwritten = new ArrivingJob(() => store.place());
    const refused = assert.rejects(unwritten.write(), away);
    store.written[0]?.reject(away);
    await refused;
    const unsettled = new ArrivingJob(() => store.place());
    unsettled.withdraw();
    unsettled.settledBy(Promise.reject(away));
    await assert.rejects(unsettled.onDisk, away);
    assert.equal(store.written.length, 1);
  });

  test('is written after all, to run again, when what it caused is refused for a reason of its own', async () => {
    const store = rows();
    const job = new ArrivingJob(() => store.place());
    job.withdraw();
    const settled = Promise.reject(new Error('computed from a state that never was'));
    job.settledBy(settled);
    await settled.catch(() => {});
    assert.equal(store.written.length, 1);
    store.written[0]?.resolve();
    await job.onDisk;
  });
});
