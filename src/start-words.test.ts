import assert from 'node:assert/strict';
import { test } from 'node:test';
import { welcome } from './start-words.ts';

test('the address stands before the sentence that says what to do with it', () => {
  const text = welcome({ address: 'http://127.0.0.1:8080', firstStart: undefined }, { hasApi: true });
  assert.match(text, /http:\/\/127\.0\.0\.1:8080\n {2}Open this address/);
});
