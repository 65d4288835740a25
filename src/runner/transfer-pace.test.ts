import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, describe, mock, test } from 'node:test';
import { ActiveOwners } from '#lib/active-owners.ts';
import { silentLogger } from '#lib/logger.ts';
import { ShareRecords } from '#metering/share-records.ts';
import {
  actionWith,
  componentWith,
  type RunnerFixture,
  requestFor,
  startRunnerFixture,
  stepRequest,
} from '../../test/support/runner-fixture.ts';
import { within } from '../../test/support/wait-for.ts';
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
    for (let n = 0; n < 60; n += 1) {
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

  test('of a deployment of which nothing is known, few calls begin together', async () => {
    const pace = makePace();
    const begin = (n: number) => pace.begin({ ownerId: 'o_1', deploymentId: `dc_${n}` });
    const calls = Array.from({ length: 20 }, (_, n) => begin(n));
    const begun = calls.filter(({ turn }) => turn === undefined);
    assert.equal(begun.length, 9, 'each counts half a megabyte, and four may be owed');
    assert.equal(pace.begin({ ownerId: 'o_2', deploymentId: 'dc_others' }).turn, undefined);
    // One ends, and its place is taken at once.
    calls[0]?.end();
    await calls[9]?.turn;
    // One moved much, and the next waits until it is paid for.
    calls[1]?.moved(20 * megabyte);
    calls[1]?.end();
    let hasBegun = false;
    void calls[10]?.turn?.then(() => {
      hasBegun = true;
    });
    pass(700);
    await Promise.resolve();
    assert.equal(hasBegun, false);
    pass(400);
    await calls[10]?.turn;
    for (const call of calls.slice(2, 11)) call.end();
    for (const call of calls.slice(11)) await call.turn;
    assert.equal(begin(0).turn, undefined, 'it is known');
  });

  test('a call that waited since nothing was known counts what is known when it begins', async () => {
    const pace = makePace();
    const calls = Array.from({ length: 11 }, () => pace.begin(call));
    calls[0]?.moved(10 * megabyte);
    calls[0]?.end();
    for (const started of calls.slice(1, 9)) started.end();
    pass(250);
    await Promise.resolve();
    pass(251);
    await calls[9]?.turn;
    let hasBegun = false;
    void calls[10]?.turn?.then(() => {
      hasBegun = true;
    });
    pass(400);
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(hasBegun, false, 'ten megabytes are expected of the one before');
    pass(200);
    await calls[10]?.turn;
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
    const unknown = Array.from({ length: 20 }, (_, n) =>
      pace.begin({ ownerId: 'o_1', deploymentId: `dc_unknown_${n}` }),
    );
    pace.close();
    await waiting.turn;
    for (const { turn } of unknown) await turn;
  });
});

describe('calls that move megabytes, in processes', () => {
  let records: ShareRecords;
  let fixture: RunnerFixture;
  before(async () => {
    records = new ShareRecords({ logger: silentLogger, nowMs: () => 0 });
    fixture = await startRunnerFixture({ records });
  });
  after(() => fixture.close());

  const small = requestFor(componentWith('return 2;'), { ownerId: 'o_small', deploymentId: 'dc_small' });
  const emits = componentWith("for (let n = 0; n < 6; n += 1) this.$emit({ text: 'y'.repeat(800_000) });");
  const delaysOf = (ownerId: string) => records.of(ownerId).get('transfers')?.delayed ?? 0;
  /** Calls once, so that it is known what moves, and then four times at once while another owner has calls. Returns the time of the four. */
  const fourAfterOne = async (call: () => Promise<unknown>) => {
    await call();
    const startedAt = performance.now();
    const calls = [call(), runner().call(small), call(), call(), call()];
    await Promise.all(calls);
    return performance.now() - startedAt;
  };
  const runner = () => fixture.runner;

  test('while another owner has calls, those of an owner wait for each other, and all are done', async () => {
    const emitting = requestFor(emits, { ownerId: 'o_emits', deploymentId: 'dc_emits' });
    await runner().call(small);
    const ms = await fourAfterOne(async () => {
      assert.equal((await runner().call(emitting)).emits.length, 6);
    });
    assert.ok(ms > 700, `${ms} ms: three wait until 4.8 MB each were paid for, at 20 MB a second`);
    assert.ok(delaysOf('o_emits') >= 3);
    assert.equal(delaysOf('o_small'), 0);
  });

  test('what the service answers counts too', async () => {
    const asks = "await Promise.all(Array.from({ length: 8 }, () => $.flow.trigger('p_2', 1))); return 1;";
    const asking = stepRequest(actionWith(asks), {
      ...{ ownerId: 'o_asks', deploymentId: 'dc_asks', module: 'step' },
    });
    const body = Buffer.from(JSON.stringify('y'.repeat(900_000)));
    await runner().call(small);
    await fourAfterOne(() => runner().call(asking, { onHostCall: async () => ({ header: {}, body }) }));
    assert.ok(delaysOf('o_asks') >= 3);
  });

  test('a deployment that was ended is not known any longer, and its calls that wait end', async () => {
    const large = requestFor(emits, { ownerId: 'o_ended', deploymentId: 'dc_ended' });
    const other = requestFor(emits, { ownerId: 'o_ended', deploymentId: 'dc_other' });
    await Promise.all([runner().call(large), runner().call(small)]);
    const waiting = [runner().call(large), runner().call(large)];
    await runner().forget('dc_ended');
    for (const call of waiting) assert.equal((await call).error?.code, 'forgotten');
    await Promise.all([runner().call(other), runner().call(small)]);
    const delays = delaysOf('o_ended');
    assert.equal((await runner().call(large)).emits.length, 6);
    // It waits as a first call does, not as one of which five megabytes are expected.
    assert.ok(delaysOf('o_ended') <= delays + 1);
  });

  test('calls that wait end with the runner', async () => {
    const own = await startRunnerFixture();
    const large = requestFor(emits, { ownerId: 'o_large', deploymentId: 'dc_large' });
    await Promise.all([own.runner.call(large), own.runner.call(small)]);
    const waiting = Array.from({ length: 40 }, () => own.runner.call(large));
    const closed = own.close();
    const ended = (async () => {
      for (const call of waiting.slice(1)) assert.equal((await call).error?.code, 'closing');
    })();
    // They would have to wait for nine seconds.
    await within(ended, 8_000, 'the calls to end');
    await closed;
  });
});
