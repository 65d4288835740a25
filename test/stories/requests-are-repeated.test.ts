import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import { createTestDatabase, postgresSkip } from '../support/databases.ts';
import { HttpReceiver } from '../support/http-receiver.ts';
import { forEachService, forEachSharedService, Millrace, type ServiceClient } from '../support/millrace.ts';
import { startPostgres } from '../support/postgres-server.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';
import { createTempFolder } from '../support/temp-folder.ts';
import { waitFor } from '../support/wait-for.ts';

const recorder = `
export default {
  name: 'Recorder', props: { http: '$.interface.http' },
  run(event) { this.$emit({ n: event.body?.n }); },
};`;

/** Answers with something else each time. */
const dice = `
export default {
  name: 'Dice', props: { http: { type: '$.interface.http', customResponse: true } },
  run(event) {
    this.$emit({ n: event.body?.n });
    if (event.query.silent) return;
    const bytes = Buffer.from([0, 255, ...Array.from({ length: 8 }, () => Math.random() * 256)]);
    this.http.respond({ status: 201, headers: { 'content-type': 'image/gif', 'x-two': ['a', 'b'] }, body: bytes });
  },
};`;

const cell = (body: string) => `export default defineComponent({ async run({ steps, $ }) { ${body} } });`;

/** A workflow of one step; its id and the URL of its trigger. */
async function workflowOf(service: ServiceClient, body: string, props: object = {}) {
  const workflow = await service.createWorkflow({
    steps: [{ namespace: 'one', code: cell(body) }],
    triggers: [{ type: 'http', props }],
  });
  return { id: workflow.id as string, url: workflow.triggers[0].endpoint_url as string };
}

async function sourceOf(service: ServiceClient, code: string) {
  const source = await service.createSource({ component_code: code });
  return { id: source.id as string, url: source.configured_props.http.endpoint_url as string };
}

interface Answer {
  status: number;
  replayed: boolean;
  body: string;
  headers: Headers;
}

/** Posts `n` with a key; the body as hexadecimal bytes where it is binary. */
async function post(url: string, key: string | undefined, n = 1, more: RequestInit = {}): Promise<Answer> {
  const response = await fetch(url, {
    method: 'POST',
    body: JSON.stringify({ n }),
    ...more,
    headers: {
      'content-type': 'application/json',
      ...(key === undefined ? {} : { 'idempotency-key': key }),
      ...(more.headers as Record<string, string> | undefined),
    },
  });
  return {
    status: response.status,
    replayed: response.headers.get('idempotency-replayed') === 'true',
    body: Buffer.from(await response.arrayBuffer()).toString('latin1'),
    headers: response.headers,
  };
}

const codeOf = ({ body }: Answer) => (JSON.parse(body) as { code: string }).code;

