import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ActiveOwners } from './active-owners.ts';

test('several owners are active for two seconds after one followed another', () => {
  let nowMs = 0;
  const owners = new ActiveOwners({ nowMs: () => nowMs });
  owners.note('a');
  owners.note('a');
  assert.equal(owners.areSeveral, false, 'one owner is alone however much it does');
  owners.note('b');
  assert.equal(owners.areSeveral, true);
  nowMs = 1_999;
  owners.note('b');
  assert.equal(owners.areSeveral, true);
  nowMs = 2_000;
  assert.equal(owners.areSeveral, false);
  owners.note('a');
  assert.equal(owners.areSeveral, true);
});
