import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runCommand } from '../support/command-line.ts';
import { forEachSharedService } from '../support/millrace.ts';
import { createTempFolder } from '../support/temp-folder.ts';
import { waitFor } from '../support/wait-for.ts';

/** Emits the body of each request, or the event that it listens to. */
const emitting = (more = '') => `export default {
  name: 'emits', version: '0.0.1', type: 'source',
  props: { http: { type: '$.interface.http' ${more} }, db: '$.service.db' },
  async run(event) {
    const { hold, ...body } = event.body ?? event;
    if (hold) await new Promise((resolve) => setTimeout(resolve, hold));
    this.$emit(body);
  },
};`;
const customer = '{{event.body.customer}}';

forEachSharedService((fixture) => {
  const sourceWith = (flow_control: object, more: object = {}) =>
    fixture.service.createSource({ component_code: emitting(), flow_control, ...more });

  // biome-ignore lint/suspicious/noExplicitAny: sources of every shape.
  const post = async (source: any, body: object) => {
    const { status } = await fetch(source.configured_props.http.endpoint_url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    assert.equal(status, 200);
  };
  const queueOf = async (id: string) =>
    (await fixture.service.api('GET', `/v1/sources/${id}/queue`)).body.data;
  // biome-ignore lint/suspicious/noExplicitAny: events of every shape.
  const eventsOf = async (id: string): Promise<any[]> =>
    (
      await fixture.service.api('GET', `/v1/sources/${id}/event_summaries?expand=event&limit=100`)
    ).body.data.map(({ event }: { event: unknown }) => event);

  test('flow control of a source is kept as given, stays with other changes, and is removed by null', async () => {
    const flow_control = { throttle: { limit: 10, seconds: 60, key: customer }, priority: 5 };
    const source = await sourceWith(flow_control);
    assert.deepEqual(source.flow_control, flow_control);
    const path = `/v1/sources/${source.id}`;
    const same = await fixture.service.api('PUT', path, { name: 'another' });
    assert.deepEqual(same.body.data.flow_control, flow_control);
    const without = await fixture.service.api('PUT', path, { flow_control: null });
    assert.equal(without.body.data.flow_control, null);
    assert.equal((await fixture.service.api('GET', path)).body.data.flow_control, null);
  });

  test('a control that makes no sense for a source is refused, with the field and the reason', async () => {
    const debounce = { seconds: 5, max_wait_seconds: 60 };
    const refusals: [object, string, RegExp][] = [
      [
        { concurrency: { limit: 1, key: customer } },
        'flow_control.concurrency',
        /follow each other \(concurrency 1\)/,
      ],
      [
        { throttle: { limit: 1, seconds: 1, key: '{{event.body.name.toLowerCase()}}' } },
        'flow_control',
        /no code is/,
      ],
      [
        { rate_limit: { account: 'slack', limit: 1, seconds: 1 } },
        'flow_control.rate_limit.account',
        /the name of an app prop of the source/,
      ],
      [{ debounce, batch: { max_events: 2, max_seconds: 2 } }, 'flow_control.batch', /with debounce/],
    ];
    for (const [flow_control, parameter, message] of refusals) {
      const refused = await fixture.service.api('POST', '/v1/sources', {
        component_code: emitting(),
        flow_control,
      });
      assert.deepEqual([refused.status, refused.body.details.parameter], [400, parameter]);
      assert.match(refused.body.error, message);
    }
    const replies = await fixture.service.api('POST', '/v1/sources', {
      component_code: emitting(', customResponse: true'),
      flow_control: { debounce },
    });
    assert.equal(replies.status, 400);
    assert.match(replies.body.error, /customResponse/);
    const keyed = await sourceWith({ concurrency: { limit: 1, key: customer } }, { concurrency: 2 });
    const serial = await fixture.service.api('PUT', `/v1/sources/${keyed.id}`, { concurrency: 1 });
    assert.equal(serial.status, 400);
  });

  test('requests to a source become batches, and the queue says what waits and why', async () => {
    const source = await fixture.service.createSource({
      component_code: emitting().replace(
        'event.body ?? event',
        '{ numbers: event.events.map(({ body }) => body.n), ...event.batch }',
      ),
      flow_control: {
        batch: { max_events: 2, max_seconds: 600, key: customer },
        throttle: { limit: 1, seconds: 3600, key: customer },
      },
    });
    for (const n of [1, 2, 3, 4, 5]) await post(source, { customer: 'acme', n });
    const queue = await waitFor(async () => {
      const seen = await queueOf(source.id);
      return seen.collected === 1 && seen.waiting === 1 && seen.totals.batched === 4 && seen;
    });
    assert.equal(queue.waiting_keys[0].blocked_by, 'throttle');
    assert.match(queue.waiting_keys[0].reason, /^1 runs with key "acme" have begun within 3600 seconds/);
    assert.deepEqual(queue.not_run, []);
    const [event] = await waitFor(async () => {
      const events = await eventsOf(source.id);
      return events.length === 1 && events;
    });
    assert.deepEqual(event, { numbers: [1, 2], count: 2, key: 'acme' });
  });

  test('an event replaces the run under way, whose code is stopped and of which nothing is stored', async () => {
    const source = await sourceWith({ singleton: { mode: 'replace', key: customer } });
    await post(source, { customer: 'acme', n: 1, hold: 600_000 });
    await waitFor(async () => (await queueOf(source.id)).under_way === 1);
    await post(source, { customer: 'acme', n: 2 });
    const events = await waitFor(async () => {
      const found = await eventsOf(source.id);
      return found.length > 0 && found;
    });
    assert.deepEqual(events, [{ customer: 'acme', n: 2 }]);
    const { not_run, totals } = await queueOf(source.id);
    assert.match(not_run[0].reason, /^replaced: run \w+ came later with the singleton key "acme"$/);
    assert.equal(totals.replaced, 1);
  });

  test('a source that listens to another one debounces the events that it gets', async () => {
    const emitter = await fixture.service.createSource({ component_code: emitting() });
    const listener = await sourceWith({
      debounce: { seconds: 3600, max_wait_seconds: 7200, key: '{{event.customer}}' },
    });
    const subscribed = await fixture.service.api(
      'POST',
      `/v1/subscriptions?emitter_id=${emitter.id}&listener_id=${listener.id}`,
    );
    assert.equal(subscribed.status, 200, JSON.stringify(subscribed.body));
    for (const n of [1, 2, 3]) await post(emitter, { customer: 'acme', n });
    const queue = await waitFor(async () => {
      const seen = await queueOf(listener.id);
      return seen.totals.debounced === 2 && seen;
    });
    assert.deepEqual([queue.collected, queue.waiting, queue.totals.started], [1, 0, 0]);
    assert.deepEqual(await eventsOf(listener.id), []);
  });

  test('a source and a workflow share the rate limit of an account', async () => {
    const account = await fixture.service.api('POST', '/v1/accounts', {
      app: 'gitlab',
      name: 'shared',
      credentials: { token: 'glpat-very-secret-token' },
    });
    const authProvisionId = account.body.data.id;
    const limit = { limit: 1, seconds: 3600 };
    const workflow = await fixture.service.createWorkflow({
      steps: [
        {
          namespace: 'a',
          code: `export default { props: { gitlab: { type: 'app', app: 'gitlab' } }, run() { return 1; } };`,
          props: { gitlab: { authProvisionId } },
        },
      ],
      triggers: [{ type: 'http' }],
      settings: { flow_control: { rate_limit: { account: 'a.gitlab', ...limit } } },
    });
    const source = await fixture.service.createSource({
      component_code: emitting().replace("db: '", "gitlab: { type: 'app', app: 'gitlab' }, db: '"),
      configured_props: { gitlab: { authProvisionId } },
      flow_control: { rate_limit: { account: 'gitlab', ...limit } },
    });
    await fetch(workflow.triggers[0].endpoint_url, { method: 'POST', body: '{}' });
    await waitFor(
      async () =>
        (await fixture.service.api('GET', `/v1/workflows/${workflow.id}/queue`)).body.data.totals.started ===
        1,
    );
    await post(source, { n: 1 });
    const queue = await waitFor(async () => {
      const seen = await queueOf(source.id);
      return seen.waiting_keys[0]?.blocked_by === 'rate_limit' && seen;
    });
    assert.match(
      queue.waiting_keys[0].reason,
      new RegExp(`the rate limit of account ${authProvisionId} is used up`),
    );
  });

  test('the command line sets flow control, and shows what waits and what did not run', async () => {
    const { service } = fixture;
    const source = await service.createSource({ component_code: emitting() });
    const folder = await createTempFolder('flow-control-cli');
    const environment = { MILLRACE_URL: service.url, MILLRACE_API_KEY: service.key };
    const millrace = (...words: string[]) => runCommand({ folder: folder.path, environment }, words);
    const flow = { throttle: { limit: 1, seconds: 3600 }, singleton: { mode: 'skip', key: customer } };
    const set = await millrace('sources', 'update', source.id, '--flow-control', JSON.stringify(flow));
    assert.equal(set.code, 0, set.stderr);
    await post(source, { customer: 'acme', n: 1 });
    await waitFor(async () => (await eventsOf(source.id)).length === 1);
    for (const n of [2, 3]) await post(source, { customer: 'acme', n });
    await waitFor(async () => {
      const { waiting, not_run } = await queueOf(source.id);
      return waiting === 1 && not_run.length === 1;
    });
    const { stdout } = await millrace('sources', 'queue', source.id);
    assert.match(stdout, /^skipped +1$/m);
    assert.match(stdout, /KEY +WAITING +UNDER WAY +REASON/);
    assert.match(stdout, /skipped: run \w+ has the singleton key "acme"/);
    const removed = await millrace('sources', 'update', source.id, '--flow-control', 'null');
    assert.equal(removed.code, 0, removed.stderr);
    await waitFor(async () => (await eventsOf(source.id)).length === 2, {
      what: 'what waited to run when nothing holds it back',
    });
    await folder.remove();
  });

  test('a source that is deleted leaves nothing of its queue', async () => {
    const source = await sourceWith({ throttle: { limit: 1, seconds: 3600 } });
    for (const n of [1, 2]) await post(source, { n });
    await waitFor(async () => (await queueOf(source.id)).waiting === 1);
    assert.equal((await fixture.service.api('DELETE', `/v1/sources/${source.id}`)).status, 204);
    assert.equal((await fixture.service.api('GET', `/v1/sources/${source.id}/queue`)).status, 404);
  });
});