forEachSharedService((fixture) => {
  const emitted = async (id: string) =>
    (await fixture.service.events(id)).map(({ event }) => event.n as number).sort((a, b) => a - b);

  test('a source takes a request with a key once, and answers the next ones as the first', async () => {
    const { service } = fixture;
    const { id, url } = await sourceOf(service, recorder);
    const first = await post(url, 'order-7');
    const again = await post(url, 'order-7');
    assert.deepEqual([first.status, first.replayed, first.body], [200, false, '{"success":true}']);
    assert.deepEqual([again.status, again.replayed, again.body], [200, true, '{"success":true}']);
    assert.equal(again.headers.get('access-control-allow-origin'), '*');
    for (const [key, n] of [
      ['order-8', 2],
      [undefined, 3],
      [undefined, 3],
    ] as const)
      assert.equal((await post(url, key, n)).replayed, false);
    await waitFor(async () => (await emitted(id)).length === 4);
    assert.deepEqual(await emitted(id), [1, 2, 3, 3]);
  });

  test('a key that comes with another request is refused, and nothing runs', async () => {
    const { service } = fixture;
    const { id, url } = await sourceOf(service, recorder);
    assert.equal((await post(url, 'k')).status, 200);
    for (const other of [
      await post(url, 'k', 2),
      await post(`${url}/below`, 'k'),
      await post(`${url}?a=1`, 'k'),
      await post(url, 'k', 1, { method: 'PUT' }),
    ]) {
      assert.deepEqual([other.status, codeOf(other), other.replayed], [409, 'idempotency_conflict', false]);
    }
    await waitFor(async () => (await emitted(id)).length > 0);
    assert.deepEqual(await emitted(id), [1]);
  });

  test('the same key at another endpoint is another key', async () => {
    const { service } = fixture;
    const one = await sourceOf(service, dice);
    const two = await sourceOf(service, dice);
    const first = await post(one.url, 'k');
    const second = await post(two.url, 'k');
    assert.deepEqual([first.replayed, second.replayed], [false, false]);
    assert.notEqual(first.body, second.body);
  });

  test('a reply comes again whole: status, headers and bytes', async () => {
    const { service } = fixture;
    const { id, url } = await sourceOf(service, dice);
    const workflow = await workflowOf(
      service,
      "await $.respond({ status: 202, headers: { 'x-own': 'yes' }, body: { dice: Math.random() } });",
      { custom_response: true },
    );
    for (const [at, status, header] of [
      [url, 201, 'x-two'],
      [workflow.url, 202, 'x-own'],
    ] as const) {
      const first = await post(at, 'k');
      const again = await post(at, 'k');
      assert.deepEqual([first.status, first.replayed], [status, false]);
      assert.deepEqual([again.status, again.replayed, again.body], [status, true, first.body]);
      for (const name of [header, 'content-type', 'access-control-allow-origin', 'content-security-policy'])
        assert.equal(again.headers.get(name), first.headers.get(name), name);
      assert.notEqual((await post(at, 'another')).body, first.body);
    }
    await waitFor(async () => (await emitted(id)).length === 2);
    assert.equal((await service.runs(workflow.id)).length, 2);
  });

  test('no reply is an answer too', async () => {
    const { service } = fixture;
    const { url } = await sourceOf(service, dice);
    const ends = await workflowOf(service, 'return 1;', { custom_response: true });
    const waits = await workflowOf(service, '$.flow.delay(3_600_000);', { custom_response: true });
    for (const at of [`${url}?silent=1`, ends.url, waits.url]) {
      const first = await post(at, 'k');
      const again = await post(at, 'k');
      assert.deepEqual([again.status, again.replayed, again.body], [first.status, true, first.body]);
    }
    assert.equal((await service.runs(ends.id)).length, 1);
    assert.equal((await service.runs(waits.id)).length, 1);
  });

  test('requests that come while the first one waits for its reply get the same one', async () => {
    const { service } = fixture;
    await using receiver = await HttpReceiver.start();
    const going = Promise.withResolvers<void>();
    receiver.answerAlways(async () => {
      await going.promise;
      return { body: { dice: Math.random() } };
    });
    const ask = `(await fetch('${receiver.url}/')).json()`;
    const workflow = await workflowOf(service, `await $.respond({ status: 200, body: await ${ask} });`, {
      custom_response: true,
    });
    const source = await sourceOf(
      service,
      `export default {
        name: 'Asking', props: { http: { type: '$.interface.http', customResponse: true } },
        async run() { this.http.respond({ status: 200, body: await ${ask} }); },
      };`,
    );
    const sent = [workflow, source].map(({ url }) => [1, 2, 3, 4].map(() => post(url, 'k')));
    await receiver.waitForRequest(2);
    const late = [workflow, source].map(({ url }) => post(url, 'k'));
    going.resolve();
    for (const [index, requests] of sent.entries()) {
      const answers = await Promise.all([...requests, late[index] as Promise<Answer>]);
      assert.equal(new Set(answers.map(({ body }) => body)).size, 1);
      assert.deepEqual([...new Set(answers.map(({ status }) => status))], [200]);
      assert.equal(answers.filter(({ replayed }) => !replayed).length, 1);
    }
    assert.equal(receiver.requests.length, 2);
  });

  test('a request that is refused leaves no key, and an earlier answer is only for who may ask', async () => {
    const { service } = fixture;
    const { id, url } = await workflowOf(service, "await $.respond({ status: 200, body: 'mine' });", {
      custom_response: true,
      auth: { type: 'static_bearer_token', token: 'open-sesame' },
    });
    const right = { headers: { authorization: 'Bearer open-sesame' } };
    assert.equal((await post(url, 'k')).status, 401);
    const first = await post(url, 'k', 1, right);
    assert.deepEqual([first.status, first.replayed], [200, false]);
    assert.equal((await post(url, 'k', 1, right)).replayed, true);
    const stranger = await post(url, 'k');
    assert.deepEqual([stranger.status, codeOf(stranger)], [401, 'unauthorized']);
    const large = { ...right, body: JSON.stringify('x'.repeat(600 * 1024)) };
    assert.equal((await post(url, 'large', 1, large)).status, 413);
    assert.equal((await post(url, 'large', 1, right)).replayed, false);
    assert.equal((await service.runs(id)).length, 2);
  });

  test('what is no key is refused by the name of the header, before anything is taken', async () => {
    const { service } = fixture;
    const { id, url } = await workflowOf(service, 'return 1;');
    for (const key of ['', 'two words', 'x'.repeat(256)]) {
      const answer = await post(url, key);
      assert.equal(answer.status, 400);
      const { code, error, details } = JSON.parse(answer.body);
      assert.deepEqual([code, details], ['invalid_parameter', { parameter: 'Idempotency-Key' }]);
      assert.match(error, /^Idempotency-Key: \d+ characters.*, expected 1 to 255 visible ASCII characters$/);
    }
    assert.deepEqual(await service.runs(id), []);
  });

  test('of a reply that is too large to keep, and of a run of which nothing is kept, the status is kept', async () => {
    const { service } = fixture;
    const { id, url } = await workflowOf(
      service,
      "await $.respond({ status: 203, body: 'x'.repeat(steps.trigger.event.body.n) });",
      { custom_response: true },
    );
    const large = 1024 * 1024;
    assert.equal((await post(url, 'large', large)).body.length, large);
    const again = await post(url, 'large', large);
    assert.deepEqual([again.status, again.replayed, codeOf(again)], [203, true, 'reply_not_kept']);
    const secret = { headers: { 'x-pd-nostore': '1' } };
    assert.equal((await post(url, 'secret', 3, secret)).body, 'xxx');
    const told = await post(url, 'secret', 3, secret);
    assert.deepEqual([told.status, told.replayed, codeOf(told)], [203, true, 'reply_not_kept']);
    assert.equal((await service.runs(id)).length, 1);
    const source = await sourceOf(service, dice);
    assert.equal((await post(source.url, 'secret', 1, secret)).status, 201);
    const ofSource = await post(source.url, 'secret', 1, secret);
    assert.deepEqual([ofSource.status, ofSource.replayed, codeOf(ofSource)], [201, true, 'reply_not_kept']);
  });

  test('bodies that are set aside, and requests that only are recorded, are taken once too', async () => {
    const { service } = fixture;
    const { id, url } = await workflowOf(service, 'return 1;');
    const aside = { headers: { 'x-pd-upload-body': '1' }, body: 'y'.repeat(2_000_000) };
    assert.equal((await post(url, 'aside', 1, aside)).replayed, false);
    assert.equal((await post(url, 'aside', 1, aside)).replayed, true);
    const other = await post(url, 'aside', 1, { ...aside, body: 'z'.repeat(2_000_000) });
    assert.equal(other.status, 409);
    const recorded = { headers: { 'x-pd-notrigger': '1' } };
    assert.equal((await post(url, 'recorded', 1, recorded)).replayed, false);
    assert.equal((await post(url, 'recorded', 1, recorded)).replayed, true);
    await waitFor(async () => (await service.runs(id)).length === 2);
  });
});

