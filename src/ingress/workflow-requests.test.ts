import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { FastifyReply } from 'fastify';
import { CallerError } from '#lib/errors.ts';
import { cpuMsOf } from '../../test/support/cpu-time.ts';
import type { WorkflowEndpoint } from './resolve-endpoint.ts';
import { type AccessTokens, requireToken } from './workflow-requests.ts';

const endpoint = {
  ...{ kind: 'workflow', ownerId: 'o_1' },
  auth: { type: 'static_bearer_token', token: 'open-sesame' },
} as WorkflowEndpoint;

const asked: string[] = [];
const accessTokens: AccessTokens = {
  accepts: async (token, workspaceId) => {
    asked.push(`${token} ${workspaceId}`);
    return token === 'mat_good';
  },
};

async function isLetIn(authorization: string | undefined, to = endpoint): Promise<boolean> {
  const reply = { header: () => undefined } as unknown as FastifyReply;
  try {
    await requireToken(to, authorization, { reply, accessTokens });
    return true;
  } catch (error) {
    assert.ok(error instanceof CallerError && error.code === 'unauthorized');
    return false;
  }
}

test('only the token opens an endpoint that asks for one', async () => {
  for (const right of ['Bearer open-sesame', 'bearer   open-sesame  '])
    assert.equal(await isLetIn(right), true, right);
  for (const wrong of [undefined, '', 'Bearer', 'Bearer open-sesame x', 'Basic open-sesame', 'open-sesame'])
    assert.equal(await isLetIn(wrong), false, String(wrong));
  assert.deepEqual(asked, [], 'its own token is no access token');
});

test('an endpoint with auth of type oauth asks for an access token of its workspace', async () => {
  const to: WorkflowEndpoint = { ...endpoint, auth: { type: 'oauth' } };
  assert.equal(await isLetIn('Bearer mat_good', to), true);
  assert.equal(await isLetIn('Bearer mat_bad', to), false);
  assert.equal(await isLetIn('Bearer open-sesame', to), false);
  assert.deepEqual(asked, ['mat_good o_1', 'mat_bad o_1', 'open-sesame o_1']);
});

test('a header of nothing but spaces between two letters is looked at in no time', async () => {
  const tookMs = await cpuMsOf(async () => {
    for (let times = 0; times < 5; times += 1)
      assert.equal(await isLetIn(`Bearer a${' '.repeat(15_000)}b c`), false);
  });
  assert.ok(tookMs < 2_000, `${tookMs} ms`);
});
