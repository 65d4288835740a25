import assert from 'node:assert/strict';
import { test } from 'node:test';
import { welcome } from './start-words.ts';

test('the address stands before the sentence that says what to do with it', () => {
  const text = welcome({ address: 'http://127.0.0.1:8080', firstStart: undefined }, { hasApi: true });
  assert.match(text, /http:\/\/127\.0\.0\.1:8080\n {2}Open this address/);
});

test('a key that was made is printed, and one that was given is not, because standard output is in the log', () => {
  const ids = { userId: 'u_1', workspaceId: 'o_1', projectId: 'proj_1' };
  const first = { ...ids, apiKey: 'the-key-in-clear', keyFile: '/data/api-key' };
  const text = (isKeyMade: boolean) =>
    welcome({ address: 'http://127.0.0.1:8080', firstStart: { ...first, isKeyMade } }, { hasApi: true });
  assert.match(text(true), /shown once, also in \/data\/api-key\):\n {2}the-key-in-clear/);
  assert.ok(!text(false).includes('the-key-in-clear'));
  assert.match(text(false), /Your API key is that of MILLRACE_API_KEY \(also in \/data\/api-key\)/);
});