forEachService((fixture) => {
  test('a run that is interrupted keeps its reply for the request that is sent again', async () => {
    await using receiver = await HttpReceiver.start();
    const hang = Promise.withResolvers<undefined>();
    const ask = `await fetch('${receiver.url}/')`;
    const { service } = fixture;
    const workflow = await workflowOf(service, `${ask}; await $.respond({ status: 200, body: 'done' });`, {
      custom_response: true,
    });
    const source = await sourceOf(
      service,
      `export default {
        name: 'Slow', props: { http: { type: '$.interface.http', customResponse: true } },
        async run() { ${ask}; this.http.respond({ status: 200, body: 'done' }); },
      };`,
    );
    const paths = [workflow.url, source.url].map((url) => new URL(url).pathname);
    receiver.answerAlways(() => hang.promise);
    const lost = paths.map((path) => post(service.url + path, 'k').catch(() => undefined));
    await receiver.waitForRequest(2);
    receiver.answerAlways({});
    await fixture.restart('kill');
    await Promise.all(lost);
    for (const path of paths) {
      const again = await waitFor(async () => {
        const answer = await post(fixture.service.url + path, 'k');
        if (answer.status !== 409 || codeOf(answer) !== 'in_progress') return answer;
        assert.equal(answer.headers.get('retry-after'), '5');
        return undefined;
      });
      assert.deepEqual([again.status, again.replayed, again.body], [200, true, 'done']);
    }
    assert.equal(receiver.requests.length, 4, 'each ran once more, and not once more for its repetition');
    hang.resolve(undefined);
  });

  test('keys go with their source or workflow', async () => {
    const { service } = fixture;
    const source = await sourceOf(service, recorder);
    const workflow = await workflowOf(service, 'return 1;');
    for (const { url } of [source, workflow]) assert.equal((await post(url, 'k')).status, 200);
    assert.equal((await service.api('DELETE', `/v1/sources/${source.id}`)).status, 204);
    assert.equal((await service.api('DELETE', `/v1/workflows/${workflow.id}`)).status, 204);
    assert.equal((await post(source.url, 'k')).status, 404);
  });
});

