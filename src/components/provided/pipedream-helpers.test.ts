import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  createHTTPError,
  generateHTTPErrorClasses,
  HTTPError,
  NoProtocolError,
  sanitizedArray,
} from './pipedream-helpers.ts';

test('sanitizedArray makes a list of what a list prop may hold', () => {
  for (const [value, list] of [
    [
      ['a', 1, null],
      ['a', 1, null],
    ],
    [
      [{ label: 'A', value: 'a' }, { label: 'B', value: 0 }, { other: 1 }],
      ['a', 0, { other: 1 }],
    ],
    ['', []],
    ['a', ['a']],
    ['a, b ,c', ['a', 'b', 'c']],
    ['["a", "b"]', ['a', 'b']],
    ["['a','b']", ['a', 'b']],
    ['[1, 2]', ['1', '2']],
    ['[ "a b", "c" ]', ['a b', 'c']],
  ] as [unknown, unknown[]][]) {
    assert.deepEqual(sanitizedArray(value), list, JSON.stringify(value));
  }
  for (const value of [undefined, null, 5, {}, true])
    assert.throws(() => sanitizedArray(value), /is not an array or an array-like/);
});

test('generateHTTPErrorClasses has a maker of errors for each status that refuses', () => {
  const errors = generateHTTPErrorClasses();
  const error = errors[404]?.('no such list');
  assert.ok(error instanceof HTTPError && error instanceof Error);
  assert.deepEqual(
    [error.name, error.message, error.statusCode],
    ['HTTP404Error', '(NotFoundError) no such list', 404],
  );
  assert.equal(errors[429]?.('x').message, '(TooManyRequestsError) x');
  assert.equal(errors[418]?.('x').message, '(ImaTeapotError) x');
  assert.equal(errors[500]?.('x').message, '(InternalServerErrorError) x');
  assert.ok(Object.keys(errors).every((code) => Number(code) >= 400));
});

test('createHTTPError and NoProtocolError name their errors', () => {
  const error = createHTTPError(499, 'GoneAwayError')('closed');
  assert.deepEqual(
    [error.name, error.message, error.statusCode],
    ['HTTP499Error', '(GoneAwayError) closed', 499],
  );
  const plain = new NoProtocolError('say http://');
  assert.deepEqual([String(plain), plain instanceof Error], ['NoProtocolError: say http://', true]);
});
