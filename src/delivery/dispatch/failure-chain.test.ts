import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cameThrough } from './failure-chain.ts';

/** The event of a failed run of `workflow_id`, which an event of `emitter_id` had started. */
const failed = (
  workflow_id: string,
  emitter_id: string,
  original_event: object,
  source_type = 'WORKFLOW',
) => ({
  ...{ error: { msg: 'no' }, original_event },
  original_context: { workflow_id, emitter_id, source_type },
});

test('a workflow is found among those whose failures led to a failed run, however long the chain', () => {
  const first = failed('p_a', 'hi_1', { body: { n: 1 } }, 'HTTP');
  const chain = failed('p_d', 'p_c', failed('p_c', 'p_b', failed('p_b', 'p_a', first)));
  for (const id of ['p_a', 'p_b', 'p_c']) assert.equal(cameThrough(JSON.stringify(chain), id), true, id);
  assert.equal(cameThrough(JSON.stringify(chain), 'p_d'), false);
  assert.equal(cameThrough(JSON.stringify(first), 'hi_1'), false);
});

test('a workflow may handle the failure of a run that an ordinary event of its own started', () => {
  const job = failed('p_worker', 'p_boss', { job: 1 });
  assert.equal(cameThrough(JSON.stringify(job), 'p_boss'), false);
});

test('what a request says about contexts does not count, and any event is understood', () => {
  const context = { workflow_id: 'p_a', source_type: 'WORKFLOW', emitter_id: 'p_a' };
  const forged = failed('p_b', 'hi_1', { original_context: context }, 'HTTP');
  assert.equal(cameThrough(JSON.stringify(forged), 'p_a'), false);
  const passedOn = failed('p_b', 'p_c', {
    original_context: context,
    original_event: { original_context: context },
  });
  assert.equal(cameThrough(JSON.stringify(passedOn), 'p_a'), false);
  for (const event of ['null', '1', '"x"', '[]', '{"original_context":null}', '{"original_context":3}'])
    assert.equal(cameThrough(event, 'p_a'), false, event);
});
