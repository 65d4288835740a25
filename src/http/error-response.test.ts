import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { UnavailableError } from '#lib/errors.ts';
import { errorAnswer } from './error-response.ts';

const withCode = (code: string) => Object.assign(new Error(`it failed: ${code}`), { code });

describe('the answer to what was thrown', () => {
  test('is 503 with Retry-After when the store said that it is away', () => {
    const { status, headers, body } = errorAnswer(new UnavailableError('store_unavailable', 'gone'), 'r_1');
    assert.equal(status, 503);
    assert.equal(headers['retry-after'], '5');
    assert.equal(body.code, 'store_unavailable');
  });

  test('is our fault for a file or a peer of ours that is missing: that is not the store', () => {
    for (const code of ['ENOENT', 'EPIPE', 'ECONNREFUSED', 'ETIMEDOUT', '57014']) {
      const { status, body } = errorAnswer(withCode(code), 'r_1');
      assert.equal(status, 500, code);
      assert.deepEqual([body.code, body.details], ['internal_error', { request_id: 'r_1' }]);
    }
  });

  test('is the mistake of a caller who hung up before the request was complete', () => {
    const { status, body } = errorAnswer(withCode('ECONNRESET'), 'r_1');
    assert.deepEqual([status, body.code], [400, 'invalid_request']);
  });
});
