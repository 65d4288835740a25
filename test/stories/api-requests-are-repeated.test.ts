import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import { createTestDatabase, postgresSkip } from '../support/databases.ts';
import { HttpReceiver } from '../support/http-receiver.ts';
import {
  type ApiAnswer,
  forEachService,
  forEachSharedService,
  Millrace,
  type ServiceClient,
} from '../support/millrace.ts';
import { createTempFolder } from '../support/temp-folder.ts';
import { waitFor } from '../support/wait-for.ts';

const code = "export default { name: 'Quiet', props: { http: '$.interface.http' }, run() {} };";
/** Deploying it waits for the answer of `url`. */
const slow = (url: string) => `
export default {
  name: 'Slow', props: { http: '$.interface.http' },
  hooks: { async deploy() { await fetch('${url}/'); } }, run() {},
};`;

function post(service: ServiceClient, path: string, key: string, body: unknown = {}): Promise<ApiAnswer> {
  return service.api('POST', path, body, { headers: { 'idempotency-key': key } });
}

const isReplayed = ({ headers }: ApiAnswer) => headers.get('idempotency-replayed') === 'true';

async function sourceNames(service: ServiceClient, owner = 'users/me'): Promise<string[]> {
  const { body } = await service.api('GET', `/v1/${owner}/sources?limit=100&include=name`);
  return body.data.map(({ name }: { name: string }) => name).sort();
}

