import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import nodemailer from 'nodemailer';
import { freePort } from '../support/free-port.ts';
import { HttpReceiver } from '../support/http-receiver.ts';
import { EventStream, forEachService, type ServiceFixture } from '../support/millrace.ts';
import { OAuthProvider } from '../support/oauth-provider.ts';
import { TestBrowser } from '../support/test-browser.ts';
import { waitFor } from '../support/wait-for.ts';

/**
 * Everything that has to survive a stop or a kill of the service, on one service per store: all stories prepare, all begin, the
 * service is restarted, and each looks at what it finds. A start of the service costs more than any of them.
 */
interface Story {
  name: string;
  /** Why the story is skipped on this store. */
  skip?: string | false;
  prepare(): Promise<{
    /** What has to be under way when the service ends. */
    begin?: () => Promise<void>;
    /** Before each kill after the first. */
    beginAgain?: () => Promise<void>;
    /** On the service that has started again. */
    check: () => Promise<void>;
  }>;
}

/** A process that is killed leaves leases, which end by themselves. */

/** Registers a test per story; `restart` is called when all have begun. */
function tellTogether(
  stories: readonly Story[],
  restart: (beginAgain: () => Promise<void>) => Promise<void>,
): void {
  /** The failure of a story is that of its test. */
  const prepared = new Map<Story, ReturnType<Story['prepare']>>();
  const inAll = async (act: (story: Story) => ReturnType<Story['prepare']>) => {
    for (const story of stories) if (!story.skip) prepared.set(story, act(story));
    await Promise.allSettled(prepared.values());
  };
  const continueAll = (begin: 'begin' | 'beginAgain') =>
    inAll(async (story) => {
      const told = await (prepared.get(story) ?? story.prepare());
      await told[begin]?.();
      return told;
    });
  before(async () => {
    await inAll((story) => story.prepare());
    await continueAll('begin');
    await restart(() => continueAll('beginAgain'));
  });
  for (const story of stories)
    test(story.name, { skip: story.skip ?? false }, async () => {
      const told = await prepared.get(story);
      await told?.check();
    });
}

/** A step whose `run` has this body. */
const cell = (body: string) => `export default defineComponent({ async run({ steps, $ }) { ${body} } });`;

const post = (url: string, body: unknown = {}) =>
  fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });

/** The service listens elsewhere since it was restarted. */
const moved = (fixture: ServiceFixture, url: string) => fixture.service.url + new URL(url).pathname;

const smtpPort = await freePort();

