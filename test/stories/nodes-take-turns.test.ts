import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { borrowTestDatabase, postgresSkip } from '../support/databases.ts';
import { HttpReceiver } from '../support/http-receiver.ts';
import { Millrace } from '../support/millrace.ts';
import { usePostgresNodes } from '../support/postgres-nodes.ts';
import { createTempFolder } from '../support/temp-folder.ts';
import { waitFor, within } from '../support/wait-for.ts';

/** Counts its requests in its db, and answers with the count: a run that does not see what the one before it stored answers twice the same. */
const counter = `
export default {
  name: 'Counter', version: '0.0.1',
  props: { http: { type: '$.interface.http', customResponse: true }, db: '$.service.db' },
  async run(event) {
    const count = (this.db.get('count') ?? 0) + 1;
    // Long enough for another node to begin with the same count, if it could.
    await new Promise((resolve) => setTimeout(resolve, 2));
    this.db.set('count', count);
    this.$emit({ count, n: event.body?.n });
    this.http.respond({ status: 200, body: { count } });
  },
};`;

/** The same without an answer of its own. */
const recorder = counter
  .replace("{ type: '$.interface.http', customResponse: true }", "'$.interface.http'")
  .replace('this.http.respond({ status: 200, body: { count } });', '');

/** Keeps how many events it had, and says which came. */
const listener = `
export default {
  name: 'Listener', version: '0.0.1',
  props: { db: '$.service.db' },
  run(event) {
    const count = (this.db.get('count') ?? 0) + 1;
    this.db.set('count', count);
    this.$emit({ count, of: event.count });
  },
};`;

/** Answers when so many of its runs are under way at once. */
const crowd = `
let here = 0;
const full = Promise.withResolvers();
export default {
  name: 'Crowd', version: '0.0.1',
  props: { http: { type: '$.interface.http', customResponse: true } },
  async run() {
    here += 1;
    if (here === 4) full.resolve();
    await full.promise;
    this.http.respond({ status: 200, body: 'all' });
  },
};`;

const upTo = (count: number) => Array.from({ length: count }, (_, index) => index + 1);
/** A source keeps so many events. */
const kept = 100;

