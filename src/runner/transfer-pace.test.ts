import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, mock, test } from 'node:test';
import { ActiveOwners } from '#lib/active-owners.ts';
import { silentLogger } from '#lib/logger.ts';
import { ShareRecords } from '#metering/share-records.ts';
import {
  actionWith,
  componentWith,
  requestFor,
  resultOf,
  startRunnerFixture,
  stepRequest,
} from '../../test/support/runner-fixture.ts';
import { TransferPace } from './transfer-pace.ts';

const megabyte = 1_000_000;

describe('the pace of calls that move megabytes', () => {
  let nowMs = 0;
  let delayed: string[] = [];
  /** The pace while others have calls all the time, unless `areSeveral` says otherwise. */
  const makePace = (areSeveral = () => true) => {
    const owners = new ActiveOwners();
    mock.getter(owners, 'areSeveral', areSeveral);
    return new TransferPace({ owners, onDelayed: (ownerId) => delayed.push(ownerId), nowMs: () => nowMs });
  };
  const call = { ownerId: 'o_1', deploymentId: 'dc_1' };
  /** A call that moves so much, from its begin to its end. */
  const move = (pace: TransferPace, bytes: number, deploymentId = 'dc_1') => {
    const transfer = pace.begin({ ownerId: 'o_1', deploymentId });
    transfer.moved(bytes);
    transfer.end();
    return transfer.turn;
  };
  const pass = (ms: number) => {
    nowMs += ms;
    mock.timers.tick(ms);
  };

  beforeEach(() => {
    nowMs = 0;
    delayed = [];
    mock.timers.enable({ apis: ['setTimeout'] });
  });
  afterEach(() => mock.timers.reset());

  test('a call of a deployment that moves much begins when its owner owes nothing, one that moves little at once', async () => {
    const pace = makePace();
    assert.equal(move(pace, 4 * megabyte), undefined, 'nothing is known of it yet');
    const next = pace.begin(call);
    assert.notEqual(next.turn, undefined);
    assert.equal(move(pace, 1_000, 'dc_small'), undefined);
    assert.equal(pace.begin({ ownerId: 'o_2', deploymentId: 'dc_2' }).turn, undefined);
    pass(250);
    await next.turn;
    assert.deepEqual(delayed, ['o_1']);
  });

  test('calls that begin together are counted as what their deployment moved before', async () => {
    const pace = makePace();
    move(pace, 4 * megabyte);
    pass(1_000);
    const calls = Array.from({ length: 3 }, () => pace.begin(call));
    assert.deepEqual(
      calls.map(({ turn }) => turn === undefined),
      [true, false, false],
    );
    // It moved nothing: what was expected of it is not owed.
    calls[0]?.end();
    await calls[1]?.turn;
    pass(150);
    assert.equal(delayed.length, 2);
    calls[1]?.moved(4 * megabyte);
    calls[1]?.end();
    pass(60);
    await calls[2]?.turn;
  });

  test('small calls between large ones hide nothing, and are forgotten in time', () => {
    const pace = makePace();
    move(pace, 4 * megabyte);
    pass(1_000);
    for (let n = 0; n < 10; n += 1) {
      move(pace, 10);
      pass(1_000);
    }
    move(pace, 10 * megabyte, 'dc_other');
    assert.notEqual(pace.begin(call).turn, undefined, 'more than a megabyte is still expected of it');
    for (let n = 0; n < 40; n += 1) {
      pass(1_000);
      move(pace, 10);
    }
    move(pace, 10 * megabyte, 'dc_other');
    assert.equal(pace.begin(call).turn, undefined);
  });

  test('an owner whose calls move more than they are expected to has all its calls wait', async () => {
    const pace = makePace();
    for (let n = 0; n < 10; n += 1) move(pace, 4 * megabyte, `dc_fresh_${n}`);
    const small = pace.begin({ ownerId: 'o_1', deploymentId: 'dc_small' });
    assert.notEqual(small.turn, undefined);
    pass(1_001);
    await small.turn;
  });

  test('an owner that is alone never waits, and a call that is given up while it waits is not counted', async () => {
    let areSeveral = false;
    const pace = makePace(() => areSeveral);
    for (let n = 0; n < 20; n += 1) assert.equal(move(pace, 4 * megabyte), undefined);
    areSeveral = true;
    const given = pace.begin(call);
    assert.notEqual(given.turn, undefined);
    given.end();
    pass(1_001);
    await given.turn;
    assert.equal(pace.begin(call).turn, undefined);
  });

  test('a deployment that was removed is not known any longer, and after the end of the runner nothing waits', async () => {
    const pace = makePace();
    move(pace, 4 * megabyte);
    pace.forget('dc_1');
    assert.equal(pace.begin(call).turn, undefined);
    pace.begin(call).moved(4 * megabyte);
    move(pace, 4 * megabyte);
    const waiting = pace.begin(call);
    pace.close();
    await waiting.turn;
  });
});

test('while another owner has calls, those of an owner that move megabytes wait for each other, and all are done', async () => {
  const records = new ShareRecords({ logger: silentLogger, nowMs: () => 0 });
  const fixture = await startRunnerFixture({ records });
  const { runner } = fixture;
  const small = requestFor(componentWith('return 2;'), { ownerId: 'o_small', deploymentId: 'dc_small' });
  const times = async (call: () => Promise<unknown>) => {
    const startedAt = performance.now();
    for (let n = 0; n < 4; n += 1) {
      const [, other] = await Promise.all([call(), runner.call(small)]);
      assert.equal(resultOf(other), 2);
    }
    return performance.now() - startedAt;
  };
  const delaysOf = (ownerId: string) => records.of(ownerId).get('transfers')?.delayed ?? 0;
  try {
    const emits = "for (let n = 0; n < 8; n += 1) this.$emit({ text: 'y'.repeat(500_000) });";
    const emitting = requestFor(componentWith(emits), { ownerId: 'o_emits', deploymentId: 'dc_emits' });
    const ms = await times(async () => assert.equal((await runner.call(emitting)).emits.length, 8));
    assert.ok(ms > 600, `16 MB took ${ms} ms, and three calls have to wait for 4 MB each at 20 MB a second`);
    assert.ok(delaysOf('o_emits') >= 3);
    const asks = "await Promise.all(Array.from({ length: 8 }, () => $.flow.trigger('p_2', 1))); return 1;";
    const asking = stepRequest(actionWith(asks), {
      ownerId: 'o_asks',
      deploymentId: 'dc_asks',
      module: 'step',
    });
    const body = Buffer.from(JSON.stringify('y'.repeat(900_000)));
    await times(() => runner.call(asking, { onHostCall: async () => ({ header: {}, body }) }));
    assert.ok(delaysOf('o_asks') >= 3, 'what the service answers counts too');
    assert.equal(delaysOf('o_small'), 0);
  } finally {
    await fixture.close();
  }
});
