import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CallerError } from '#lib/errors.ts';
import { clientCredentials, type TokenRequest } from './client-credentials.ts';

const basic = (text: string) => `Basic ${Buffer.from(text).toString('base64')}`;

function codeOf(authorization: string | undefined, body: TokenRequest): string {
  try {
    clientCredentials(authorization, body);
  } catch (error) {
    assert.ok(error instanceof CallerError);
    return error.code;
  }
  return 'taken';
}

test('credentials of a client come with HTTP Basic, form-encoded, or in the body', () => {
  for (const [authorization, body, id, secret] of [
    [basic('oac_1:s'), {}, 'oac_1', 's'],
    [`bAsIc   ${Buffer.from('a:b').toString('base64')} `, {}, 'a', 'b'],
    [basic('a%3Ab:%2B+%25:c'), {}, 'a:b', '+ %:c'],
    [basic('a:b'), { client_id: 'a' }, 'a', 'b'],
    [undefined, { client_id: 'a', client_secret: 'b' }, 'a', 'b'],
    ['Bearer x', { client_id: 'a', client_secret: 'b' }, 'a', 'b'],
  ] as [string | undefined, TokenRequest, string, string][])
    assert.deepEqual(clientCredentials(authorization, body), { id, secret });
});

test('without them, or with unreadable ones, there is no client', () => {
  for (const [authorization, body] of [
    [undefined, {}],
    [undefined, { client_id: 'a' }],
    [undefined, { client_secret: 'a' }],
    ['Basic', {}],
    ['Basic ???', {}],
    [basic('no colon'), {}],
    [basic('a:%zz'), {}],
    [basic(`a:${'x'.repeat(2000)}`), {}],
    [basic('a%00:b'), {}],
  ] as [string | undefined, TokenRequest][])
    assert.equal(codeOf(authorization, body), 'invalid_client', `${authorization} ${JSON.stringify(body)}`);
});

test('a client that is named in both places is a mistake', () => {
  assert.equal(codeOf(basic('a:b'), { client_id: 'a', client_secret: 'b' }), 'invalid_request');
  assert.equal(codeOf(basic('a:b'), { client_id: 'other' }), 'invalid_request');
});
