import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Run } from '#sdk';
import { forEachSharedService } from '../support/millrace.ts';
import { waitFor } from '../support/wait-for.ts';

const cell = (body: string) => `export default defineComponent({ async run({ steps, $ }) { ${body} } });`;

forEachSharedService((fixture) => {
  const post = (url: string, body: unknown) =>
    fetch(url, {
      method: 'POST',
      body: JSON.stringify(body),
      headers: { 'content-type': 'application/json' },
    });
  const failing = { namespace: 'b', code: cell("throw new Error('not yet');") };
  const listed = async (workflowId: string): Promise<Run[]> =>
    (await fixture.service.api('GET', `/v1/workflows/${workflowId}/runs?limit=100`)).body.data;
  /** A workflow with so many failed runs, made one after another. */
  const withFailures = async (count: number) => {
    const { service } = fixture;
    const workflow = await service.createWorkflow({
      steps: [{ namespace: 'a', code: cell('return steps.trigger.event.body.n;') }, failing],
      triggers: [{ type: 'http', props: {} }],
    });
    for (let n = 0; n < count; n += 1) {
      await post(workflow.triggers[0].endpoint_url, { n });
      await waitFor(
        async () => (await listed(workflow.id)).filter(({ state }) => state === 'failed').length === n + 1,
      );
    }
    return workflow;
  };
  const fix = async (workflowId: string, code = cell('return steps.a.$return_value;')) => {
    const steps = [
      { namespace: 'a', code: cell('return steps.trigger.event.body.n;') },
      { namespace: 'b', code },
    ];
    const deployed = await fixture.service.api('POST', `/v1/workflows/${workflowId}/deployments`, { steps });
    assert.equal(deployed.status, 200, JSON.stringify(deployed.body));
  };
  const bulk = async (workflowId: string, operation: string, body: object = {}) => {
    const answer = await fixture.service.api('POST', `/v1/workflows/${workflowId}/runs/${operation}`, body);
    assert.equal(answer.status, 200, JSON.stringify(answer.body));
    return answer.body.data;
  };

  test('failed runs of a workflow are run again together, oldest first, and each once however often that is requested', async () => {
    const workflow = await withFailures(5);
    const before = (await listed(workflow.id)).reverse();
    await fix(workflow.id);
    const { until, ...first } = await bulk(workflow.id, 'replay', { limit: 2 });
    assert.deepEqual(first, { done: 2, failed: 0, failures: [], remaining: 3, last: before[1]?.id });
    const rest = await bulk(workflow.id, 'replay', { after: first.last, until });
    assert.deepEqual(rest, { done: 3, failed: 0, failures: [], remaining: 0, last: before[4]?.id, until });
    assert.deepEqual(await bulk(workflow.id, 'replay', { until }), {
      until,
      ...{ done: 0, failed: 0, failures: [], remaining: 0, last: null },
    });
    const again = await waitFor(async () => {
      const runs = (await listed(workflow.id)).filter(({ state }) => state === 'succeeded').reverse();
      return runs.length === 5 && runs;
    });
    assert.deepEqual(
      again.map(({ replay_of }) => replay_of),
      before.map(({ id }) => id),
    );
  });

  test('of requests at the same moment one takes a run', async () => {
    const workflow = await withFailures(3);
    for (const operation of ['replay', 'restart']) {
      const before = await listed(workflow.id);
      // One that arrives late on a busy machine would take the runs that the others made, which have failed by then.
      const until = new Date().toISOString();
      const answers = await Promise.all(
        Array.from({ length: 4 }, () => bulk(workflow.id, operation, { until })),
      );
      assert.equal(
        answers.reduce((sum, { done }) => sum + done, 0),
        3,
        JSON.stringify(answers),
      );
      const made = (await listed(workflow.id)).slice(0, -before.length);
      assert.equal(new Set(made.map(({ replay_of }) => replay_of)).size, 3);
      assert.equal(made.length, 3);
      await waitFor(async () => (await listed(workflow.id)).every(({ state }) => state === 'failed'));
    }
  });

  test('a paced replay of runs that succeed ends: its own runs come after its end', async () => {
    const { service } = fixture;
    const workflow = await service.createWorkflow({
      steps: [{ namespace: 'a', code: cell('return 1;') }],
      triggers: [{ type: 'http', props: {} }],
    });
    const succeeded = async () =>
      (await listed(workflow.id)).filter(({ state }) => state === 'succeeded').length;
    for (let n = 1; n <= 3; n += 1) {
      await post(workflow.triggers[0].endpoint_url, {});
      await waitFor(async () => (await succeeded()) === n);
    }
    let next: object = {};
    for (let n = 1; n <= 3; n += 1) {
      const answer = await bulk(workflow.id, 'replay', { state: 'succeeded', limit: 1, ...next });
      assert.deepEqual([answer.done, answer.remaining], [1, 3 - n]);
      next = { after: answer.last, until: answer.until };
      await waitFor(async () => (await succeeded()) === 3 + n);
    }
    assert.equal((await bulk(workflow.id, 'replay', { state: 'succeeded', ...next })).done, 0);
  });

  test('failed runs are restarted together, from the steps at which they failed', async () => {
    const workflow = await withFailures(3);
    assert.equal((await bulk(workflow.id, 'restart')).done, 3);
    const again = await waitFor(async () => {
      const runs = (await listed(workflow.id)).filter(
        (run) => run.replay_of !== null && run.ended_at !== null,
      );
      return runs.length === 3 && runs;
    });
    for (const { id, replay_of } of again) {
      const [made, of] = [
        await fixture.service.runDetail(id),
        await fixture.service.runDetail(replay_of ?? ''),
      ];
      assert.deepEqual([made.state, made.steps[0].started_at], ['failed', of.steps[0].started_at]);
      assert.notEqual(made.steps[1].started_at, of.steps[1].started_at);
    }
    // What failed again can be run again.
    await waitFor(async () => (await bulk(workflow.id, 'restart')).done === 3);
  });

  test('runs are chosen by time and by state, and what cannot be chosen is an error', async () => {
    const { service } = fixture;
    const workflow = await withFailures(3);
    const [oldest, , newest] = (await listed(workflow.id)).reverse();
    const [foreign] = await listed((await withFailures(1)).id);
    const since = newest?.created_at;
    assert.deepEqual(
      (await service.api('GET', `/v1/workflows/${workflow.id}/runs?since=${since}`)).body.data.map(
        ({ id }: Run) => id,
      ),
      [newest?.id],
    );
    assert.equal((await bulk(workflow.id, 'replay', { until: oldest?.created_at })).done, 0);
    assert.equal((await bulk(workflow.id, 'replay', { since })).done, 1);
    assert.equal((await bulk(workflow.id, 'replay', { state: 'succeeded' })).done, 0);
    for (const [operation, body, parameter] of [
      ['replay', { since: 'yesterday' }, 'since'],
      ['cancel', { state: 'failed' }, 'state'],
      ['restart', { state: 'succeeded' }, 'state'],
      ['replay', { limit: 1001 }, 'limit'],
      ['replay', { states: ['failed'] }, 'states'],
      ['replay', { after: 'zzz' }, 'after'],
      ['replay', { after: '' }, 'after'],
      ['replay', { after: workflow.id }, 'after'],
      ['cancel', { after: 'z'.repeat(27) }, 'after'],
      ['restart', { after: foreign?.id }, 'after'],
    ] as const) {
      const refused = await service.api('POST', `/v1/workflows/${workflow.id}/runs/${operation}`, body);
      assert.deepEqual([refused.status, refused.body.details?.parameter], [400, parameter]);
    }
  });

  test('runs that wait are cancelled together', async () => {
    const { service } = fixture;
    const workflow = await service.createWorkflow({
      steps: [{ namespace: 'a', code: cell('$.flow.suspend();') }],
      triggers: [{ type: 'http', props: {} }],
    });
    for (let n = 0; n < 3; n += 1) await post(workflow.triggers[0].endpoint_url, {});
    const in_ = async (state: string) =>
      (await listed(workflow.id)).filter((run) => run.state === state).length;
    await waitFor(async () => (await in_('waiting')) === 3);
    assert.equal((await bulk(workflow.id, 'cancel', { state: 'running' })).done, 0);
    assert.equal((await bulk(workflow.id, 'cancel')).done, 3);
    assert.equal(await in_('cancelled'), 3);
  });

  test('a run is run again with another event, and from a step with other exports of the steps before it', async () => {
    const { service } = fixture;
    const workflow = await withFailures(1);
    const [failed] = await listed(workflow.id);
    const ended = async (answer: { status: number; body: { data: { id: string } } }) => {
      assert.equal(answer.status, 200, JSON.stringify(answer.body));
      return await waitFor(async () => {
        const run = await service.runDetail(answer.body.data.id);
        return run.ended_at !== null && run;
      });
    };
    const restart = (body: object) => service.api('POST', `/v1/runs/${failed?.id}/restart`, body);
    const other = await ended(await restart({ from_step: 'b', steps: { a: { $return_value: 'edited' } } }));
    assert.deepEqual(other.steps[0].exports, { $return_value: 'edited' });
    const edited = await ended(await restart({ from_step: 'a', event: { body: { n: 'again' } } }));
    assert.deepEqual(
      [edited.event, edited.steps[0].exports],
      [{ body: { n: 'again' } }, { $return_value: 'again' }],
    );
    await fix(workflow.id);
    const replay = { event: { body: { n: 7 } } };
    const replayed = await ended(await service.api('POST', `/v1/runs/${failed?.id}/replay`, replay));
    assert.deepEqual([replayed.state, replayed.steps[1].exports], ['succeeded', { $return_value: 7 }]);
    for (const name of ['b', 'nothing']) {
      const refused = await restart({ from_step: 'b', steps: { [name]: { $return_value: 1 } } });
      assert.deepEqual([refused.status, refused.body.details?.parameter], [400, `steps.${name}`]);
      assert.match(refused.body.error, /expected exports of steps that do not run again \(a\)/);
    }
  });
});
