import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { setImmediate as turnOfLoop } from 'node:timers/promises';
import { ActiveOwners } from '#lib/active-owners.ts';
import { PacedWebhooks } from './paced-webhooks.ts';

test('while several owners are active, an owner has 500 requests to webhooks a second after the first hundred; its lanes take turns', async () => {
  mock.timers.enable({ apis: ['setTimeout'] });
  let nowMs = 0;
  mock.method(performance, 'now', () => nowMs);
  try {
    const owners = new ActiveOwners();
    const delayed: string[] = [];
    const sent = new Map<string, number>();
    const paced = new PacedWebhooks<{ listenerId: string; ownerId: string }>(
      { owners, onDelayed: (ownerId) => delayed.push(ownerId) },
      (lane) => send(lane),
    );
    const send = (lane: { listenerId: string; ownerId: string }) => {
      while (paced.mayStart(lane) && (sent.get(lane.listenerId) ?? 0) < 5_000) {
        paced.count(lane);
        sent.set(lane.listenerId, (sent.get(lane.listenerId) ?? 0) + 1);
      }
    };
    const lane = (listenerId: string, ownerId: string) => ({ listenerId, ownerId });
    send(lane('wh_alone', 'o_1'));
    assert.equal(sent.get('wh_alone'), 5_000, 'an owner who is alone is not paced');
    nowMs = 10_000;
    owners.note('o_2');
    owners.note('o_1');
    const one = lane('wh_1', 'o_1');
    const two = lane('wh_2', 'o_1');
    send(one);
    send(two);
    assert.deepEqual([sent.get('wh_1'), sent.get('wh_2')], [101, undefined]);
    assert.deepEqual([paced.has(one), paced.has(two)], [true, true]);
    send(lane('dc_1', 'o_1'));
    assert.equal(paced.mayStart(lane('wh_3', 'o_2')), true, 'another owner sends');
    for (let n = 0; n < 1_000; n += 1) {
      nowMs += 1;
      owners.note('o_2');
      mock.timers.tick(1);
      await turnOfLoop();
    }
    const [first = 0, second = 0] = [sent.get('wh_1'), sent.get('wh_2')];
    assert.ok(first + second > 450 && first + second <= 610, `${first} and ${second} in a second`);
    assert.ok(second > 150, `${second} of the second lane`);
    assert.ok(delayed.length > 0 && delayed.every((ownerId) => ownerId === 'o_1'));
    paced.close();
    await turnOfLoop();
    assert.equal(paced.mayStart(lane('wh_4', 'o_1')), true);
  } finally {
    mock.timers.reset();
    mock.restoreAll();
  }
});
