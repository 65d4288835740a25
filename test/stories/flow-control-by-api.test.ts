import assert from 'node:assert/strict';
import { test } from 'node:test';
import { forEachSharedService, type ServiceClient } from '../support/millrace.ts';
import { waitFor } from '../support/wait-for.ts';

const nothing = 'export default defineComponent({ async run({ steps, $ }) { return 1; } });';
const suspends =
  'export default defineComponent({ async run({ steps, $ }) { return $.flow.suspend(600000); } });';
const answer = 'export default defineComponent({ async run({ steps }) { return steps.trigger.event; } });';
const customer = '{{steps.trigger.event.body.customer}}';

forEachSharedService((fixture) => {
  const workflowWith = (flow_control: object, code = nothing) =>
    fixture.service.createWorkflow({
      steps: [{ namespace: 'a', code }],
      triggers: [{ type: 'http' }],
      settings: { flow_control },
    });

  const post = async (workflow: { triggers: { endpoint_url: string }[] }, body: object) => {
    const { status } = await fetch(workflow.triggers[0]?.endpoint_url ?? '', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    assert.equal(status, 200);
  };

  const queueOf = async (service: ServiceClient, id: string) =>
    (await service.api('GET', `/v1/workflows/${id}/queue`)).body.data;

  test('settings of flow control are kept as given, and removed by null', async () => {
    const { service } = fixture;
    const flow_control = {
      concurrency: { limit: 2, key: customer },
      throttle: { limit: 10, seconds: 60 },
      debounce: { seconds: 1, max_wait_seconds: 5, key: customer },
      singleton: { mode: 'replace' },
      priority: 5,
    };
    const made = await workflowWith(flow_control);
    assert.deepEqual(made.settings.flow_control, flow_control);
    const path = `/v1/workflows/${made.id}/deployments`;
    const same = await service.api('POST', path, { settings: { memory_mb: 512 } });
    assert.equal(same.status, 200, JSON.stringify(same.body));
    assert.deepEqual(same.body.data.settings.flow_control, flow_control);
    const without = await service.api('POST', path, { settings: { flow_control: null } });
    assert.equal(without.body.data.settings.flow_control, null);
  });

  test('what cannot be combined or understood is refused, with the field and the reason', async () => {
    const { service } = fixture;
    const debounce = { seconds: 5, max_wait_seconds: 60 };
    const batch = { max_events: 10, max_seconds: 5 };
    const refusals: [object, string, RegExp][] = [
      [{ flow_control: { debounce, batch } }, 'settings.flow_control.batch', /with debounce/],
      [
        { flow_control: { singleton: { mode: 'skip' }, batch } },
        'settings.flow_control.batch',
        /with singleton/,
      ],
      [
        { flow_control: { batch }, concurrency: 1 },
        'settings.flow_control',
        /settings\.concurrency: set that to null/,
      ],
      [
        { flow_control: { batch }, throttle: { limit: 1, seconds: 1 } },
        'settings.flow_control',
        /settings\.throttle/,
      ],
      [
        { flow_control: { debounce: { seconds: 5, max_wait_seconds: 4 } } },
        'settings.flow_control.debounce.max_wait_seconds',
        /at least seconds \(5\)/,
      ],
      [
        { flow_control: { concurrency: { limit: 1, key: 'customer' } } },
        'settings.flow_control.concurrency.key',
        /expected an expression/,
      ],
      [
        { flow_control: { rate_limit: { account: 'a.slack', limit: 1, seconds: 1 } } },
        'settings.flow_control.rate_limit.account',
        /account prop/,
      ],
      [
        { flow_control: { concurrency: { limit: 1, key: '{{steps.nope.x}}' } } },
        'settings.flow_control.concurrency.key',
        /names steps\.nope, which has not run when/,
      ],
      [
        { flow_control: { priority: '{{ steps["a"].$return_value + steps.trigger.event.n }}' } },
        'settings.flow_control.priority',
        /names steps\.a,/,
      ],
      [{ flow_control: { priority: 601 } }, 'settings.flow_control.priority', /./],
      [{ flow_control: { concurrency: { limit: 0 } } }, 'settings.flow_control.concurrency.limit', /./],
      [{ flow_control: { speed: 1 } }, 'settings.flow_control.speed', /no such field/],
    ];
    for (const [settings, parameter, message] of refusals) {
      const refused = await service.api('POST', '/v1/workflows', {
        steps: [{ namespace: 'a', code: nothing }],
        settings,
      });
      assert.deepEqual([refused.status, refused.body.details.parameter], [400, parameter]);
      assert.match(refused.body.error, message);
    }
    const waits = await service.api('POST', '/v1/workflows', {
      steps: [],
      triggers: [{ type: 'http', props: { custom_response: true } }],
      settings: { flow_control: { batch } },
    });
    assert.equal(waits.status, 400);
    assert.match(waits.body.error, /custom_response of trigger hi_/);
  });

  test('the queue and each run say what waits, and why', async () => {
    const { service } = fixture;
    const workflow = await workflowWith({ concurrency: { limit: 1, key: customer } }, suspends);
    for (const n of [1, 2, 3]) await post(workflow, { customer: 'acme', n });
    await post(workflow, { customer: 'other' });
    const queue = await waitFor(async () => {
      const seen = await queueOf(service, workflow.id);
      return seen.under_way === 2 && seen.waiting === 2 && seen;
    });
    const reason = '1 of 1 runs with key "acme" are under way';
    assert.deepEqual(queue.waiting_keys, [
      {
        key: 'acme',
        throttle_key: '',
        waiting: 2,
        under_way: 1,
        blocked_by: 'concurrency',
        reason,
        until: null,
      },
    ]);
    const held = await service.runInState(workflow.id, 'waiting');
    const runs = (await service.api('GET', `/v1/workflows/${workflow.id}/runs?state=queued`)).body.data;
    const places = await Promise.all(
      runs.map(async ({ id }: { id: string }) => (await service.runDetail(id)).queue),
    );
    assert.deepEqual(
      places.filter(({ state }) => state === 'waiting'),
      [1, 2].map(() => ({ state: 'waiting', reason, until: null, warning: null })),
    );
    assert.deepEqual(
      runs.map(({ wait_reason }: { wait_reason: string }) => wait_reason),
      [reason, reason],
      'the list says it too',
    );
    const { queue: place, wait_reason } = await service.runDetail(held.id);
    assert.equal(place.state, 'started');
    assert.match(
      wait_reason,
      /^step a waits for a request to its resume or cancel URL, until 20.*Z at the latest$/,
    );
    // The other one under way, which keeps the place, may be suspended later than the newest.
    const underWay = await waitFor(
      async () => {
        const { body } = await service.api('GET', `/v1/workflows/${workflow.id}/runs?state=waiting`);
        return body.data.length === 2 && body.data;
      },
      { what: 'both runs to be suspended' },
    );
    for (const { id } of underWay) await service.api('POST', `/v1/runs/${id}/cancel`);
    await waitFor(async () => (await queueOf(service, workflow.id)).totals.started === 3, {
      what: 'the next run to have the place',
    });
  });

  test('a key that is code is evaluated in the sandbox; one that fails counts as the empty key', async () => {
    const { service } = fixture;
    const workflow = await workflowWith(
      { batch: { max_events: 2, max_seconds: 600, key: '{{steps.trigger.event.body.name.toLowerCase()}}' } },
      answer,
    );
    for (const name of ['Ann', 'BOB', 'ANN']) await post(workflow, { name });
    const run = await waitFor(
      async () =>
        (await service.api('GET', `/v1/workflows/${workflow.id}/runs?state=succeeded`)).body.data[0],
      { what: 'the batch to have run' },
    );
    const { event } = await service.runDetail(run.id);
    assert.deepEqual(
      event.events.map(({ body }: { body: object }) => body),
      [{ name: 'Ann' }, { name: 'ANN' }],
    );
    assert.deepEqual(event.batch, { count: 2, key: 'ann' });
    await post(workflow, { name: null });
    const failed = await waitFor(async () => {
      const { body } = await service.api('GET', `/v1/workflows/${workflow.id}/runs?state=queued`);
      for (const { id } of body.data) {
        const { queue } = await service.runDetail(id);
        if (typeof queue?.warning === 'string') return queue;
      }
      return false;
    });
    assert.match(failed.warning, /is no value \(.*toLowerCase/);
    assert.match(failed.reason, /^in a batch of 1 so far, which runs with 2 events or at 20/);
  });

  test('a key that the event does not have is a warning of the run, also when it has ended', async () => {
    const { service } = fixture;
    const workflow = await workflowWith({ concurrency: { limit: 1, key: customer } });
    await post(workflow, {});
    const run = await service.runInState(workflow.id, 'succeeded');
    assert.equal(run.flow_warning, `${customer} is missing, expected a text, number or boolean`);
    await post(workflow, { customer: 'acme' });
    const [last] = await waitFor(async () => {
      const { body } = await service.api('GET', `/v1/workflows/${workflow.id}/runs?state=succeeded`);
      return body.data.length === 2 && body.data;
    });
    assert.equal(last.flow_warning, null);
  });

  test('a rate limit names the account of a step, and holds for all workflows that use it', async () => {
    const { service } = fixture;
    const account = await service.api('POST', '/v1/accounts', {
      app: 'gitlab',
      name: 'shared',
      credentials: { token: 'glpat-very-secret-token' },
    });
    const code = `const gitlab = { type: 'app', app: 'gitlab' };
      export default { props: { gitlab }, run() { return 1; } };`;
    const [first, second] = await Promise.all(
      ['one', 'two'].map((name) =>
        service.createWorkflow({
          steps: [{ namespace: 'a', code, props: { gitlab: { authProvisionId: account.body.data.id } } }],
          triggers: [{ type: 'http' }],
          settings: { name, flow_control: { rate_limit: { account: 'a.gitlab', limit: 2, seconds: 3600 } } },
        }),
      ),
    );
    for (let n = 0; n < 2; n += 1) for (const one of [first, second]) await post(one, { n });
    const queues = await waitFor(async () => {
      const both = [await queueOf(service, first.id), await queueOf(service, second.id)];
      // Those that start may be seen waiting before.
      const waiting = both.reduce((sum, queue) => sum + queue.waiting, 0);
      const started = both.reduce((sum, { totals }) => sum + totals.started, 0);
      return waiting === 2 && started === 2 && both;
    });
    const [blocked] = queues.flatMap(({ waiting_keys }) => waiting_keys);
    assert.equal(blocked.blocked_by, 'rate_limit');
    assert.match(blocked.reason, new RegExp(`the rate limit of account ${account.body.data.id} is used up`));
  });

  test('a workflow that is deleted leaves nothing of its queue', async () => {
    const { service } = fixture;
    const workflow = await workflowWith({ concurrency: { limit: 1 } }, suspends);
    for (const n of [1, 2]) await post(workflow, { n });
    await waitFor(async () => (await queueOf(service, workflow.id)).waiting === 1);
    assert.equal((await service.api('DELETE', `/v1/workflows/${workflow.id}`)).status, 204);
    assert.equal((await service.api('GET', `/v1/workflows/${workflow.id}/queue`)).status, 404);
  });
});
