import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { numberTooLarge as numberTooLargeIn, tooManyMembers, unreadableBody } from './json-faults.ts';

const numberTooLarge = (json: string) => numberTooLargeIn(json, JSON.parse(json));

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

test('a body of numbers that are almost too large is looked through once, and another one at few places', () => {
  const looksAt = (body: string): number => {
    const { mock: looks } = mock.method(String.prototype, 'charCodeAt');
    try {
      assert.equal(numberTooLargeIn(body, []), undefined);
      return looks.callCount();
    } finally {
      looks.restore();
    }
  };
  const digits = `[${`${'1'.repeat(308)},`.repeat(20)}0]`;
  const usual = JSON.stringify(Array.from({ length: 1_000 }, (_, n) => ({ n, name: 'a name '.repeat(20) })));
  assert.ok(looksAt(digits) < 2 * digits.length, `${looksAt(digits)} looks at ${digits.length} characters`);
  assert.ok(looksAt(usual) < usual.length / 100, `${looksAt(usual)} looks at ${usual.length} characters`);
});

test('as many members as a body may have are no fault', () => {
  const names = Array.from({ length: 99_998 }, (_, n) => [`name${n}`, n]);
  const body = JSON.stringify({ ...Object.fromEntries(names), large: 1e300 });
  assert.equal(tooManyMembers(body), undefined);
  assert.equal(numberTooLarge(body), undefined);
});

test('a body whose objects have more than 100,000 members together is refused before it is parsed', () => {
  const body = (members: number) =>
    JSON.stringify({ steps: Array.from({ length: members - 1 }, (_, n) => ({ [`name${n}`]: ':' })) });
  assert.equal(tooManyMembers(body(100_000)), undefined);
  const refused = tooManyMembers(body(100_001));
  assert.equal(refused?.code, 'invalid_json');
  assert.match(refused?.message ?? '', /more than 100000 members together, expected at most as many/);
});

test('a body that was refused is no JSON, or has a key that changes what objects inherit, which is named', () => {
  for (const text of ['{', '', 'nothing', '{"a":1,}'])
    assert.equal(unreadableBody(text).message, 'the body is not well-formed JSON');
  for (const [text, key] of [
    ['{"a":[{"__proto__":{"x":1}}]}', '__proto__'],
    ['{"constructor":{"prototype":{}}}', 'constructor.prototype'],
  ] as const) {
    const { code, message, details } = unreadableBody(text);
    assert.deepEqual([code, details.parameter], ['invalid_json', key]);
    assert.ok(message.startsWith(`${key}: found this key`), message);
  }
  assert.equal(unreadableBody('{"constructor":1}').details.parameter, undefined);
});
