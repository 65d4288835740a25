import assert from 'node:assert/strict';
import { test } from 'node:test';
import { forEachSharedService } from '../support/millrace.ts';
import { waitFor } from '../support/wait-for.ts';

const echo =
  'export default defineComponent({ run({ steps }) { return steps.trigger.event.body?.n ?? steps.trigger.event; } });';

forEachSharedService((fixture) => {
  const make = () =>
    fixture.service.createWorkflow({
      steps: [{ namespace: 'echo', code: echo }],
      triggers: [{ type: 'http', props: {} }],
    });
  const ask = async (method: string, path: string, body?: object) => {
    const answer = await fixture.service.api(method, path, body);
    assert.ok(answer.status < 300, JSON.stringify(answer.body));
    return answer.body?.data;
  };

  test('an event is kept with a workflow, written by hand or copied from a run, and tests its steps and runs it', async () => {
    const { id, triggers } = await make();
    const path = `/v1/workflows/${id}/test_events`;
    const put = await ask('PUT', `${path}/an%20order`, { event: { body: { n: 1 } } });
    assert.deepEqual([put.name, put.event, put.source_type], ['an order', { body: { n: 1 } }, 'HTTP']);
    await fetch(triggers[0].endpoint_url, { method: 'POST', body: '{"n":2}', headers: { 'content-type': 'application/json' } }); // biome-ignore format: one line
    const run = await fixture.service.runInState(id, 'succeeded');
    const copied = await ask('PUT', `${path}/real`, { run_id: run.id });
    assert.equal(copied.event.body.n, 2);
    assert.deepEqual(
      (await ask('GET', path)).map(({ name }: { name: string }) => name),
      ['real', 'an order'],
    );
    const tested = await ask('POST', `/v1/workflows/${id}/steps/echo/test`, { test_event: 'an order' });
    assert.deepEqual(tested.exports, { $return_value: 1 });
    const { run_id } = await ask('POST', `${path}/real/run`, {});
    await waitFor(async () => {
      const { state, steps } = await fixture.service.runDetail(run_id);
      return state === 'succeeded' && steps[0].exports.$return_value === 2;
    });
    await ask('PUT', `${path}/real`, { event: { body: { n: 3 } } });
    assert.equal((await ask('GET', `${path}/real`)).event.body.n, 3, 'one of the same name is replaced');
    await ask('DELETE', `${path}/real`);
    assert.equal((await ask('GET', path)).length, 1);
  });

  test('a list has the sizes of test events and not the events, and a workflow keeps 20 MB of them', async () => {
    const { id } = await make();
    const path = `/v1/workflows/${id}/test_events`;
    const event = { text: 'é'.repeat(2_500_000), list: [1, { a: null }] };
    const bytes = Buffer.byteLength(JSON.stringify(event));
    for (const name of ['a', 'b', 'c', 'd']) {
      const put = await ask('PUT', `${path}/${name}?exclude=created_at`, { event });
      assert.deepEqual(put, { name, workflow_id: id, bytes, source_type: 'HTTP', event });
    }
    const listed = await ask('GET', `${path}?exclude=created_at`);
    assert.deepEqual(
      listed,
      ['d', 'c', 'b', 'a'].map((name) => ({ name, workflow_id: id, bytes, source_type: 'HTTP' })),
    );
    assert.deepEqual((await ask('GET', `${path}/a`)).event, event);
    const full = await fixture.service.api('PUT', `${path}/e`, { event });
    assert.equal(full.status, 400);
    assert.equal(full.body.details.parameter, 'event');
    assert.match(
      full.body.error,
      /^event: found 5,000,033 bytes of JSON, expected at most 971,388: the test events of a workflow can have 20 MB together/,
    );
    await ask('PUT', `${path}/a`, { event });
  });

  test('what is no test event is refused with what was expected', async () => {
    const { id } = await make();
    const other = await make();
    const path = `/v1/workflows/${id}/test_events`;
    await ask('PUT', `/v1/workflows/${other.id}/test_events/theirs`, { event: {} });
    for (const [method, at, body, status, parameter] of [
      ['PUT', `${path}/a`, {}, 400, 'event'],
      ['PUT', `${path}/a`, { event: {}, run_id: 'x' }, 400, 'run_id'],
      ['PUT', `${path}/a`, { run_id: 'x' }, 404, 'run_id'],
      ['PUT', `${path}/${'x'.repeat(101)}`, { event: {} }, 400, 'name'],
      ['GET', `${path}/theirs`, undefined, 404, 'name'],
      ['DELETE', `${path}/theirs`, undefined, 404, 'name'],
      ['POST', `${path}/theirs/run`, {}, 404, 'name'],
      ['POST', `/v1/workflows/${id}/steps/echo/test`, { test_event: 'theirs' }, 404, 'test_event'],
      ['POST', `/v1/workflows/${id}/steps/echo/test`, { test_event: 'a', event: 1 }, 400, 'test_event'],
    ] as const) {
      const answer = await fixture.service.api(method, at, body);
      assert.deepEqual(
        [answer.status, answer.body.details?.parameter],
        [status, parameter],
        `${method} ${at} ${JSON.stringify(answer.body)}`,
      );
    }
    for (let n = 0; n < 100; n += 1) await ask('PUT', `${path}/number-${n}`, { event: n });
    const full = await fixture.service.api('PUT', `${path}/one-more`, { event: {} });
    assert.match(full.body.error, /the workflow has 100 test events/);
    await ask('PUT', `${path}/number-7`, { event: 'replaced' });
  });
});
