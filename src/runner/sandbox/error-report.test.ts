import assert from 'node:assert/strict';
import { test } from 'node:test';
import { reportError } from './error-report.ts';

test('an error reports its causes, each with its stack, and never loops forever', () => {
  const refused = new Error('connect ECONNREFUSED 127.0.0.1:9');
  const error = new TypeError('fetch failed', { cause: refused });
  const { message, stack } = reportError(error);
  assert.equal(message, 'fetch failed');
  assert.ok(stack.startsWith('TypeError: fetch failed\n'));
  assert.match(stack, /\nCaused by: Error: connect ECONNREFUSED 127\.0\.0\.1:9\n +at /);
  refused.cause = error;
  assert.equal(reportError(error).stack.match(/Caused by/g)?.length, 5);
});

test('a cause that cannot be read, or is no error, is left out', () => {
  const throwing = Object.defineProperty(new Error('a'), 'cause', {
    get() {
      throw new Error('no');
    },
  });
  for (const thrown of [throwing, new Error('a', { cause: 'text' }), new Error('a', { cause: {} })]) {
    assert.doesNotMatch(reportError(thrown).stack, /Caused by/);
  }
});
