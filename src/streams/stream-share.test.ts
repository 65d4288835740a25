import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ActiveOwners } from '#lib/active-owners.ts';
import { StreamShares } from './stream-share.ts';

const megabyte = 1024 * 1024;

test('the readers of one owner have 64 MB together that they have not taken; each at most one, and 64 KB at least', () => {
  const shares = new StreamShares();
  const first = shares.enter('o_1');
  assert.equal(first.keptBytesMax, megabyte);
  const others = Array.from({ length: 255 }, () => shares.enter('o_1'));
  assert.equal(first.keptBytesMax, megabyte / 4);
  assert.equal(shares.enter('o_2').keptBytesMax, megabyte, 'readers of another owner take nothing of it');
  const many = Array.from({ length: 10_000 }, () => shares.enter('o_1'));
  assert.equal(first.keptBytesMax, megabyte / 16);
  for (const share of [...others, ...many]) share.leave();
  assert.equal(first.keptBytesMax, megabyte);
});

test('a reader waits for its turn when the readers of its owner have had more than their part, while others are active', async () => {
  const owners = new ActiveOwners();
  const shares = new StreamShares({ owners });
  const [one, two, other] = [shares.enter('o_1'), shares.enter('o_1'), shares.enter('o_2')];
  one.wrote(40 * megabyte);
  assert.equal(two.isUsedUp, false, 'there is none to wait for');
  owners.note('o_1');
  owners.note('o_2');
  assert.deepEqual([one.isUsedUp, two.isUsedUp, other.isUsedUp], [true, true, false]);
  const turns: string[] = [];
  const waiting = [
    one.turn(() => false).then(() => turns.push('one')),
    one.turn(() => true).then(() => turns.push('ended')),
    two.turn(() => false).then(() => turns.push('two')),
  ];
  shares.close();
  await Promise.all(waiting);
  assert.deepEqual(turns, ['one', 'ended', 'two'], 'and none waits when the service stops');
});
