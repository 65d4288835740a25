import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HttpReceiver } from '../support/http-receiver.ts';
import { forEachSharedService } from '../support/millrace.ts';
import { waitFor } from '../support/wait-for.ts';

const returns = (namespace: string, expression: string) => ({
  namespace,
  code: `export default defineComponent({ async run({ steps, $ }) { return ${expression}; } });`,
});

forEachSharedService((fixture) => {
  /** A step that suspends the run and tells the receiver its links. */
  const suspends = (receiver: HttpReceiver, namespace: string, name = 'null') => ({
    namespace,
    code: `export default defineComponent({ async run({ steps, $ }) {
      const links = $.flow.suspend(3600_000);
      await fetch('${receiver.url}', { method: 'POST', body: JSON.stringify({ name: ${name}, ...links }) });
    } });`,
  });

  async function start(steps: object[]) {
    const { service } = fixture;
    const workflow = await service.createWorkflow({ triggers: [{ type: 'http' }], steps });
    await fetch(workflow.triggers[0].endpoint_url, { method: 'POST' });
    return workflow.id as string;
  }

  const ended = (run: { steps: { namespace: string; iteration: string; state: string }[] }) =>
    run.steps.map(
      ({ namespace, iteration, state }) => `${namespace}${iteration && `[${iteration}]`} ${state}`,
    );

  test('a branch that waits holds up no other, the run is parked when all wait, and each link continues its own', async () => {
    const { service } = fixture;
    await using receiver = await HttpReceiver.start();
    const id = await start([
      {
        namespace: 'both',
        block: 'parallel',
        branches: [
          {
            slug: 'asks',
            steps: [suspends(receiver, 'ask'), returns('said', 'steps.ask.$resume_data.body')],
          },
          {
            slug: 'asks_too',
            steps: [suspends(receiver, 'ask2'), returns('said2', 'steps.ask2.$resume_data.body')],
          },
          { slug: 'works', steps: [returns('one', '1'), returns('two', 'steps.one.$return_value + 1')] },
        ],
      },
      returns('after', 'steps.both.$return_value'),
    ]);
    const waiting = await service.runInState(id, 'waiting');
    assert.equal(waiting.wait.kind, 'branches');
    assert.deepEqual(ended(waiting).sort(), [
      ...['ask waiting', 'ask2 waiting', 'both succeeded', 'one succeeded', 'two succeeded'],
    ]);
    const [first, second] = receiver.requests.map((request) => request.json() as { resume_url: string });
    const resume = (url = '', body = '') =>
      fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
    await resume(first?.resume_url, '{"n":1}');
    await waitFor(async () => (await service.runDetail(waiting.id)).steps.length === 7, {
      what: 'the first branch to go on while the second one waits',
    });
    assert.equal((await service.runInState(id, 'waiting')).wait.kind, 'branches');
    assert.equal((await resume(first?.resume_url, '{"n":3}')).status, 200, 'done before');
    await resume(second?.resume_url, '{"n":2}');
    const run = await service.runInState(id, 'succeeded');
    const result = run.steps.at(-1).exports.$return_value;
    const values = [result.asks, result.asks_too].map((one) => one.$return_value.n);
    assert.deepEqual(values.sort(), [1, 2]);
    assert.equal(result.works.$return_value, 2);
    assert.equal(ended(run).filter((one) => one === 'one succeeded').length, 1, 'nothing has run twice');
  });

  test('a run says which branches and items wait, for what and until when, with links for who may change it', async () => {
    const { service } = fixture;
    await using receiver = await HttpReceiver.start();
    const id = await start([
      {
        namespace: 'both',
        block: 'parallel',
        branches: [
          { slug: 'asks', steps: [suspends(receiver, 'ask')] },
          {
            slug: 'each',
            steps: [
              {
                namespace: 'each',
                block: 'map',
                items: [1, 2],
                steps: [{ namespace: 'rest', block: 'delay', seconds: '{{steps.each.item * 1000}}' }],
              },
            ],
          },
        ],
      },
    ]);
    const run = await service.runInState(id, 'waiting');
    const shown = run.waits.map((wait: { namespace: string; iteration: string; kind: string }) =>
      [wait.namespace, wait.iteration, wait.kind].join(' '),
    );
    assert.deepEqual(shown, ['rest 0 delay', 'rest 1 delay', 'ask  suspend']);
    const [first, second, ask] = run.waits;
    const seconds = (Date.parse(second.until) - Date.parse(first.until)) / 1000;
    assert.ok(seconds > 900 && seconds < 1100, String(seconds));
    assert.deepEqual(
      ended(run).filter((one) => one.startsWith('rest')),
      ['rest[0] waiting', 'rest[1] waiting'],
      'a delay is not over when it has begun',
    );
    const told = receiver.requests[0]?.json() as { resume_url: string };
    assert.equal(ask.resume_url, told.resume_url);
    await fetch(first.resume_url, { method: 'POST' });
    await waitFor(async () => ended(await service.runDetail(run.id)).includes('rest[0] succeeded'), {
      what: 'the first item to continue',
    });
    await fetch(ask.cancel_url, { method: 'POST' });
    const cancelled = await service.runInState(id, 'cancelled');
    assert.deepEqual(cancelled.waits, []);
  });

  test('links of a run are shown to callers who may change it, and to no viewer or key that only reads', async () => {
    const { service } = fixture;
    await using receiver = await HttpReceiver.start();
    const workspace = (await service.api('POST', '/v1/workspaces', { name: 'Links' })).body.data.id;
    const viewer = await service.createUser('looks-on');
    await service.api('POST', `/v1/workspaces/${workspace}/members`, { user_id: viewer.id, role: 'viewer' });
    const scopes = async (...names: string[]) =>
      (await service.api('POST', '/v1/users/me/api_keys', { scopes: names })).body.data.api_key as string;
    const fails = {
      ...returns('fails', "(() => { throw new Error('down'); })()"),
      retries: { times: 1, seconds: 3600 },
    };
    const branches = [
      { slug: 'asks', steps: [suspends(receiver, 'ask')] },
      { slug: 'fails', steps: [fails] },
    ];
    const workflow = await service.createWorkflow({
      org_id: workspace,
      triggers: [{ type: 'http' }],
      steps: [{ namespace: 'both', block: 'parallel', branches }],
    });
    await fetch(workflow.triggers[0].endpoint_url, { method: 'POST' });
    const { id } = await service.runInState(workflow.id, 'waiting');
    const links = async (key?: string) => {
      const { status, body } = await service.api('GET', `/v1/runs/${id}`, undefined, key ? { key } : {});
      assert.equal(status, 200, JSON.stringify(body));
      const { waits, steps } = body.data;
      const { $attempt } = steps.find((step: { namespace: string }) => step.namespace === 'fails').exports;
      assert.equal($attempt.error.msg, 'down');
      return [...waits, $attempt].flatMap((one) => [
        'resume_url' in one ? one.resume_url : one.rerun_url,
        one.cancel_url,
      ]);
    };
    const shown = await links();
    assert.equal(shown.filter((link) => link?.startsWith('http')).length, 6, JSON.stringify(shown));
    assert.deepEqual(await links(await scopes('read', 'run')), shown);
    for (const key of [viewer.key, await scopes('read'), await scopes('read', 'write')])
      assert.deepEqual(await links(key), Array(6).fill(null));
  });

  test('a branch is resumed while another one still works', async () => {
    const { service } = fixture;
    const held = Promise.withResolvers<void>();
    await using receiver = await HttpReceiver.start();
    await using gate = await HttpReceiver.start({
      answer: async () => {
        await held.promise;
        return { status: 200, body: 'go' };
      },
    });
    using _ = { [Symbol.dispose]: held.resolve };
    const slow = {
      ...returns('slow', `await (await fetch('${gate.url}')).text()`),
      // Enough for a busy machine to resume the other branch meanwhile.
      timeout_seconds: 300,
    };
    const id = await start([
      {
        namespace: 'both',
        block: 'parallel',
        branches: [
          {
            slug: 'asks',
            steps: [suspends(receiver, 'ask'), returns('said', 'steps.ask.$resume_data.body')],
          },
          { slug: 'works', steps: [slow] },
        ],
      },
    ]);
    const request = await receiver.waitForRequest();
    await gate.waitForRequest();
    const { resume_url: url } = request.json() as { resume_url: string };
    const run = (await service.runs(id))[0];
    await waitFor(async () => (await service.runDetail(run.id)).steps.length === 2, {
      what: 'the wait to be recorded',
    });
    await fetch(url, { method: 'POST', body: 'x' });
    const before = await waitFor(
      async () => {
        const detail = await service.runDetail(run.id);
        return ended(detail).includes('said succeeded') ? detail : undefined;
      },
      { what: 'the resumed branch to end' },
    );
    assert.equal(before.state, 'running');
    held.resolve();
    await service.runInState(id, 'succeeded');
  });

  test('items of a map wait by themselves: delays, and retries of a step that fails', async () => {
    const { service } = fixture;
    // The process of the steps may end between two tries, when others need its place: it keeps no count.
    const tries = new Map<string, number>();
    await using counter = await HttpReceiver.start({
      answer: ({ url }) => {
        tries.set(url, (tries.get(url) ?? 0) + 1);
        return { body: String(tries.get(url)) };
      },
    });
    const id = await start([
      {
        namespace: 'each',
        block: 'map',
        items: [3, 1, 2],
        steps: [
          { namespace: 'later', block: 'delay', seconds: '{{steps.each.item / 20}}' },
          {
            namespace: 'flaky',
            retries: { times: 3, seconds: 1 },
            code: `export default defineComponent({ async run({ steps }) {
              const { item } = steps.each;
              const tries = Number(await (await fetch('${counter.url}/' + item)).text());
              if (tries < 2 && item === 1) throw new Error('not yet');
              return item + ' after ' + tries;
            } });`,
          },
        ],
      },
      returns('after', 'steps.each.$return_value'),
    ]);
    const run = await service.runInState(id, 'succeeded');
    assert.deepEqual(run.steps.at(-1).exports.$return_value, ['3 after 1', '1 after 2', '2 after 1']);
    assert.deepEqual(
      run.steps
        .filter((step: { namespace: string }) => step.namespace === 'flaky')
        .map((step: { iteration: string; try: number; state: string }) => [
          step.iteration,
          step.try,
          step.state,
        ]),
      [
        ['0', 1, 'succeeded'],
        ['1', 1, 'failed'],
        ['1', 2, 'succeeded'],
        ['2', 1, 'succeeded'],
      ],
    );
  });

  test('an error in one branch ends the run once, and stops the others', async () => {
    const { service } = fixture;
    await using gate = await HttpReceiver.start({ answer: () => new Promise(() => {}) });
    const id = await start([
      {
        namespace: 'both',
        block: 'parallel',
        branches: [
          { slug: 'hangs', steps: [returns('slow', `await (await fetch('${gate.url}')).text()`)] },
          { slug: 'waits', steps: [{ namespace: 'later', block: 'delay', seconds: 3600 }] },
          {
            slug: 'fails',
            steps: [
              {
                namespace: 'bad',
                code: `export default defineComponent({ async run() { await new Promise((r) => setTimeout(r, 200)); throw new Error('down'); } });`,
              },
            ],
          },
        ],
      },
    ]);
    const run = await service.runInState(id, 'failed');
    assert.deepEqual([run.error.msg, run.error.namespace], ['down', 'bad']);
    const { body } = await service.api('GET', `/v1/workflows/${id}/$errors/event_summaries`);
    assert.equal(body.data.length, 1);
  });

  test('a cancel link of a branch ends the whole run', async () => {
    const { service } = fixture;
    await using receiver = await HttpReceiver.start();
    const id = await start([
      {
        namespace: 'each',
        block: 'map',
        items: ['a', 'b'],
        steps: [suspends(receiver, 'ask', 'steps.each.item')],
      },
    ]);
    await service.runInState(id, 'waiting');
    const links = receiver.requests.map((request) => request.json() as { name: string; cancel_url: string });
    assert.deepEqual(links.map(({ name }) => name).sort(), ['a', 'b']);
    await fetch(links[1]?.cancel_url ?? '', { method: 'POST' });
    assert.equal((await service.runInState(id, 'cancelled')).reason, 'cancelled by its URL');
    assert.equal((await fetch(links[0]?.cancel_url ?? '', { method: 'POST' })).status, 410);
  });
});