forEachSharedService((fixture) => {
  /** A user of the test's own, so that what others make does not count. */
  const newUser = async () => fixture.service.as(await fixture.service.createUser('repeating'));

  test('a source is made once, and the request that is sent again gets the same answer', async () => {
    const service = await newUser();
    const source = { name: 'once', component_code: code };
    const made = await post(service, '/v1/sources', 'k', source);
    const again = await post(service, '/v1/sources', 'k', source);
    assert.deepEqual([made.status, isReplayed(made)], [200, false], JSON.stringify(made.body));
    assert.deepEqual([again.status, isReplayed(again)], [200, true]);
    assert.deepEqual(again.body, made.body);
    assert.equal(again.headers.get('content-type'), made.headers.get('content-type'));
    assert.equal(again.headers.get('cache-control'), 'no-store');
    assert.notEqual(again.headers.get('x-request-id'), made.headers.get('x-request-id'));
    assert.deepEqual(await sourceNames(service), ['once']);
    const other = await post(service, '/v1/sources', 'k2', { ...source, name: 'twice' });
    assert.equal(isReplayed(other), false);
    assert.deepEqual(await sourceNames(service), ['once', 'twice']);
  });

  test('many at once make one; those that come meanwhile are answered to come again', async () => {
    const service = await newUser();
    const answers = await Promise.all(
      Array.from({ length: 6 }, () => post(service, '/v1/webhooks', 'k', { url: 'https://example.com/a' })),
    );
    const first = answers.filter((answer) => answer.status === 200 && !isReplayed(answer));
    assert.equal(first.length, 1);
    for (const answer of answers)
      if (answer.status !== 200) assert.deepEqual([answer.status, answer.body.code], [409, 'in_progress']);
    const { body } = await service.api('GET', '/v1/users/me/webhooks');
    assert.equal(body.data.length, 1);
  });

  test('a key that comes with another request is refused', async () => {
    const service = await newUser();
    const webhook = { url: 'https://example.com/a' };
    assert.equal((await post(service, '/v1/webhooks', 'k', webhook)).status, 200);
    for (const other of [
      await post(service, '/v1/webhooks', 'k', { url: 'https://example.com/b' }),
      await post(service, '/v1/webhooks?include=id', 'k', webhook),
      await post(service, '/v1/workspaces', 'k', { name: 'Other' }),
    ]) {
      assert.deepEqual([other.status, other.body.code], [409, 'idempotency_conflict']);
      assert.equal(isReplayed(other), false);
    }
  });

  test('while a deployment is under way, a repeated request is refused for that; then it gets its answer', async () => {
    const service = await newUser();
    await using receiver = await HttpReceiver.start();
    const going = Promise.withResolvers<void>();
    receiver.answerAlways(async () => {
      await going.promise;
      return {};
    });
    const source = { name: 'slow', component_code: slow(receiver.url) };
    const making = post(service, '/v1/sources', 'k', source);
    await receiver.waitForRequest(1);
    const meanwhile = await post(service, '/v1/sources', 'k', source);
    assert.deepEqual([meanwhile.status, meanwhile.body.code], [409, 'in_progress']);
    assert.equal(meanwhile.headers.get('retry-after'), '5');
    going.resolve();
    const made = await making;
    const again = await post(service, '/v1/sources', 'k', source);
    assert.deepEqual([made.status, again.status, isReplayed(again)], [200, 200, true]);
    assert.deepEqual(again.body, made.body);
    assert.equal(receiver.requests.length, 1);
  });

  test('a caller who hangs up gets the answer later', async () => {
    const service = await newUser();
    await using receiver = await HttpReceiver.start();
    const going = Promise.withResolvers<void>();
    receiver.answerAlways(async () => {
      await going.promise;
      return {};
    });
    const source = { name: 'slow', component_code: slow(receiver.url) };
    const hangUp = new AbortController();
    const lost = fetch(`${service.url}/v1/sources`, {
      method: 'POST',
      headers: {
        ...{ authorization: `Bearer ${service.key}`, 'content-type': 'application/json' },
        'idempotency-key': 'k',
      },
      body: JSON.stringify(source),
      signal: hangUp.signal,
    });
    await receiver.waitForRequest(1);
    hangUp.abort();
    await assert.rejects(lost, { name: 'AbortError' });
    going.resolve();
    const again = await waitFor(async () => {
      const answer = await post(service, '/v1/sources', 'k', source);
      return answer.body.code === 'in_progress' ? undefined : answer;
    });
    assert.deepEqual([again.status, isReplayed(again)], [200, true], JSON.stringify(again.body));
    assert.deepEqual(await sourceNames(service), ['slow']);
  });

  test('the same key of another user is another key', async () => {
    const [one, two] = [await newUser(), await newUser()];
    const source = { name: 'mine', component_code: code };
    const first = await post(one, '/v1/sources', 'k', source);
    const second = await post(two, '/v1/sources', 'k', source);
    assert.deepEqual([first.status, second.status, isReplayed(second)], [200, 200, false]);
    assert.notEqual(first.body.data.id, second.body.data.id);
  });

  test('a revoked API key gets no answer again; another one of the same user does', async () => {
    const service = await newUser();
    const made = await post(service, '/v1/users/me/api_keys', 'k', { name: 'second' });
    const again = await post(service, '/v1/users/me/api_keys', 'k', { name: 'second' });
    assert.equal(made.status, 200, JSON.stringify(made.body));
    assert.deepEqual([again.body, isReplayed(again)], [made.body, true]);
    const second = service.as({ key: made.body.data.api_key ?? made.body.data.key });
    const project = { url: 'https://example.com/a' };
    assert.equal((await post(second, '/v1/webhooks', 'w', project)).status, 200);
    assert.equal((await service.api('DELETE', `/v1/users/me/api_keys/${made.body.data.id}`)).status, 204);
    const revoked = await post(second, '/v1/webhooks', 'w', project);
    assert.deepEqual([revoked.status, revoked.body.code], [401, 'unauthorized']);
    assert.equal(isReplayed(await post(service, '/v1/webhooks', 'w', project)), true);
  });

  test('a key that ends gets no answer that a key without an end got', async () => {
    const service = await newUser();
    const end = Math.floor(Date.now() / 1000) + 3600;
    const short = await service.api('POST', '/v1/users/me/api_keys', { name: 'short', expires_at: end });
    const by = service.as({ key: short.body.data.api_key });
    const wanted = { name: 'wanted' };
    assert.equal((await post(service, '/v1/users/me/api_keys', 'k', wanted)).status, 200);
    const stolen = await post(by, '/v1/users/me/api_keys', 'k', wanted);
    assert.deepEqual([stolen.status, stolen.body.code, isReplayed(stolen)], [403, 'forbidden', false]);
    // The other way round, the first key had less.
    const ending = { name: 'ending', expires_at: end };
    assert.equal((await post(by, '/v1/users/me/api_keys', 'k2', ending)).status, 200);
    assert.equal(isReplayed(await post(by, '/v1/users/me/api_keys', 'k2', ending)), true);
    assert.equal(isReplayed(await post(service, '/v1/users/me/api_keys', 'k2', ending)), true);
  });

  test('a caller who has lost a role gets no answer again', async () => {
    const admin = await newUser();
    const member = await fixture.service.createUser('member');
    const { body } = await admin.api('POST', '/v1/workspaces', { name: 'Rights' });
    const members = `/v1/workspaces/${body.data.id}/members`;
    const setRole = async (role: string) => {
      const { status } = await admin.api('POST', members, { user_id: member.id, role });
      assert.equal(status, 200);
    };
    await setRole('member');
    const service = fixture.service.as(member);
    const source = { name: 'ours', component_code: code, org_id: body.data.id };
    assert.equal((await post(service, '/v1/sources', 'k', source)).status, 200);
    assert.equal(isReplayed(await post(service, '/v1/sources', 'k', source)), true);
    const assertRefused = async () => {
      const answer = await post(service, '/v1/sources', 'k', source);
      assert.deepEqual([answer.status, answer.body.code, isReplayed(answer)], [403, 'forbidden', false]);
    };
    await setRole('viewer');
    await assertRefused();
    await setRole('admin');
    assert.equal(isReplayed(await post(service, '/v1/sources', 'k', source)), true);
    assert.equal((await admin.api('DELETE', `${members}/${member.id}`)).status, 204);
    await assertRefused();
  });

  test('a request that is refused leaves no key: corrected, it is taken with the same one', async () => {
    const service = await newUser();
    const refused = [
      { name: 'x', component_code: 'export default {' },
      { name: 'x', unknown: 1 },
      {
        name: 'x',
        component_code: code.replace('run()', "hooks: { deploy() { throw new Error('no'); } }, run()"),
      },
    ];
    for (const source of refused) {
      const answer = await post(service, '/v1/sources', 'k', source);
      assert.equal(answer.status, 400, JSON.stringify(answer.body));
    }
    const made = await post(service, '/v1/sources', 'k', { name: 'x', component_code: code });
    assert.deepEqual([made.status, isReplayed(made)], [200, false], JSON.stringify(made.body));
    assert.deepEqual(await sourceNames(service), ['x']);
  });

  test('what is no key is refused by the name of the header', async () => {
    const service = await newUser();
    for (const key of ['', 'two words', 'x'.repeat(256)]) {
      const answer = await post(service, '/v1/webhooks', key, { url: 'https://example.com/a' });
      assert.deepEqual(
        [answer.status, answer.body.code, answer.body.details],
        [400, 'invalid_parameter', { parameter: 'Idempotency-Key' }],
      );
    }
  });

  test('what is no POST ignores the header', async () => {
    const service = await newUser();
    const source = await service.createSource({ name: 'x', component_code: code });
    const path = `/v1/sources/${source.id}`;
    const headers = { 'idempotency-key': 'k' };
    assert.equal((await service.api('PUT', path, { name: 'one' }, { headers })).status, 200);
    assert.equal((await service.api('PUT', path, { name: 'two' }, { headers })).status, 200);
    assert.deepEqual(await sourceNames(service), ['two']);
  });

  test('the document names the header at every POST that takes it, and nowhere else', async () => {
    const document = (await (await fetch(`${fixture.service.url}/openapi.json`)).json()) as {
      paths: Record<string, Record<string, Operation>>;
    };
    let named = 0;
    for (const [path, item] of Object.entries(document.paths)) {
      for (const [method, { parameters = [], security }] of Object.entries(item)) {
        const found = parameters.filter((it) => it.in === 'header' && it.name === 'Idempotency-Key');
        const expected = method === 'post' && security !== undefined ? 1 : 0;
        assert.equal(found.length, expected, `${method} ${path}`);
        named += expected;
      }
    }
    assert.ok(named > 30, String(named));
  });
});

