import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HttpReceiver } from '../support/http-receiver.ts';
import { forEachSharedService } from '../support/millrace.ts';
import { waitFor } from '../support/wait-for.ts';

/** The source of a code cell whose `run` has this body; `steps`, `$` and `this` are there. */
function cell(body: string, props = ''): string {
  return `export default defineComponent({ ${props === '' ? '' : `props: ${props},`} async run({ steps, $ }) { ${body} } });`;
}

const http = { type: 'http', props: { custom_response: true } };
const json = { 'content-type': 'application/json' };

forEachSharedService((fixture) => {
  const post = (url: string, body: unknown = {}) =>
    fetch(url, { method: 'POST', headers: json, body: JSON.stringify(body) });

  test('a request runs the steps in order, each with what those before it exported, and is answered by $.respond', async () => {
    const { service } = fixture;
    const workflow = await service.createWorkflow({
      steps: [
        {
          namespace: 'greet',
          code: cell(
            "$.export('$summary', 'greeted ' + this.who); console.log('to', this.who); return { text: 'Hello ' + this.who, n: this.n };",
            "{ who: { type: 'string' }, n: { type: 'integer' } }",
          ),
          props: { who: '{{steps.trigger.event.body.who}}', n: '{{ [1, 2].length + 1 }}' },
        },
        { namespace: 'count', code: cell('return steps.greet.$return_value.text.length;') },
        {
          namespace: 'answer',
          code: cell(
            "await $.respond({ status: 201, headers: { 'x-count': String(steps.count.$return_value) }, body: { text: this.text } });",
            "{ text: { type: 'string' } }",
          ),
          props: { text: '{{steps.greet.$return_value.text}}, {{steps.count.$return_value}} characters' },
        },
      ],
      triggers: [http],
    });
    const answer = await post(`${workflow.triggers[0].endpoint_url}/some/path?q=1`, { who: 'Ada' });
    assert.equal(answer.status, 201);
    assert.equal(answer.headers.get('x-count'), '9');
    assert.deepEqual(await answer.json(), { text: 'Hello Ada, 9 characters' });

    const run = await service.runInState(workflow.id, 'succeeded');
    assert.equal(run.deployment_id, workflow.deployment_id);
    assert.equal(run.emitter_id, workflow.triggers[0].id);
    assert.equal(run.event.path, '/some/path');
    assert.deepEqual(run.event.query, { q: '1' });
    assert.deepEqual(run.event.body, { who: 'Ada' });
    assert.deepEqual(
      run.steps.map((step: { namespace: string; state: string }) => [step.namespace, step.state]),
      [
        ['greet', 'succeeded'],
        ['count', 'succeeded'],
        ['answer', 'succeeded'],
      ],
    );
    assert.deepEqual(run.steps[0].input, { who: 'Ada', n: 3 });
    assert.deepEqual(run.steps[0].exports, {
      $summary: 'greeted Ada',
      $return_value: { text: 'Hello Ada', n: 3 },
    });
    assert.deepEqual(
      run.steps[0].logs.map((line: { level: string; message: string }) => [line.level, line.message]),
      [['log', 'to Ada']],
    );
    assert.ok(Date.parse(run.steps[0].started_at) >= Date.parse(run.created_at) - 1);
  });

  test('steps.trigger.context and $.context say which run this is', async () => {
    const { service } = fixture;
    const workflow = await service.createWorkflow({
      steps: [
        {
          namespace: 'a',
          code: cell(
            'await $.respond({ status: 200, body: { trigger: steps.trigger.context, own: $.context } });',
          ),
        },
      ],
      triggers: [http],
    });
    const { trigger, own } = (await (await post(workflow.triggers[0].endpoint_url)).json()) as Record<
      string,
      Record<string, unknown>
    >;
    const run = await service.runInState(workflow.id, 'succeeded');
    assert.equal(trigger?.id, run.id);
    assert.equal(trigger?.trace_id, run.trace_id);
    assert.equal(trigger?.workflow_id, workflow.id);
    assert.equal(trigger?.workflow_name, 'under test');
    assert.equal(trigger?.deployment_id, workflow.deployment_id);
    assert.equal(trigger?.emitter_id, workflow.triggers[0].id);
    assert.equal(trigger?.source_type, 'HTTP');
    assert.equal(trigger?.replay, false);
    assert.equal(own?.JIT, false);
    assert.deepEqual(own?.run, { runs: 1 });
    assert.ok(Number(own?.deadline) > Date.parse(run.created_at));
  });

  test('a failing step stops the run, and $errors has the event, the context and where in the source it failed', async () => {
    const { service } = fixture;
    const code = [
      'export default defineComponent({',
      '  async run({ steps, $ }) {',
      "    $.export('before', 1);",
      "    throw new TypeError('no such luck');",
      '  },',
      '});',
    ].join('\n');
    const workflow = await service.createWorkflow({
      steps: [
        { namespace: 'ok', code: cell('return 1;') },
        { namespace: 'breaks', code },
        { namespace: 'never', code: cell("throw new Error('must not run');") },
      ],
      triggers: [http],
    });
    const answer = await post(workflow.triggers[0].endpoint_url, { a: 1 });
    assert.equal(answer.status, 400);
    const run = await service.runInState(workflow.id, 'failed');
    assert.equal(await answer.text(), `No $.respond called in workflow\nRun ${run.id} failed`);
    assert.deepEqual(
      run.steps.map((step: { namespace: string; state: string }) => [step.namespace, step.state]),
      [
        ['ok', 'succeeded'],
        ['breaks', 'failed'],
      ],
    );
    assert.deepEqual(run.steps[1].exports, { before: 1 });
    const { body } = await service.api(
      'GET',
      `/v1/workflows/${workflow.id}/$errors/event_summaries?expand=event`,
    );
    const [{ event, metadata }] = body.data;
    assert.deepEqual(event.original_event.body, { a: 1 });
    assert.equal(event.original_context.id, run.id);
    assert.equal(event.original_context.workflow_id, workflow.id);
    assert.equal(event.error.code, 'TypeError');
    assert.equal(event.error.msg, 'no such luck');
    assert.equal(event.error.cellId, workflow.steps[1].id);
    assert.match(event.error.stack, /:4:\d+/, 'the line of the user');
    assert.ok(!Number.isNaN(Date.parse(event.error.ts)));
    assert.equal(metadata.name, '$errors');
    const { emitter_id, emit_id, name } = metadata;
    assert.deepEqual(event.metadata, { emitter_id, emit_id, name });
  });

  test('$.flow.exit ends the workflow after its step', async () => {
    const { service } = fixture;
    const workflow = await service.createWorkflow({
      steps: [
        { namespace: 'stop', code: cell("$.export('seen', 1); return $.flow.exit('enough');") },
        { namespace: 'never', code: cell("throw new Error('must not run');") },
      ],
      triggers: [http],
    });
    await post(workflow.triggers[0].endpoint_url);
    const run = await service.runInState(workflow.id, 'succeeded', 'failed');
    assert.equal(run.state, 'succeeded');
    assert.equal(run.reason, 'enough');
    assert.equal(run.steps.length, 1);
  });

  test('$.flow.suspend waits for its resume URL, and the step exports what came as $resume_data', async () => {
    const { service } = fixture;
    const workflow = await service.createWorkflow({
      steps: [
        {
          namespace: 'ask',
          code: cell(
            'const urls = $.flow.suspend(); await $.respond({ status: 200, body: urls, immediate: true }); return urls;',
          ),
        },
        { namespace: 'then', code: cell('return steps.ask.$resume_data.body.approved;') },
      ],
      triggers: [http],
    });
    const urls = (await (await post(workflow.triggers[0].endpoint_url)).json()) as { resume_url: string };
    const waiting = await service.runInState(workflow.id, 'waiting');
    assert.equal(waiting.wait.kind, 'suspend');
    const dayAhead = Date.parse(waiting.wait.until) - Date.now();
    assert.ok(dayAhead > 86_000_000 && dayAhead <= 86_400_000, 'a day by default');
    const wrong = urls.resume_url.replace(/.$/, (last) => (last === 'a' ? 'b' : 'a'));
    assert.equal((await post(wrong, {})).status, 404);
    assert.equal((await post(urls.resume_url, { approved: 'yes' })).status, 200);
    const run = await service.runInState(workflow.id, 'succeeded');
    assert.equal(run.steps.at(-1).exports.$return_value, 'yes');
    assert.equal((await post(urls.resume_url, {})).status, 200);
    assert.equal((await service.runs(workflow.id)).length, 1, 'only once');
  });

  test('a resume that comes before its step has ended counts when it ends', async () => {
    const { service } = fixture;
    const workflow = await service.createWorkflow({
      steps: [
        {
          namespace: 'ask',
          code: cell(
            "const { resume_url } = $.flow.suspend(); const answer = await fetch(resume_url, { method: 'POST', body: 'early' }); return answer.status;",
          ),
        },
        { namespace: 'then', code: cell('return steps.ask.$resume_data.body;') },
      ],
      triggers: [http],
    });
    await post(workflow.triggers[0].endpoint_url);
    // It waits only for a moment, which may pass unnoticed.
    const ended = await service.runInState(workflow.id, 'succeeded', 'failed');
    assert.equal(ended.state, 'succeeded');
    assert.equal(ended.steps.at(-1).exports.$return_value, 'early');
  });

  test('the cancel URL ends a suspended run, and so does its time', async () => {
    const { service } = fixture;
    const workflow = await service.createWorkflow({
      steps: [
        {
          namespace: 'ask',
          code: cell(
            'const urls = $.flow.suspend(steps.trigger.event.body.ms); await $.respond({ status: 200, body: urls, immediate: true });',
          ),
        },
        { namespace: 'never', code: cell("throw new Error('must not run');") },
      ],
      triggers: [http],
    });
    const urls = (await (await post(workflow.triggers[0].endpoint_url, { ms: 60_000 })).json()) as {
      cancel_url: string;
    };
    await service.runInState(workflow.id, 'waiting');
    assert.equal((await fetch(urls.cancel_url)).status, 200);
    assert.equal((await service.runInState(workflow.id, 'cancelled')).steps.length, 1);
    await post(workflow.triggers[0].endpoint_url, { ms: 50 });
    const unknown = await service.api('GET', `/v1/workflows/${workflow.id}/runs?state=stopped`);
    assert.deepEqual([unknown.status, unknown.body.details], [400, { parameter: 'state' }]);
    assert.match(unknown.body.error, /^state: must be one of queued, .*, not_triggered$/);
    assert.equal((await service.runs(workflow.id, '&state=')).length, 2);
    const run = await waitFor(async () => (await service.runs(workflow.id, '&state=cancelled'))[1], {
      what: 'the second run to be cancelled',
    });
    assert.ok(run);
  });

  test('$.flow.rerun runs its step again with its context, and continues after so many retries', async () => {
    const { service } = fixture;
    const workflow = await service.createWorkflow({
      steps: [
        {
          namespace: 'again',
          code: cell(
            'const { runs, context } = $.context.run; const seen = [...(context?.seen ?? []), runs]; $.flow.rerun(20, { seen }, 2); return seen;',
          ),
        },
        { namespace: 'then', code: cell('return steps.again.$return_value;') },
      ],
      triggers: [{ type: 'http', props: {} }],
    });
    await post(workflow.triggers[0].endpoint_url);
    const run = await service.runInState(workflow.id, 'succeeded', 'failed');
    assert.deepEqual(run.steps.at(-1).exports.$return_value, [1, 2, 3]);
    assert.deepEqual(
      run.steps.map((step: { namespace: string; try: number; state: string }) => [
        step.namespace,
        step.try,
        step.state,
      ]),
      [
        ['again', 1, 'waiting'],
        ['again', 2, 'waiting'],
        ['again', 3, 'succeeded'],
        ['then', 1, 'succeeded'],
      ],
    );
  });

  test('a run is cancelled, replayed, and restarted from a step by users', async () => {
    const { service } = fixture;
    const workflow = await service.createWorkflow({
      steps: [
        { namespace: 'a', code: cell('return Math.random();') },
        {
          namespace: 'b',
          code: cell("if (steps.trigger.event.body.ok !== true) throw new Error('not ok'); return 1;"),
        },
      ],
      triggers: [{ type: 'http', props: {} }],
    });
    await post(workflow.triggers[0].endpoint_url, { ok: false });
    const failed = await service.runInState(workflow.id, 'failed');
    const restarted = await service.api('POST', `/v1/runs/${failed.id}/restart`, {});
    assert.equal(restarted.status, 200);
    const again = await waitFor(async () => {
      const run = await service.runDetail(restarted.body.data.id);
      return run.state === 'failed' ? run : undefined;
    });
    assert.equal(again.replay_of, failed.id);
    assert.equal(again.trace_id, failed.trace_id);
    assert.deepEqual(again.steps[0].exports, failed.steps[0].exports, 'step a did not run again');
    const unknown = await service.api('POST', `/v1/runs/${failed.id}/restart`, { from_step: 'nothing' });
    assert.equal(unknown.status, 400);
    assert.equal(unknown.body.details.parameter, 'from_step');
    const replayed = await service.api('POST', `/v1/runs/${failed.id}/replay`);
    const replay = await waitFor(async () => {
      const run = await service.runDetail(replayed.body.data.id);
      return run.state === 'failed' ? run : undefined;
    });
    assert.notDeepEqual(replay.steps[0].exports, failed.steps[0].exports, 'step a ran again');

    const slow = await service.createWorkflow({
      steps: [
        { namespace: 'slow', code: cell('await new Promise((resolve) => setTimeout(resolve, 20_000));') },
      ],
      triggers: [{ type: 'http', props: {} }],
    });
    await post(slow.triggers[0].endpoint_url);
    const running = await service.runInState(slow.id, 'running');
    const cancelled = await service.api('POST', `/v1/runs/${running.id}/cancel`);
    assert.equal(cancelled.status, 200);
    assert.equal(cancelled.body.data.state, 'cancelled');
    assert.equal((await service.api('POST', `/v1/runs/${running.id}/cancel`)).status, 409);
    assert.equal((await service.runDetail(running.id)).steps.length, 0);
  });

  test('one step is tried by itself: nothing is recorded, nothing is sent', async () => {
    const { service } = fixture;
    const workflow = await service.createWorkflow({
      steps: [
        { namespace: 'first', code: cell('return 1;') },
        {
          namespace: 'second',
          code: cell(
            '$.send.emit({ a: 1 }); $.flow.delay(1000); return [steps.first.x, steps.trigger.event.y, $.context.JIT];',
          ),
        },
      ],
      triggers: [http],
    });
    const tried = await service.api('POST', `/v1/workflows/${workflow.id}/steps/second/test`, {
      event: { y: 2 },
      steps: { first: { x: 1 } },
    });
    assert.equal(tried.status, 200, JSON.stringify(tried.body));
    assert.deepEqual(tried.body.data.exports, { $return_value: [1, 2, true] });
    assert.deepEqual(tried.body.data.flow, { kind: 'delay', ms: 1000 });
    assert.deepEqual(tried.body.data.sends, [{ kind: 'emit', payload: { event: { a: 1 }, channel: null } }]);
    assert.equal((await service.runs(workflow.id)).length, 0);
    const unknown = await service.api('POST', `/v1/workflows/${workflow.id}/steps/nothing/test`, {});
    assert.deepEqual([unknown.status, unknown.body.details], [404, { parameter: 'namespace' }]);
    const files = `const fs = await import('node:fs'); const found = fs.readdirSync('/tmp'); fs.writeFileSync('/tmp/left', ''); return found;`;
    const writer = await service.createWorkflow({ steps: [{ namespace: 'a', code: cell(files) }] });
    const write = () => service.api('POST', `/v1/workflows/${writer.id}/steps/a/test`, {});
    for (const time of ['first', 'second'])
      assert.deepEqual((await write()).body.data.exports.$return_value, [], `the ${time} test finds no file`);
    const forged = { 'x":1},"trigger":{"event":"forged"},"y': { x: 1 } };
    const refused = await service.api('POST', `/v1/workflows/${workflow.id}/steps/second/test`, {
      steps: forged,
    });
    assert.deepEqual([refused.status, refused.body.details.parameter], [400, 'steps']);
  });

  test('an owner tries ten steps at once; one more is refused and can be tried again', async () => {
    const { service } = fixture;
    // They end when one was refused: a busy machine may take long to come to the last of them.
    const refusal = Promise.withResolvers<void>();
    await using gate = await HttpReceiver.start({
      answer: async () => {
        await refusal.promise;
        return {};
      },
    });
    const workflow = await service.createWorkflow({
      steps: [{ namespace: 'slow', code: cell(`await fetch('${gate.url}');`) }],
    });
    const attempt = async () => {
      const answer = await service.api('POST', `/v1/workflows/${workflow.id}/steps/slow/test`, {});
      if (answer.status !== 200) refusal.resolve();
      return answer;
    };
    const tried = await Promise.all(Array.from({ length: 11 }, attempt));
    const refused = tried.filter(({ status }) => status !== 200);
    assert.deepEqual(
      refused.map(({ status, body }) => [status, body.code]),
      [[429, 'actions_busy']],
    );
    assert.equal((await attempt()).status, 200);
  });

  test('a step is tried before it is deployed, with its secrets, its state and its own errors', async () => {
    const { service } = fixture;
    const props = "{ db: '$.service.db', key: { type: 'string', secret: true }, n: { type: 'integer' } }";
    const body = "await this.db.set('n', this.n); return [steps.earlier.x, this.key.length, this.n]";
    const workflow = await service.createWorkflow({
      steps: [{ namespace: 'pay', code: cell(body, props), props: { key: 'a secret of ours', n: 1 } }],
    });
    const attempt = (namespace: string, step: object, steps = { earlier: { x: 5 } }, key?: string) =>
      service.api(
        'POST',
        `/v1/workflows/${workflow.id}/steps/${namespace}/test`,
        { step, steps },
        key === undefined ? {} : { key },
      );
    const changed = cell(
      `const was = await this.db.get('n'); console.log(this.key);
      await $.respond({ status: 200, headers: { 'x-key': this.key }, body: { key: this.key } });
      ${body.replace(']', ', was ?? null, this.key]')}`,
      props,
    );
    const masked = workflow.steps[0].configured_props_json;
    for (const _again of [1, 2]) {
      const tried = await attempt('pay', {
        code: changed,
        props: { ...JSON.parse(masked), n: '{{steps.earlier.x + 1}}' },
      });
      assert.equal(tried.status, 200, JSON.stringify(tried.body));
      const returned = tried.body.data.exports.$return_value;
      assert.deepEqual(returned.slice(0, 4), [5, 16, 6, null], 'it has its secret, and leaves no state');
      assert.doesNotMatch(JSON.stringify(tried.body), /a secret of ours/);
      const { headers, body: sent } = tried.body.data.response;
      assert.deepEqual([headers['x-key'], JSON.parse(sent)], ['[redacted]', { key: '[redacted]' }]);
    }
    const answers = await attempt('new', { code: cell("await $.respond({ status: 201, body: 'made' });") });
    assert.deepEqual([answers.body.data.response.status, answers.body.data.response.body], [201, 'made']);
    const thrown = await attempt('new', {
      code: 'export default defineComponent({\n  run() {\n    throw new Error("no");\n  },\n});',
    });
    assert.deepEqual([thrown.body.data.state, thrown.body.data.error.msg], ['failed', 'no']);
    assert.match(thrown.body.data.error.stack, /component\.js:3:/);
    const wrong = await attempt('new', { code: 'export default defineComponent({\n  run( {\n});' });
    assert.deepEqual(
      [wrong.status, wrong.body.code, wrong.body.details.parameter, wrong.body.details.line],
      [400, 'invalid_component_code', 'step.code', 3],
    );
    const unfit = await attempt('pay', { code: changed, props: { key: 'k', n: 'many' } });
    assert.deepEqual([unfit.status, unfit.body.details.parameter], [400, 'step.props.n']);
    const forged = { 'x":1},"trigger":{"event":"forged"},"y': { x: 1 } } as never;
    assert.deepEqual((await attempt('new', { code: cell('return 1;') }, forged)).body.details, {
      parameter: 'steps',
    });
    assert.equal(
      (await attempt('trigger', { code: cell('return 1;') })).body.details.parameter,
      'step.namespace',
    );
    const stranger = await service.createUser('stranger');
    const foreign = await attempt('new', { code: cell('return 1;') }, undefined, stranger.key);
    assert.equal(foreign.status, 404);
    assert.equal((await service.runs(workflow.id)).length, 0);
    const now = (await service.api('GET', `/v1/workflows/${workflow.id}`)).body.data;
    assert.equal(now.deployment_id, workflow.deployment_id);
  });

  test('$.flow.trigger runs another workflow of the owner and gets its result', async () => {
    const { service } = fixture;
    const callee = await service.createWorkflow({
      steps: [{ namespace: 'double', code: cell('return steps.trigger.event.n * 2;') }],
      triggers: [http],
    });
    const caller = await service.createWorkflow({
      steps: [
        { namespace: 'call', code: cell(`return await $.flow.trigger('${callee.id}', { n: 21 });`) },
        {
          namespace: 'answer',
          code: cell('await $.respond({ status: 200, body: { result: steps.call.$return_value } });'),
        },
      ],
      triggers: [http],
    });
    const answer = await post(caller.triggers[0].endpoint_url);
    const { result } = (await answer.json()) as { result: unknown };
    assert.equal(result, 42);
    const run = await service.runInState(callee.id, 'succeeded');
    assert.equal(run.source_type, 'WORKFLOW');
    assert.equal(run.emitter_id, caller.id);
  });

  test('a step that runs a workflow which fails gets its error, and continues when it catches it', async () => {
    const { service } = fixture;
    const callee = await service.createWorkflow({
      steps: [{ namespace: 'fail', code: cell("throw new RangeError('no such order');") }],
      triggers: [http],
    });
    const caller = await service.createWorkflow({
      steps: [
        {
          namespace: 'call',
          code: cell(`try { await $.flow.trigger('${callee.id}'); }
            catch (error) { await $.respond({ status: 200, body: { code: error.code, message: error.message } }); }`),
        },
      ],
      triggers: [http],
    });
    const answer = await post(caller.triggers[0].endpoint_url);
    assert.deepEqual(await answer.json(), {
      code: 'workflow_failed',
      message: `workflow ${callee.id} failed: no such order`,
    });
    await service.runInState(callee.id, 'failed');
    await service.runInState(caller.id, 'succeeded');
  });
});
