import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DeliveryFixture } from '../../../test/support/delivery-fixture.ts';
import { forEachStore } from '../../../test/support/stores.ts';
import { WaitingDeliveries } from './waiting-deliveries.ts';

forEachStore((fixture) => {
  test('what may wait for a listener is bounded by number and by bytes', async () => {
    const waiting = new WaitingDeliveries({ store: fixture.store, max: { count: 3, bytes: 100 } });
    assert.deepEqual(
      [1, 1, 1, 1].map((bytes) => waiting.admit('wh_1', bytes)),
      [true, true, true, false],
    );
    assert.deepEqual(
      [99, 99, 1].map((bytes) => waiting.admit('wh_2', bytes)),
      [true, true, false],
    );
    await waiting.counted();
  });

  test('what waits already counts, and what was admitted and sent since does not for long', async () => {
    await using delivery = await DeliveryFixture.start(fixture.store);
    let nowMs = 0;
    const max = { count: 4, bytes: 1_000 };
    const waiting = new WaitingDeliveries({ store: fixture.store, max, nowMs: () => nowMs });
    await delivery.emitter();
    const { id } = await delivery.webhook('http://127.0.0.1:9', { state: 'paused' });
    await delivery.subscribe(id);
    await delivery.emit(['1', '2', '3']);
    assert.equal(waiting.admit(id, 1), true);
    await waiting.counted();
    assert.equal(waiting.admit(id, 1), false, 'three wait, and one was admitted since they were counted');
    // None of the admitted deliveries still waits.
    await fixture.store.transaction((tx) => tx.deleteFrom('deliveries').execute());
    nowMs += 1_000;
    assert.equal(waiting.admit(id, 1), true, 'not refused for a count that is out of date');
    await waiting.counted();
    for (let n = 0; n < 3; n += 1) assert.equal(waiting.admit(id, 1), true);
    assert.equal(waiting.admit(id, 1), false);
  });

  test('no caller is kept waiting while the store counts', async () => {
    const waiting = new WaitingDeliveries({ store: { read: {} as never }, max: { count: 10, bytes: 1_000 } });
    for (let n = 0; n < 100; n += 1) assert.equal(waiting.admit(`wh_${n}`, 1), true);
    await waiting.counted();
  });
});
