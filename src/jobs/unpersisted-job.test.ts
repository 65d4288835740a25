import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { UnavailableError } from '#lib/errors.ts';
import { UnpersistedJob } from './unpersisted-job.ts';

/** A store that writes a row when the test says so. Until then the write can be cancelled. */
function rows() {
  const written: { resolve: () => void; reject: (error: Error) => void }[] = [];
  let cancelled = 0;
  return {
    written,
    cancelledCount: () => cancelled,
    place: (options: { begun?: boolean } = {}) => {
      const { promise: done, resolve, reject } = Promise.withResolvers<void>();
      written.push({ resolve, reject });
      return {
        done,
        cancelWrite() {
          if (options.begun === true) return false;
          cancelled += 1;
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
    const job = new UnpersistedJob(() => {
      placed.resolve();
      return store.place({ begun: true });
    });
    await placed.promise;
    assert.equal(job.cancelWrite(), false, 'its row is being written');
    store.written[0]?.resolve();
    await job.onDisk;
  });

  test('is never written when it ended before that: it is on disk when what it caused is', async () => {
    const store = rows();
    const job = new UnpersistedJob(() => store.place());
    assert.equal(job.cancelWrite(), true);
    const settled = Promise.withResolvers<void>();
    job.settledBy(settled.promise);
    settled.resolve();
    await job.onDisk;
    await job.write();
    assert.equal(store.written.length, 0);
  });

  test('is taken back from the batch it waits for', () => {
    const store = rows();
    const job = new UnpersistedJob(() => store.place());
    void job.write();
    assert.equal(job.cancelWrite(), true);
    assert.equal(store.cancelledCount(), 1);
  });

  test('is refused when the store refuses its row, or what it caused', async () => {
    const away = new UnavailableError('storage_full', 'full');
    const store = rows();
    const unwritten = new UnpersistedJob(() => store.place());
    const refused = assert.rejects(unwritten.write(), away);
    store.written[0]?.reject(away);
    await refused;
    const unsettled = new UnpersistedJob(() => store.place());
    unsettled.cancelWrite();
    unsettled.settledBy(Promise.reject(away));
    await assert.rejects(unsettled.onDisk, away);
    assert.equal(store.written.length, 1);
  });

  test('is written after all, to run again, when what it caused is refused for a reason of its own', async () => {
    const store = rows();
    const job = new UnpersistedJob(() => store.place());
    job.cancelWrite();
    const settled = Promise.reject(new Error('computed from a state that never was'));
    job.settledBy(settled);
    await settled.catch(() => {});
    assert.equal(store.written.length, 1);
    store.written[0]?.resolve();
    await job.onDisk;
  });
});