interface Operation {
  parameters?: { name: string; in: string }[];
  security?: unknown[];
}

forEachService((fixture) => {
  test('a service that is killed meanwhile does not do it again: the outcome is unknown', async () => {
    await using receiver = await HttpReceiver.start();
    const hang = Promise.withResolvers<undefined>();
    receiver.answerAlways(() => hang.promise);
    const source = { name: 'slow', component_code: slow(receiver.url) };
    const lost = post(fixture.service, '/v1/sources', 'k', source).catch(() => undefined);
    await receiver.waitForRequest(1);
    await fixture.restart('kill');
    assert.equal(await lost, undefined);
    for (let times = 0; times < 2; times += 1) {
      const again = await post(fixture.service, '/v1/sources', 'k', source);
      assert.deepEqual([again.status, again.body.code], [409, 'outcome_unknown'], JSON.stringify(again.body));
    }
    assert.equal(receiver.requests.length, 1);
    receiver.answerAlways({});
    assert.equal((await post(fixture.service, '/v1/sources', randomUUID(), source)).status, 200);
    hang.resolve(undefined);
  });

  test('answers stay over a restart, and hold no secret in clear', async () => {
    const made = await post(fixture.service, '/v1/users/me/api_keys', 'api-key', { name: 'kept' });
    assert.equal(made.status, 200);
    await fixture.restart();
    const again = await post(fixture.service, '/v1/users/me/api_keys', 'api-key', { name: 'kept' });
    assert.deepEqual([again.status, isReplayed(again), again.body], [200, true, made.body]);
  });
});

