import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { PassRests } from './pass-rests.ts';

test('the queues of an owner rest together after a pass, and are looked at afterwards', (t) => {
  mock.timers.enable({ apis: ['setTimeout'] });
  t.after(() => mock.timers.reset());
  let areSeveral = true;
  const rested: string[] = [];
  const rests = new PassRests({ areSeveral: () => areSeveral, onRested: (id) => rested.push(id) });
  for (const id of ['p_one', 'p_two']) rests.passed(id, { ownerId: 'o_1', ms: 1 });
  assert.ok(!rests.defer('p_one'));
  rests.passed('p_one', { ownerId: 'o_1', ms: 20 });
  assert.ok(rests.defer('p_one'));
  assert.ok(rests.defer('p_two'));
  assert.ok(!rests.defer('p_of_another_owner'));
  mock.timers.tick(39);
  assert.deepEqual(rested, []);
  mock.timers.tick(1);
  assert.deepEqual(rested, ['p_one', 'p_two']);
  assert.ok(!rests.defer('p_one'));
  areSeveral = false;
  rests.passed('p_one', { ownerId: 'o_1', ms: 20 });
  assert.ok(!rests.defer('p_one'));
});
