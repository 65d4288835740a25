import assert from 'node:assert/strict';
import { test } from 'node:test';
import { UnavailableError } from '#lib/errors.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { WriteProbe } from './write-probe.ts';

forEachStore((fixture) => {
  /** A probe on a store whose disk has room for so many bytes in one transaction. */
  function probeOf() {
    const world = { nowMs: 0, isFull: false, transactions: 0 };
    const probe = new WriteProbe({
      dialect: fixture.store,
      monotonicMs: () => world.nowMs,
    });
    const transaction = probe.observe((work) => {
      world.transactions += 1;
      if (world.isFull) throw new UnavailableError('storage_full', 'full');
      return fixture.store.transaction(work);
    });
    return { probe, world, write: () => transaction(async () => {}) };
  }

  const rows = () => fixture.store.read.selectFrom('write_probes').selectAll().execute();

  test('a commit of the service proves for two seconds that the store takes writes; then a probe does', async () => {
    const { probe, world, write } = probeOf();
    await write();
    await probe.check();
    assert.equal(world.transactions, 1);
    world.nowMs = 2_000;
    await Promise.all([probe.check(), probe.check()]);
    assert.equal(world.transactions, 2, 'those who ask together share one');
    assert.equal((await rows()).length, 1);
    world.nowMs = 4_000;
    await probe.check();
    assert.deepEqual(
      (await rows()).map(({ fill }) => fill),
      [''],
      'the row before is replaced',
    );
  });

  test('after a failure only a probe that was committed proves it, and after a full disk one of some size', async () => {
    const { probe, world, write } = probeOf();
    world.isFull = true;
    await assert.rejects(write());
    await assert.rejects(probe.check(), { code: 'storage_full' });
    world.isFull = false;
    await write();
    const before = world.transactions;
    await probe.check();
    assert.equal(world.transactions, before + 1, 'the write in between was not enough');
    assert.equal((await rows())[0]?.fill.length, 256 * 1024);
    await probe.check();
    assert.equal(world.transactions, before + 1);
  });
});
