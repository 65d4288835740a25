import assert from 'node:assert/strict';
import { test } from 'node:test';
import { numberTooLarge } from './json-faults.ts';

test('a number that a double cannot hold is found wherever it stands, and texts are none', () => {
  for (const before of ['', ' '.repeat(100), ' '.repeat(308), ' '.repeat(309), '"1e999",'.repeat(50)]) {
    for (const digits of [309, 310, 700])
      assert.match(numberTooLarge(`[${before}{"n":${'9'.repeat(digits)}}]`)?.message ?? '', /^n: found/);
    assert.match(numberTooLarge(`[${before}{"n":[-2e308]}]`)?.message ?? '', /^0: found/);
    for (const fine of ['9'.repeat(308), `1${'0'.repeat(307)}.5`, '1e308', '1e-999', `"${'9'.repeat(400)}"`])
      assert.equal(numberTooLarge(`[${before}{"n":${fine}}]`), undefined, fine);
  }
  assert.equal(numberTooLarge('1e999')?.details.parameter, 'body');
});

test('a large body is looked through in a small part of the time that parsing takes', () => {
  const digits = `[${`${'1'.repeat(308)},`.repeat(20_000)}0]`;
  const before = process.cpuUsage();
  assert.equal(numberTooLarge(digits), undefined);
  const { user, system } = process.cpuUsage(before);
  assert.ok(user + system < 500_000, `${user + system} µs of CPU time`);
});