forEachService(
  (fixture) => {
    const data = async (method: string, path: string, body?: unknown, key?: string) => {
      const answer = await fixture.service.api(method, path, body, key === undefined ? {} : { key });
      assert.ok(answer.status < 300, `${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
      return answer.body?.data;
    };
    /** The receiver that all stories share: it gets the requests of code under test. */
    let receiver: HttpReceiver;
    const requestsTo = (path: string) => receiver.requests.filter(({ url }) => url.startsWith(path));
    const gates = new Map<string, Promise<void>>();
    before(async () => {
      receiver = await HttpReceiver.start({
        answer: async ({ url }) => {
          await gates.get(url);
          return {};
        },
      });
    });
    after(() => receiver?.close());

    const actionsEnd: Story = {
      name: 'a service that stops lets actions end, tells who asked of those that do not, and counts them all',
      async prepare() {
        const owner = await fixture.service.createUser('stopped');
        const act = (name: string) =>
          fixture.service.api(
            'POST',
            '/v1/actions/run',
            {
              component_code: `export default { name: 'Slow', key: 'slow-${name}', version: '0.1.0', type: 'action',
                async run() { await (await fetch('${receiver.url}/action/${name}')).text(); return 1; } };`,
            },
            { key: owner.key },
          );
        const gate = Promise.withResolvers<void>();
        gates.set('/action/short', gate.promise);
        gates.set('/action/long', new Promise(() => {}));
        let answering: Promise<Awaited<ReturnType<typeof act>>[]> | undefined;
        return {
          begin: async () => {
            answering = Promise.all([act('short'), act('long')]);
            answering.catch(() => undefined);
            await waitFor(() => requestsTo('/action/').length === 2, { what: 'both to begin' });
            const { service } = fixture;
            // It no longer answers new requests, so it is stopping.
            void waitFor(() =>
              fetch(`${service.url}/readyz`).then(
                ({ ok }) => !ok,
                () => true,
              ),
            ).finally(() => gate.resolve());
          },
          check: async () => {
            const [short, long] = (await answering) ?? [];
            assert.ok(short && long);
            assert.deepEqual([short.status, short.body.data?.ret], [200, 1], JSON.stringify(short.body));
            assert.deepEqual(
              [long.status, long.body.code],
              [503, 'outcome_unknown'],
              JSON.stringify(long.body),
            );
            assert.match(long.body.error, /stopped before the action ended; it may have run in part/);
            assert.equal((await data('GET', `/v1/quotas/${owner.id}`)).used.invocations, 2);
          },
        };
      },
    };

    const sourceStays: Story = {
      name: 'the state and the events of a source stay over a stop',
      async prepare() {
        const source = await fixture.service.createSource({
          component_code: `export default { name: 'Echo', props: { http: { type: '$.interface.http', customResponse: true }, db: '$.service.db' },
            run(event) {
              const count = (this.db.get('count') ?? 0) + 1;
              this.db.set('count', count);
              this.http.respond({ status: 200, body: { count } });
              this.$emit({ count, body: event.body });
            } };`,
        });
        const endpoint: string = source.configured_props.http.endpoint_url;
        const send = async (body: string) =>
          (await (await fetch(moved(fixture, endpoint), { method: 'POST', body })).json()) as object;
        assert.deepEqual(await send('one'), { count: 1 });
        return {
          check: async () => {
            assert.deepEqual(await send('two'), { count: 2 });
            const events = await waitFor(async () => {
              const stored = await fixture.service.events(source.id);
              return stored.length === 2 && stored;
            });
            assert.deepEqual(
              events.map((event) => event.event.body),
              ['two', 'one'],
            );
          },
        };
      },
    };

    const readersAreTold: Story = {
      name: 'a service that stops tells the readers of a workspace, who resume when it is back',
      async prepare() {
        const workspace = (await data('POST', '/v1/workspaces', { name: 'Stream' })).id;
        const source = await fixture.service.createSource({
          org_id: workspace,
          component_code: `export default { name: 'Emitting', props: { http: '$.interface.http' },
            run({ body }) { for (const n of body) this.$emit({ n }); } };`,
        });
        const emit = (...numbers: number[]) =>
          post(moved(fixture, source.configured_props.http.endpoint_url), numbers);
        const open = (lastEventId?: string) =>
          EventStream.open(
            `${fixture.service.url}/workspaces/${workspace}/sse`,
            lastEventId,
            fixture.service.key,
          );
        const stream = await open();
        await emit(1);
        const { id } = await stream.message(1);
        return {
          check: async () => {
            await stream.ended;
            assert.deepEqual(stream.messages.at(-1), {
              event: 'end',
              id: undefined,
              data: { reason: 'the service stops' },
            });
            await emit(2, 3);
            const again = await open(id);
            await again.message(2);
            assert.deepEqual(
              again.messages.map((message) => message.data.event.n),
              [2, 3],
            );
            again.close();
          },
        };
      },
    };

    const dataStore: Story = {
      name: 'an entry of a data store is there after a power cut',
      async prepare() {
        const { id } = await data('POST', '/v1/data_stores', { name: 'orders' });
        const entry = `/v1/data_stores/${id}/entries/c`;
        return {
          begin: () => data('PUT', entry, { value: 'x'.repeat(5_000) }),
          check: async () => {
            assert.equal((await data('GET', entry)).value.length, 5_000);
            const listed = await data('GET', '/v1/users/me/data_stores');
            assert.deepEqual(
              listed.map((store: { id: string }) => store.id),
              [id],
            );
          },
        };
      },
    };

    const delayGoesOn: Story = {
      name: '$.flow.delay continues by itself after a kill',
      async prepare() {
        const workflow = await fixture.service.createWorkflow({
          steps: [
            { namespace: 'first', code: cell('$.flow.delay(4000); return Date.now();') },
            { namespace: 'second', code: cell('return Date.now() - steps.first.$return_value;') },
          ],
          triggers: [{ type: 'http', props: {} }],
        });
        return {
          begin: async () => {
            const answer = await post(workflow.triggers[0].endpoint_url);
            assert.equal(answer.status, 200);
            assert.match(await answer.text(), /Success/);
            // On a busy machine it may continue before the kill.
            await fixture.service.runInState(workflow.id, 'waiting', 'running', 'succeeded');
          },
          check: async () => {
            const run = await fixture.service.runInState(workflow.id, 'succeeded');
            const waited = run.steps.at(-1).exports.$return_value;
            assert.ok(waited >= 3990, String(waited));
            assert.equal(run.steps.length, 2);
          },
        };
      },
    };

    const timersFire: Story = {
      name: 'killed while timers fire, each tick in the ledger is one run, and each run ends',
      async prepare() {
        const timers = Array.from({ length: 8 }, (_, n) => ({
          ...{ type: 'timer', props: { interval_seconds: 3600 + n } },
        }));
        const { id, triggers } = await fixture.service.createWorkflow({
          steps: [{ namespace: 'seen', code: cell('return steps.trigger.event;') }],
          triggers: timers,
        });
        const ticks = (): Promise<{ trigger_id: string }[]> =>
          data('GET', `/v1/workflows/${id}/ticks?limit=100`);
        let begun = 0;
        const begin = async () => {
          begun += 1;
          // What is due when a workflow becomes inactive is no longer fired.
          await waitFor(async () => (await ticks()).length === begun * timers.length);
          await data('PUT', `/v1/workflows/${id}`, { active: false });
          await data('PUT', `/v1/workflows/${id}`, { active: true });
        };
        return {
          begin,
          beginAgain: begin,
          check: async () => {
            // Each activation ticks at once, or late after the next start; whatever its state, the two lists agree.
            const expected = (begun + 1) * timers.length;
            const [ticked, runs] = await waitFor(async () => {
              const lists = [await ticks(), await fixture.service.runs(id)] as const;
              const isOver =
                lists[0].length === expected && lists[1].every((run) => run.state === 'succeeded');
              return isOver && lists[1].length >= expected && lists;
            });
            assert.equal(runs.length, expected);
            for (const { id: timer } of triggers) {
              assert.equal(ticked.filter(({ trigger_id }) => trigger_id === timer).length, begun + 1, timer);
              assert.equal(runs.filter(({ emitter_id }) => emitter_id === timer).length, begun + 1, timer);
            }
          },
        };
      },
    };

    const turnsStay: Story = {
      name: 'runs that wait for the turn of their source at each kill keep their order, and run before what comes later',
      async prepare() {
        const source = await fixture.service.createSource({
          component_code: `export default { name: 'Turns', props: { http: '$.interface.http' },
            async run({ body: { n } }) { await (await fetch('${receiver.url}/turn/' + n)).text(); this.$emit({ n }); } };`,
        });
        const send = async (n: number) => {
          const { status } = await post(moved(fixture, source.configured_props.http.endpoint_url), { n });
          assert.equal(status, 200);
        };
        const gate = Promise.withResolvers<void>();
        for (const n of [1, 2]) gates.set(`/turn/${n}`, gate.promise);
        let kills = 0;
        return {
          begin: async () => {
            for (const n of [1, 2, 3, 4, 5]) await send(n);
            await waitFor(() => requestsTo('/turn/1').length > 0);
          },
          beginAgain: async () => {
            kills += 1;
            // The first, lost a second time, waits until it may run alone, and the next one is under way.
            await waitFor(
              () => requestsTo(kills === 1 ? '/turn/1' : '/turn/2').length === (kills === 1 ? 2 : 1),
            );
          },
          check: async () => {
            await send(6);
            gate.resolve();
            const events = await waitFor(async () => {
              const found = await fixture.service.events(source.id);
              return found.length === 6 && found;
            });
            const order = events.map(({ event }) => event.n).reverse();
            assert.deepEqual(
              order.filter((n) => n !== 1),
              [2, 3, 4, 5, 6],
              order.join(),
            );
          },
        };
      },
    };

    const changeIsUndone: Story = {
      name: 'after a kill in the middle of a change a source is soon as it was, and can be changed again',
      // There the next process waits until the lease of the killed one has run out: deploy-source.test.ts has that.
      skip: fixture.dialect === 'postgres' && 'takes as long as a lease',
      async prepare() {
        const component = (name: string, activate = '') => `export default {
          name: '${name}', props: { http: { type: '$.interface.http', customResponse: true }, mood: 'string' },
          hooks: { async activate() { ${activate} } },
          run() { this.http.respond({ status: 200, body: { by: '${name}', mood: this.mood } }); },
        };`;
        const source = await fixture.service.createSource({
          component_code: component('survivor'),
          configured_props: { mood: 'old' },
        });
        const ask = async () => {
          const response = await fetch(moved(fixture, source.configured_props.http.endpoint_url));
          return response.status === 200 ? ((await response.json()) as object) : undefined;
        };
        const put = () =>
          fixture.service.api('PUT', `/v1/sources/${source.id}`, {
            component_code: component('successor', `await fetch('${receiver.url}/change');`),
            configured_props: { mood: 'new' },
          });
        gates.set('/change', new Promise(() => {}));
        let lost: Promise<unknown> | undefined;
        return {
          begin: async () => {
            lost = put().catch(() => undefined);
            await waitFor(() => requestsTo('/change').length === 1, { what: 'the change to be under way' });
            gates.delete('/change');
          },
          check: async () => {
            assert.equal(await lost, undefined);
            const back = await waitFor(async () => {
              const answer = await ask();
              return answer !== undefined && 'by' in answer && answer.by === 'survivor' && answer;
            });
            assert.deepEqual(back, { by: 'survivor', mood: 'old' });
            const changed = await put();
            assert.deepEqual([changed.status, changed.body.data?.configured_props.mood], [200, 'new']);
            assert.deepEqual(await ask(), { by: 'successor', mood: 'new' });
          },
        };
      },
    };

    const replayGoesOn: Story = {
      name: 'a replay continues after the service was killed in the middle of it',
      async prepare() {
        const numbers = [0, 1, 2, 3, 4, 5];
        const from = await fixture.service.createSource({
          component_code: `export default { name: 'Emitter', props: { http: '$.interface.http' },
            run({ body }) { for (const item of body) this.$emit(item); } };`,
        });
        const hook = await data('POST', '/v1/webhooks', { url: `${receiver.url}/replayed` });
        await post(from.configured_props.http.endpoint_url, numbers);
        await waitFor(async () => (await fixture.service.events(from.id)).length === numbers.length);
        let id = '';
        return {
          begin: async () => {
            const asked = { listener_id: hook.id, rate: 4 };
            ({ id } = await data('POST', `/v1/sources/${from.id}/replay`, asked));
            await waitFor(() => requestsTo('/replayed').length >= 2, { what: 'two events to be sent' });
          },
          check: async () => {
            // What the dead process had in memory is another's when its lease has run out.
            const { total, sent, failed } = await waitFor(async () => {
              const replay = await data('GET', `/v1/replays/${id}`);
              return replay.state === 'finished' && replay;
            });
            assert.deepEqual({ total, sent, failed }, { total: 6, sent: 6, failed: 0 });
            const received = new Set(requestsTo('/replayed').map((request) => request.json()));
            assert.deepEqual([...received].sort(), numbers);
          },
        };
      },
    };

    const mailsRun: Story = {
      name: 'mails that were accepted survive a kill: their runs end after the next start',
      async prepare() {
        const workflow = await fixture.service.createWorkflow({
          steps: [{ namespace: 'read', code: cell('return steps.trigger.event.subject;') }],
          triggers: [{ type: 'email' }],
        });
        const mails = 20;
        const send = async (subject: string) => {
          const transport = nodemailer.createTransport({
            ...{ host: '127.0.0.1', port: smtpPort, ignoreTLS: true },
          });
          try {
            const to = workflow.triggers[0].email_address;
            const mail = { from: 'Ada <ada@sender.example>', to, subject, text: 'x' };
            return (await transport.sendMail(mail)).response;
          } finally {
            transport.close();
          }
        };
        return {
          begin: async () => {
            const replies = await Promise.all(Array.from({ length: mails }, (_, n) => send(`mail ${n}`)));
            assert.equal(replies.filter((reply) => reply.startsWith('250')).length, mails);
          },
          check: async () => {
            const runs = await waitFor(async () => {
              const all = await fixture.service.runs(workflow.id);
              return all.every(({ state }) => state === 'succeeded') && all;
            });
            assert.equal(runs.length, mails);
          },
        };
      },
    };

    const apphooksRun: Story = {
      name: 'an event of an app that was answered survives a kill',
      async prepare() {
        const names = ['first', 'second', 'third'];
        const sources = await Promise.all(
          names.map((topic) =>
            fixture.service.createSource({
              component_code: `export default { name: 'Listener', version: '0.0.1', props: {
                slack: { type: 'app', app: 'slack' }, topic: 'string',
                hook: { type: '$.interface.apphook', appProp: 'slack', eventNames() { return [this.topic]; } } },
                async run(event) { await new Promise((resolve) => setTimeout(resolve, 300)); this.$emit(event); } };`,
              configured_props: { topic },
            }),
          ),
        );
        return {
          begin: async () => {
            for (const n of [1, 2, 3]) {
              const event = { app: 'slack', event_name: names, payload: { n } };
              assert.equal((await data('POST', '/v1/apphooks', event)).delivered, 3);
            }
          },
          check: async () => {
            for (const { id } of sources) {
              const seen = async () =>
                new Set((await fixture.service.events(id)).map(({ event }) => event?.n)).size;
              await waitFor(async () => (await seen()) === 3, {
                what: `all events of ${id}`,
              });
            }
          },
        };
      },
    };

    const deploymentStays: Story = {
      name: 'runs end on the deployment they began with, also after a kill; new events use the new one',
      async prepare() {
        const { service } = fixture;
        /** Steps that send the receiver the running version and how to resume it. */
        const steps = (version: string) => [
          {
            namespace: 'first',
            // Three starts of the service may take minutes on a busy machine.
            code: cell(`const { resume_url } = $.flow.suspend(3_600_000);
              await fetch('${receiver.url}/deployed/${version}', { method: 'POST', body: resume_url });`),
          },
          { namespace: 'second', code: cell(`return '${version}';`) },
        ];
        const workflow = await service.createWorkflow({
          steps: steps('v1'),
          triggers: [{ type: 'http', props: {} }],
        });
        const url = workflow.triggers[0].endpoint_url;
        await fetch(url, { method: 'POST' });
        const old = await service.runInState(workflow.id, 'waiting');
        const deployed = await data('POST', `/v1/workflows/${workflow.id}/deployments`, {
          steps: steps('v2'),
          triggers: workflow.triggers.map(({ id }: { id: string }) => ({ id })),
        });
        assert.notEqual(deployed.deployment_id, workflow.deployment_id);
        assert.equal(deployed.triggers[0].endpoint_url, url, 'the trigger stays');
        assert.deepEqual(
          deployed.steps.map(({ id }: { id: string }) => id),
          workflow.steps.map(({ id }: { id: string }) => id),
          'steps of the same name keep their ids',
        );
        await fetch(url, { method: 'POST' });
        await waitFor(() => requestsTo('/deployed/v2').length === 1);
        await waitFor(async () => (await service.runs(workflow.id, '&state=waiting')).length === 2);
        const inactive = await data('PUT', `/v1/workflows/${workflow.id}`, { active: false });
        assert.equal(inactive.active, false);
        assert.equal(
          (await fetch(url, { method: 'POST' })).status,
          404,
          'an inactive workflow takes no events',
        );
        return {
          check: async () => {
            for (const { body } of requestsTo('/deployed/'))
              assert.equal((await fetch(moved(fixture, body.toString()), { method: 'POST' })).status, 200);
            const ended = await waitFor(async () => {
              const runs = await fixture.service.runs(workflow.id, '&state=succeeded');
              return runs.length === 2 && runs;
            });
            const [newRun, oldRun] = await Promise.all(ended.map(({ id }) => fixture.service.runDetail(id)));
            assert.equal(oldRun.id, old.id);
            assert.equal(oldRun.deployment_id, workflow.deployment_id);
            assert.equal(oldRun.steps.at(-1).exports.$return_value, 'v1');
            assert.equal(newRun.deployment_id, deployed.deployment_id);
            assert.equal(newRun.steps.at(-1).exports.$return_value, 'v2');
          },
        };
      },
    };

    /** A provider whose tokens are soon to be refreshed, and an account there. `intercept`: from the first refresh on. */
    async function connectAccount(
      slug: string,
      intercept?: OAuthProvider['intercept'],
    ): Promise<{ provider: OAuthProvider; id: string }> {
      const provider = await OAuthProvider.start([`${fixture.service.url}/connect/callback`], {
        accessTokenSeconds: 2,
      });
      providers.push(provider);
      // The first request for a token is that of the connection. On a busy machine the first refresh may come before that is over.
      provider.intercept = () => {
        provider.intercept = intercept;
        return false;
      };
      await data('POST', '/v1/apps', provider.app(slug));
      const client = { client_id: provider.clientId, client_secret: provider.clientSecret };
      await data('PUT', `/v1/apps/${slug}/oauth_client`, client);
      const home = 'https://dashboard.example/';
      const asked = { app: slug, redirect_url: `${home}done` };
      const { connect_url } = await data('POST', '/v1/accounts/connect', asked);
      const visit = await new TestBrowser().visit(connect_url, {
        stopBefore: (url) => url.startsWith(home),
      });
      const id = new URL(visit.url).searchParams.get('account_id');
      assert.ok(id, visit.url);
      return { provider, id };
    }
    const providers: OAuthProvider[] = [];
    after(() => Promise.all(providers.map((provider) => provider.close())));
    const accountOf = (id: string) => data('GET', `/v1/accounts/${id}?include_credentials=1`);

    const refreshComesAgain: Story = {
      name: 'a service that is killed in a refresh which the provider never saw refreshes after its start',
      async prepare() {
        let held = 0;
        // Each ends with its connection, as when the provider is cut off.
        const { provider, id } = await connectAccount('held_back', () => {
          held += 1;
          return true;
        });
        return {
          begin: async () => {
            await waitFor(() => held > 0, { what: 'a refresh' });
            provider.intercept = undefined;
            provider.accessTokenSeconds = 3600;
          },
          check: async () => {
            // On PostgreSQL the lease of the process that died ends by itself.
            const account = await waitFor(
              async () => {
                const found = await accountOf(id);
                return found.healthy === true ? found : undefined;
              },
              { what: 'the refresh' },
            );
            assert.equal(account.dead, false);
            assert.ok(Date.parse(account.expires_at) > Date.now() + 3_000_000);
            assert.equal(provider.granted.filter((type) => type === 'refresh_token').length, 1);
            assert.equal(provider.refused.length, 0);
          },
        };
      },
    };

    const tokenIsLost: Story = {
      name: 'a service that is killed before it heard the answer to a refresh loses the token, not the account',
      // With other processes about, each of these waits for the lease of the dead one: once is enough there.
      skip: fixture.dialect === 'postgres' && 'shown on SQLite',
      async prepare() {
        const { provider, id } = await connectAccount('unheard');
        // The provider takes the request, spends the refresh token, and its answer is lost.
        const spent = Promise.withResolvers<void>();
        const intercept: OAuthProvider['intercept'] = (_request, response) => {
          provider.intercept = undefined;
          response.end = () => {
            spent.resolve();
            return response;
          };
          return false;
        };
        let token = '';
        // A refresh that comes while the token is read gives another one, which is read then.
        for (let granted = -1; granted !== provider.granted.length; ) {
          provider.intercept = undefined;
          granted = provider.granted.length;
          token = (await accountOf(id)).credentials.oauth_refresh_token;
          provider.intercept = intercept;
        }
        return {
          begin: () => spent.promise,
          check: async () => {
            const dead = await waitFor(async () => {
              const account = await accountOf(id);
              return account.dead === true && account;
            });
            assert.match(dead.error, /invalid_grant/);
            // Compared by value, never printed.
            assert.ok(dead.credentials.oauth_refresh_token === token, 'nothing of it was deleted');
          },
        };
      },
    };

    describe('a service that is stopped and started', () => {
      tellTogether([actionsEnd, sourceStays, readersAreTold], () => fixture.restart());
    });

    describe('a service that is killed, three times in a row', () => {
      const stories = [
        ...[dataStore, delayGoesOn, timersFire, turnsStay, changeIsUndone, replayGoesOn],
        ...[mailsRun, apphooksRun, deploymentStays, refreshComesAgain, tokenIsLost],
      ];
      tellTogether(stories, async (beginAgain) => {
        await fixture.restart('kill');
        for (let kill = 1; kill < 3; kill += 1) {
          await beginAgain();
          await fixture.restart('kill');
        }
      });
    });
  },
  { environment: { MILLRACE_SMTP_PORT: String(smtpPort) } },
);
