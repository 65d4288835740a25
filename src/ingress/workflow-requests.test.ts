import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { FastifyReply } from 'fastify';
import { CallerError } from '#lib/errors.ts';
import type { WorkflowEndpoint } from './resolve-endpoint.ts';
import { readRunLink } from './run-links.ts';
import { requireToken } from './workflow-requests.ts';

const endpoint = { kind: 'workflow', bearerToken: 'open-sesame' } as WorkflowEndpoint;

function isLetIn(authorization: string | undefined): boolean {
  const reply = { header: () => undefined } as unknown as FastifyReply;
  try {
    requireToken(endpoint, authorization, reply);
    return true;
  } catch (error) {
    assert.ok(error instanceof CallerError && error.code === 'unauthorized');
    return false;
  }
}

test('only the token opens an endpoint that asks for one', () => {
  for (const right of ['Bearer open-sesame', 'bearer   open-sesame  '])
    assert.equal(isLetIn(right), true, right);
  for (const wrong of [undefined, '', 'Bearer', 'Bearer open-sesame x', 'Basic open-sesame', 'open-sesame'])
    assert.equal(isLetIn(wrong), false, String(wrong));
});

test('a header of nothing but spaces between two letters is looked at in no time', () => {
  const startedMs = performance.now();
  for (let times = 0; times < 5; times += 1) assert.equal(isLetIn(`Bearer a${' '.repeat(15_000)}b c`), false);
  const tookMs = performance.now() - startedMs;
  assert.ok(tookMs < 2_000, `${tookMs} ms`);
});

test('a link to a run names a place that a workflow can have', () => {
  const link = { run: '0'.repeat(27), token: 'a'.repeat(32) };
  assert.equal(readRunLink({ ...link, position: '99' })?.position, 99);
  for (const position of ['100', '-1', '1.0', ''])
    assert.equal(readRunLink({ ...link, position }), undefined);
});