describe('on PostgreSQL', { skip: postgresSkip() }, () => {
  test('two nodes: a request that is sent to the other one is answered as the first, also while that waits', async () => {
    const database = await createTestDatabase();
    const environment = { MILLRACE_ENCRYPTION_KEY: Buffer.alloc(32, 7).toString('base64') };
    await using folder = await createTempFolder('repeat');
    await using receiver = await HttpReceiver.start();
    const nodes: Millrace[] = [];
    try {
      for (const name of ['a', 'b'])
        nodes.push(
          await Millrace.start({
            dataFolder: `${folder.path}/${name}`,
            databaseUrl: database.url,
            environment,
          }),
        );
      const [one, two] = nodes as [Millrace, Millrace];
      const ask = `(await fetch('${receiver.url}/')).json()`;
      const workflow = await workflowOf(one, `await $.respond({ status: 200, body: await ${ask} });`, {
        custom_response: true,
      });
      const source = await sourceOf(
        one,
        `export default {
          name: 'Asking', props: { http: { type: '$.interface.http', customResponse: true } },
          async run() { this.http.respond({ status: 200, body: await ${ask} }); },
        };`,
      );
      const plain = await sourceOf(one, recorder);
      const at = (node: Millrace, { url }: { url: string }) => node.url + new URL(url).pathname;
      const going = Promise.withResolvers<void>();
      receiver.answerAlways(async () => {
        await going.promise;
        return { body: { dice: Math.random() } };
      });
      const answers = [workflow, source].map((endpoint) =>
        [two, one, two].map((node) => post(at(node, endpoint), 'k')),
      );
      await receiver.waitForRequest(2);
      going.resolve();
      for (const [index, endpoint] of [workflow, source].entries()) {
        const given = await Promise.all([...(answers[index] ?? []), post(at(one, endpoint), 'k')]);
        assert.deepEqual(
          given.map(({ status, body }) => [status, body]),
          given.map(() => [200, given[0]?.body]),
        );
        assert.equal(given.filter(({ replayed }) => !replayed).length, 1);
      }
      assert.equal(receiver.requests.length, 2);
      assert.equal((await post(at(one, plain), 'k')).replayed, false);
      assert.equal((await post(at(two, plain), 'k')).replayed, true);
      await waitFor(async () => (await one.events(plain.id)).length === 1);
    } finally {
      for (const node of nodes) await node.stop();
      await database.drop();
    }
  });

  test('a sender that repeats until it is answered is heard once, whatever became of each commit', async () => {
    await using folder = await createTempFolder('repeat-cut');
    const server = await startPostgres();
    const url = new URL(server.url);
    await using proxy = await TcpProxy.start({ host: url.hostname, port: Number(url.port) });
    url.port = String(proxy.port);
    const service = await Millrace.start({ dataFolder: `${folder.path}/data`, databaseUrl: String(url) });
    try {
      const source = await sourceOf(service, recorder);
      const seen: string[] = [];
      /** Its body names the key, so that the transaction that stores it is known among those of the service. */
      const postNamed = (key: string, n: number) =>
        post(source.url, key, n, { body: JSON.stringify({ n, key }) });
      const untilAnswered = (n: number, key: string) =>
        waitFor(async () => {
          const answer = await postNamed(key, n);
          if (answer.status === 200) return answer;
          seen.push(codeOf(answer));
          return undefined;
        });
      let sent = 0;
      for (const when of ['after', 'before', 'after', 'before'] as const) {
        const key = randomUUID();
        const cut = proxy.cutAt('commit', when, key);
        sent += 1;
        await untilAnswered(sent, key);
        await cut;
      }
      // A database that was started again says nothing of the commit before: the request may be there, or not.
      while (!seen.includes('outcome_unknown') && sent < 10) {
        const key = randomUUID();
        sent += 1;
        const cut = proxy.cutAt('commit', 'after', key);
        const first = postNamed(key, sent);
        await cut.then(() => server.kill());
        await server.restart();
        const answer = await first;
        if (answer.status !== 200) seen.push(codeOf(answer));
        await untilAnswered(sent, key);
      }
      assert.ok(seen.includes('outcome_unknown'), seen.join());
      const emitted = async () =>
        (await service.events(source.id)).map(({ event }) => event.n as number).sort((a, b) => a - b);
      await waitFor(async () => (await emitted()).length >= sent);
      assert.deepEqual(
        await emitted(),
        Array.from({ length: sent }, (_, index) => index + 1),
      );
    } finally {
      await service.stop();
      await server.stop();
    }
  });
});