describe('several nodes on one PostgreSQL', { skip: postgresSkip() }, () => {
  const { node, restart } = usePostgresNodes();

  async function create(code: string, name: string, more: object = {}) {
    const answer = await node(0).api('POST', '/v1/sources', { component_code: code, name, ...more });
    assert.equal(answer.status, 200, JSON.stringify(answer.body));
    const { data } = answer.body;
    const path = new URL(data.configured_props.http?.endpoint_url ?? 'http://none/').pathname;
    /** As a balancer does it: to this node. */
    const send = async (at: number, n: number) => {
      const response = await fetch(node(at).url + path, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ n }),
      });
      return { status: response.status, body: await response.text() };
    };
    const events = async () => (await node(0).events(data.id)).map(({ event }) => event).reverse();
    return { id: data.id as string, send, events };
  }

  /** Sends so many requests, some at a time, to both nodes in turns. */
  async function sendMany(count: number, atOnce: number, send: (at: number, n: number) => Promise<void>) {
    let next = 0;
    const sender = async () => {
      while (next < count) {
        next += 1;
        await send(next, next);
      }
    };
    await Promise.all(Array.from({ length: atOnce }, sender));
  }

  test('requests of one source to both of them run one after another, and each caller gets the answer of its run', async () => {
    const source = await create(counter, 'counter');
    const counts: number[] = [];
    await sendMany(90, 8, async (at, n) => {
      const { status, body } = await source.send(at, n);
      assert.equal(status, 200, body);
      counts.push(JSON.parse(body).count);
    });
    assert.deepEqual(
      counts.sort((a, b) => a - b),
      upTo(90),
      'no count was answered twice',
    );
  });

  test('a source has its turn on the node that its first request comes to', async () => {
    const deploymentsOn = async (at: number): Promise<string[]> => {
      const { processes } = (await node(at).admin.api('GET', '/v1/instance/processes')).body.data;
      return processes.flatMap((one: { deployment_ids: string[] }) => one.deployment_ids);
    };
    for (const at of [0, 1]) {
      const sources = await Promise.all(upTo(6).map((n) => create(counter, `first at ${at} ${n}`)));
      const answers = await Promise.all(sources.map(({ send }) => send(at, 1)));
      assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([200]));
      const [here, elsewhere] = [await deploymentsOn(at), await deploymentsOn(1 - at)];
      assert.deepEqual(
        sources.filter(({ id }) => !here.includes(id) || elsewhere.includes(id)),
        [],
        `node ${at}`,
      );
    }
  });

  test('what was deleted through one node takes no request through the other from then on', async () => {
    const removed = async (path: string, make: () => Promise<{ id: string; url: string }>) => {
      for (let round = 0; round < 5; round += 1) {
        const { id, url } = await make();
        const send = async (headers: Record<string, string> = {}) =>
          (await fetch(node(1).url + new URL(url).pathname, { method: 'POST', headers })).status;
        assert.equal(await send(), 200, 'it is remembered');
        assert.equal((await node(0).api('DELETE', `${path}/${id}`)).status, 204);
        const statuses = await Promise.all([
          send(),
          send({ 'idempotency-key': `${id}` }),
          send({ 'x-pd-notrigger': '1' }),
        ]);
        assert.deepEqual(statuses, [404, 404, 404]);
      }
    };
    for (const code of [recorder, counter])
      await removed('/v1/sources', async () => {
        const { body } = await node(0).api('POST', '/v1/sources', { component_code: code });
        return { id: body.data.id, url: body.data.configured_props.http.endpoint_url };
      });
    for (const custom_response of [false, true])
      await removed('/v1/workflows', async () => {
        const respond = custom_response ? '$.respond({ status: 200, body: "" })' : '';
        const { id, triggers } = await node(0).createWorkflow({
          triggers: [{ type: 'http', props: { custom_response } }],
          steps: [{ namespace: 'a', code: `export default defineComponent({ run({ $ }) { ${respond} } })` }],
        });
        return { id, url: triggers[0].endpoint_url };
      });
  });

  test('callers who wait on either node are told that their source was deleted', async () => {
    const receiver = await HttpReceiver.start();
    try {
      for (const deletedAt of [0, 1]) {
        const source = await create(
          `export default {
            name: 'Sleeps', props: { http: { type: '$.interface.http', customResponse: true } },
            async run() { await fetch('${receiver.url}'); await new Promise((resolve) => setTimeout(resolve, 200_000)); },
          };`,
          `sleeps ${deletedAt}`,
          { concurrency: 5 },
        );
        const asked = receiver.requests.length;
        const answers = [0, 1, 0, 1].map((at) => source.send(at, at));
        await receiver.waitForRequest(asked + answers.length);
        assert.equal((await node(deletedAt).api('DELETE', `/v1/sources/${source.id}`)).status, 204);
        for (const { status, body } of await within(Promise.all(answers), 60_000, 'the answers'))
          assert.deepEqual([status, JSON.parse(body).code], [410, 'endpoint_removed']);
      }
    } finally {
      await receiver.close();
    }
  });

  test('callers of runs that wait for their turn get that error too', async () => {
    const receiver = await HttpReceiver.start();
    try {
      const source = await create(
        `export default {
          name: 'Sleeps', props: { http: { type: '$.interface.http', customResponse: true } },
          async run() { await fetch('${receiver.url}'); await new Promise((resolve) => setTimeout(resolve, 200_000)); },
        };`,
        'one at a time',
      );
      const answers = [0, 1, 1].map((at) => source.send(at, at));
      await receiver.waitForRequest();
      // Those that do not run are in the store, or wait in the process that has the turn.
      assert.equal((await node(0).api('DELETE', `/v1/sources/${source.id}`)).status, 204);
      for (const { status, body } of await within(Promise.all(answers), 60_000, 'the answers'))
        assert.match(`${status} ${JSON.parse(body).code}`, /^(410 endpoint_removed|404 unknown_endpoint)$/);
    } finally {
      await receiver.close();
    }
  });

  test('a success on one node ends the failure that the other saw, also where the first was well a moment before', async () => {
    const { id, triggers } = await node(0).createWorkflow({
      triggers: [{ type: 'http', props: { custom_response: true } }],
      steps: [
        {
          namespace: 'a',
          code: `export default defineComponent({ async run({ steps, $ }) {
            await $.respond({ status: 200, body: '' });
            if (steps.trigger.event.query.fails) throw new Error('told to');
          } })`,
        },
      ],
    });
    const { pathname } = new URL(triggers[0].endpoint_url);
    const until = async (state: string, at: number, query: string) => {
      assert.equal((await fetch(node(at).url + pathname + query)).status, 200);
      await waitFor(async () => {
        const { body } = await node(at).api('GET', `/v1/workflows/${id}`);
        return body.data.health.state === state;
      });
    };
    await until('healthy', 0, '');
    await until('failing', 1, '?fails=1');
    await until('healthy', 0, '');
  });

  test('what was acknowledged first runs first, whichever node took it', async () => {
    const source = await create(recorder, 'recorder');
    // One after another, each when the one before was acknowledged.
    for (const n of upTo(40)) assert.equal((await source.send(n, n)).status, 200);
    await waitFor(async () => (await source.events()).length === 40);
    assert.deepEqual(
      await source.events(),
      upTo(40).map((n) => ({ count: n, n })),
    );
  });

  test('a listening source gets the events in their order, and sees what the run before it stored', async () => {
    const source = await create(recorder, 'emitter');
    const listening = await create(listener, 'listener');
    const subscribed = await node(1).api('POST', `/v1/subscriptions`, {
      emitter_id: source.id,
      listener_id: listening.id,
    });
    assert.equal(subscribed.status, 200, JSON.stringify(subscribed.body));
    await sendMany(kept, 8, async (at, n) => assert.equal((await source.send(at, n)).status, 200));
    await waitFor(async () => (await listening.events()).length === kept);
    assert.deepEqual(
      await listening.events(),
      upTo(kept).map((n) => ({ count: n, of: n })),
    );
  });

  for (const how of ['stops', 'is killed'] as const)
    test(`a node that ${how} hands its turns to the other one, and nothing runs twice or out of order`, async () => {
      const source = await create(recorder, `handed over ${how}`);
      let acknowledged = 0;
      // Sent through node 1, which does not go: what a killed node had not answered may be gone, or may not.
      for (const n of upTo(20)) {
        await source.send(0, n);
        acknowledged = n;
      }
      await waitFor(async () => (await source.events()).length === acknowledged);
      const leaving = node(0).process;
      const gone = how === 'stops' ? node(0).stop() : node(0).kill();
      const to1 = async (n: number) => {
        assert.equal((await source.send(1, n)).status, 200);
        acknowledged = n;
      };
      for (let n = 21; n <= 60; n += 1) await to1(n);
      await gone;
      assert.ok(leaving.exitCode !== null || leaving.signalCode !== null);
      const events = async () => (await node(1).events(source.id)).map(({ event }) => event).reverse();
      await waitFor(async () => (await events()).length === acknowledged);
      assert.deepEqual(
        await events(),
        upTo(acknowledged).map((n) => ({ count: n, n })),
      );
      await restart(0);
    });

  test('who waits for a source that is deleted through another node is answered', async () => {
    const slow = counter.replace('setTimeout(resolve, 2)', 'setTimeout(resolve, 500)');
    const source = await create(slow, 'deleted');
    await source.send(0, 1);
    const answers = upTo(6).map((n) => source.send(n, n));
    await Promise.race(answers);
    const deleted = await node(1).api('DELETE', `/v1/sources/${source.id}`);
    assert.equal(deleted.status, 204);
    for (const { status } of await within(Promise.all(answers), 90_000, 'every answer'))
      assert.ok([200, 404, 410].includes(status), `${status}`);
  });

  test('a source with concurrency gives up order: so many of its runs are under way at once, on each node', async () => {
    const source = await create(crowd, 'crowd', { concurrency: 4 });
    for (const at of [0, 1]) {
      const answers = await Promise.all(upTo(4).map((n) => source.send(at, n)));
      assert.deepEqual(
        answers.map(({ status, body }) => [status, body]),
        upTo(4).map(() => [200, 'all']),
      );
    }
    const { data } = (await node(1).api('GET', `/v1/sources/${source.id}`)).body;
    assert.equal(data.concurrency, 4);
    const back = await node(1).api('PUT', `/v1/sources/${source.id}`, { concurrency: 1 });
    assert.equal(back.body.data.concurrency, 1);
    for (const concurrency of [0, 1.5, 'many', 101]) {
      const refused = await node(0).api('PUT', `/v1/sources/${source.id}`, { concurrency });
      assert.equal(refused.status, 400, JSON.stringify(refused.body));
      assert.match(refused.body.error, /concurrency/);
    }
  });
});

describe('a node on PostgreSQL that was killed', { skip: postgresSkip() }, () => {
  test('continues immediately when it is started again on its data folder, however long its lease would last', async () => {
    const database = await borrowTestDatabase();
    const folder = await createTempFolder('a');
    const start = () =>
      Millrace.start({
        dataFolder: folder.path,
        databaseUrl: database.url,
        environment: { MILLRACE_NODE_LEASE: '300' },
      });
    let service = await start();
    try {
      const source = await service.createSource({ component_code: counter });
      const path = new URL(source.configured_props.http.endpoint_url).pathname;
      const send = async () => {
        const answer = within(fetch(`${service.url}${path}`, { method: 'POST' }), 90_000, 'an answer');
        return (await (await answer).json()) as { count: number };
      };
      assert.deepEqual(await send(), { count: 1 });
      await service.kill();
      service = await start();
      assert.deepEqual(await send(), { count: 2 });
    } finally {
      await service.stop();
      await folder.remove();
      await database.drop();
    }
  });
});