describe('on PostgreSQL', { skip: postgresSkip() }, () => {
  test('two nodes: the other one knows of a request, answers it again, and sees that its node died', async () => {
    const database = await createTestDatabase();
    const environment = { MILLRACE_ENCRYPTION_KEY: Buffer.alloc(32, 7).toString('base64') };
    await using folder = await createTempFolder('repeat-api');
    await using receiver = await HttpReceiver.start();
    const hang = Promise.withResolvers<undefined>();
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
      const made = await post(one, '/v1/sources', 'quick', { name: 'quick', component_code: code });
      const again = await post(two, '/v1/sources', 'quick', { name: 'quick', component_code: code });
      assert.deepEqual([again.status, isReplayed(again), again.body], [200, true, made.body]);
      receiver.answerAlways(() => hang.promise);
      const source = { name: 'slow', component_code: slow(receiver.url) };
      const lost = post(one, '/v1/sources', 'k', source).catch(() => undefined);
      await receiver.waitForRequest(1);
      const there = await post(two, '/v1/sources', 'k', source);
      assert.deepEqual([there.status, there.body.code], [409, 'in_progress']);
      await one.kill();
      assert.equal(await lost, undefined);
      const after = await waitFor(async () => {
        const answer = await post(two, '/v1/sources', 'k', source);
        return answer.body.code === 'in_progress' ? undefined : answer;
      });
      assert.deepEqual([after.status, after.body.code], [409, 'outcome_unknown']);
      assert.equal(receiver.requests.length, 1);
    } finally {
      hang.resolve(undefined);
      for (const node of nodes) await node.stop();
      await database.drop();
    }
  });
});
