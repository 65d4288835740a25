import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CallerError } from '#lib/errors.ts';
import { beginDigest, readKeyId } from './request-key.ts';

test('a key is 1 to 255 visible ASCII characters; anything else is refused by its name', () => {
  assert.equal(readKeyId('eo1', undefined), undefined);
  for (const right of ['a', '!~', '"8e03978e-40d5"', 'x'.repeat(255)]) assert.ok(readKeyId('eo1', right));
  for (const wrong of ['', ' ', 'a b', 'ü', 'a\t', '\u007f', 'x'.repeat(256), 'one, two']) {
    assert.throws(
      () => readKeyId('eo1', wrong),
      (error) =>
        error instanceof CallerError &&
        error.code === 'invalid_parameter' &&
        error.details.parameter === 'Idempotency-Key',
      JSON.stringify(wrong),
    );
  }
});

test('the same key at two endpoints is two keys, and its text is in neither', () => {
  assert.equal(readKeyId('eo1', 'order-7'), readKeyId('eo1', 'order-7'));
  assert.notEqual(readKeyId('eo1', 'order-7'), readKeyId('eo2', 'order-7'));
  assert.doesNotMatch(readKeyId('eo1', 'order-7') ?? '', /order/);
});

test('requests differ by method, path, query and body', () => {
  const digest = (method: string, path: string, queryString: string, body: string) =>
    beginDigest({ method, path, queryString }).update(body).digest('hex');
  const all = [
    digest('POST', '/', '', ''),
    digest('PUT', '/', '', ''),
    digest('POST', '/a', '', ''),
    digest('POST', '/', 'a', ''),
    digest('POST', '/', '', 'a'),
  ];
  assert.equal(new Set(all).size, all.length);
  assert.equal(digest('POST', '/', 'a', 'b'), digest('POST', '/', 'a', 'b'));
});
