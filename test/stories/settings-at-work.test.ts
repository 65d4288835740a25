import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { text } from 'node:stream/consumers';
import { after, before, describe, test } from 'node:test';
import { recordAudit, theService } from '#accounts/account-audit-store.ts';
import { firstStart } from '#identity/first-start.ts';
import { must } from '#lib/assert.ts';
import { systemClock } from '#lib/clock.ts';
import { newId } from '#lib/ids.ts';
import { openSqliteStore } from '#storage/sqlite-store.ts';
import type { RunTable } from '#storage/tables/workflow-tables.ts';
import { insertFile } from '#user-data/files/file-store.ts';
import { newRunRow } from '#workflows/runs/new-run.ts';
import type { RunTrigger } from '#workflows/runs/run.ts';
import { runCommand } from '../support/command-line.ts';
import { HttpReceiver } from '../support/http-receiver.ts';
import { Millrace, testApiKey } from '../support/millrace.ts';
import { storeWorkflow } from '../support/stored-workflows.ts';
import { createTempFolder, type TempFolder } from '../support/temp-folder.ts';
import { patienceMs, waitFor } from '../support/wait-for.ts';

const dayMs = 86_400_000;
const gb = 1024 ** 3;

/** The services of this file run one after another on the same data, so that what one made is there for the next. */
let folder: TempFolder;
before(async () => {
  folder = await createTempFolder();
});
after(() => folder.remove());

const start = (environment: Record<string, string>) =>
  Millrace.start({ dataFolder: join(folder.path, 'data'), environment });

/** Runs `work` with a service that has these settings. */
async function withService(
  environment: Record<string, string>,
  work: (service: Millrace) => Promise<void>,
): Promise<void> {
  const service = await start(environment);
  try {
    await work(service);
  } finally {
    await service.stop();
  }
}

const telling = `
export default {
  name: 'Telling', props: { http: { type: '$.interface.http', customResponse: true } },
  run(event) { this.http.respond({ status: 200, body: { ip: event.client_ip, url: event.url } }); },
};`;

/** Stores 2,000 bytes of state for each request. */
const hoarding = `
export default {
  name: 'Hoarding', props: { http: '$.interface.http', db: '$.service.db' },
  run() { this.db.set('hoard', 'x'.repeat(2000)); },
};`;

/** Sends a request with a Host header of its own. */
async function askHost(service: Millrace, host: string, headers: Record<string, string>) {
  const { hostname, port } = new URL(service.url);
  const sent = request({ hostname, port, path: '/ping', headers: { host, ...headers } }).end();
  const [answer] = await once(sent, 'response');
  const body = await text(answer);
  return { status: answer.statusCode, ...(JSON.parse(body) as { ip?: string; url?: string; code?: string }) };
}

/** What a proxy adds, and what a caller may pretend. */
const forwarded = { 'x-forwarded-for': '198.51.100.1, 203.0.113.9' };
/** The key of the endpoint of a source that returns its caller's address. */
let endpointKey = '';

describe('a service with limits and addresses of its own', () => {
  let service: Millrace;
  let me: { id: string; workspaceId: string };

  before(async () => {
    me = await seed(join(folder.path, 'data'));
    service = await start({
      MILLRACE_PUBLIC_URL: 'https://millrace.example.test',
      MILLRACE_EMAIL_DOMAIN: 'Mail.example.test',
      MILLRACE_SESSION_HOURS: '2',
      MILLRACE_BODY_MAX: '1',
      MILLRACE_COMPONENT_DB_MAX: '1',
      MILLRACE_DATA_STORES_MAX: '1',
      MILLRACE_FILES_MAX_GB: '1',
      MILLRACE_RUNS_KEPT: '2',
      MILLRACE_STREAMS_PER_KEY: '2',
      MILLRACE_CONNECTIONS_PER_ADDRESS: '100',
      MILLRACE_PROCESSES_MAX: '9',
      MILLRACE_PROCESSES_MEMORY: '1234',
      MILLRACE_AUDIT_DAYS: '2',
      MILLRACE_QUOTA_CREDITS: '1001',
      MILLRACE_QUOTA_COMPUTE_MS: '1002',
      MILLRACE_QUOTA_INVOCATIONS: '0',
      MILLRACE_QUOTA_ENFORCED: 'on',
      MILLRACE_QUOTA_SOURCES: '1003',
      MILLRACE_QUOTA_WORKFLOWS: '1004',
      MILLRACE_QUOTA_EVENTS: '1005',
      MILLRACE_QUOTA_DELIVERIES: '1006',
      MILLRACE_QUOTA_STORED_MB: '1000007',
      MILLRACE_QUOTA_STREAMS: '1008',
      MILLRACE_QUOTA_BUILDS: '1009',
      MILLRACE_QUOTA_WORKSPACES: '1010',
    });
    // All other tests are of this user.
    const free = await service.api('PUT', `/v1/quotas/${me.id}`, { enforced: false });
    assert.equal(free.status, 200, JSON.stringify(free.body));
  });
  after(() => service.stop());

  /** The address of an endpoint on this machine, where its public one does not lead. */
  const here = (url: string) => new URL(new URL(url).pathname, service.url);
  const post = async (url: string, body: string, headers: Record<string, string> = {}) => {
    const answer = await fetch(here(url), { method: 'POST', body, headers });
    // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape.
    return { status: answer.status, body: (await answer.json()) as any };
  };

  test('MILLRACE_PUBLIC_URL is where addresses lead, and where the pages of the service are', async () => {
    const source = await service.createSource({ component_code: telling });
    const url: string = source.configured_props.http.endpoint_url;
    endpointKey = must(/^https:\/\/millrace\.example\.test\/in\/(\w+)$/.exec(url)?.[1], url);
    const signIn = (origin: string) =>
      service.api('POST', '/v1/session', { api_key: testApiKey }, { headers: { origin, ...csrf } });
    const csrf = { 'x-millrace-csrf': '1' };
    assert.equal((await signIn('https://elsewhere.example.test')).body.code, 'foreign_origin');
    assert.equal((await signIn('https://millrace.example.test')).status, 200);
    // Browsers come by HTTPS, so cookies need not go by anything else.
    const { connect_url } = (await service.api('POST', '/v1/accounts/connect', { app: 'algolia' })).body.data;
    assert.match(connect_url, /^https:\/\/millrace\.example\.test\/connect\//);
    const page = await fetch(here(connect_url));
    const cookie = page.headers.get('set-cookie') ?? '';
    assert.match(cookie, /; Path=\/connect; Max-Age=\d+; HttpOnly; SameSite=Lax; Secure$/);
  });

  test('MILLRACE_CONNECTIONS_PER_ADDRESS is how many connections one address may have', async () => {
    const { hostname, port } = new URL(service.url);
    const sockets = Array.from({ length: 110 }, () =>
      connect({ port: Number(port), host: hostname, localAddress: '127.0.0.2' }).on('error', () => undefined),
    );
    let closed = 0;
    for (const socket of sockets) socket.resume().once('close', () => (closed += 1));
    try {
      await waitFor(() => closed === 10, { what: 'ten connections to be refused' });
    } finally {
      for (const socket of sockets) socket.destroy();
    }
  });

  test('MILLRACE_SESSION_HOURS is how long a session lasts', async () => {
    const headers = { 'x-millrace-csrf': '1', origin: 'https://millrace.example.test' };
    const signedIn = await service.api('POST', '/v1/session', { api_key: testApiKey }, { headers });
    assert.match(
      signedIn.headers.get('set-cookie') ?? '',
      /; Max-Age=7200; HttpOnly; SameSite=Strict; Secure$/,
    );
    const hours = (signedIn.body.data.expires_at - Date.now() / 1000) / 3600;
    assert.ok(hours > 1.9 && hours <= 2, `${hours} hours`);
  });

  test('MILLRACE_EMAIL_DOMAIN is in the addresses of email triggers', async () => {
    const { triggers } = await service.createWorkflow({ triggers: [{ type: 'email' }], steps: [] });
    assert.match(triggers[0].email_address, /^em[0-9a-z]{13}@mail\.example\.test$/);
  });

  test('MILLRACE_TRUSTED_PROXIES: without it no forwarded address or host is used', async () => {
    const answer = await fetch(`${service.url}/in/${endpointKey}`, {
      headers: { ...forwarded, 'x-forwarded-host': 'hooks.example.com' },
    });
    const { ip, url } = (await answer.json()) as { ip: string; url: string };
    assert.equal(ip, '127.0.0.1');
    assert.doesNotMatch(url, /hooks/);
  });

  test('MILLRACE_BODY_MAX bounds the body of a request to an endpoint', async () => {
    const url = `/in/${endpointKey}`;
    const on = (path: string) => `${service.url}${path}`;
    assert.equal((await post(on(url), 'x'.repeat(1024))).status, 200);
    const refused = await post(on(url), 'x'.repeat(1025));
    assert.deepEqual([refused.status, refused.body.code], [413, 'body_too_large']);
  });

  test('MILLRACE_COMPONENT_DB_MAX bounds what one source keeps', async () => {
    const { id, configured_props } = await service.createSource({ component_code: hoarding });
    await post(configured_props.http.endpoint_url, '{}');
    const { event } = await waitFor(async () => (await service.events(id, '&event_name=$errors'))[0]);
    assert.match(event.error.message, /larger than 1 KB/);
  });

  test('MILLRACE_DATA_STORES_MAX bounds what the data stores of one owner hold', async () => {
    const { id } = (await service.api('POST', '/v1/data_stores', { name: 'full' })).body.data;
    const put = async (key: string) => {
      const value = 'x'.repeat(600_000);
      const { status, body } = await service.api('PUT', `/v1/data_stores/${id}/entries/${key}`, { value });
      return [status, body.code];
    };
    assert.deepEqual(await put('first'), [200, undefined]);
    assert.deepEqual(await put('second'), [409, 'data_store_full']);
  });

  test('MILLRACE_FILES_MAX_GB bounds what the files of one owner take', async () => {
    const { triggers } = await service.createWorkflow({ triggers: [{ type: 'http' }], steps: [] });
    const refused = await post(triggers[0].endpoint_url, 'x', { 'x-pd-upload-body': '1' });
    assert.deepEqual([refused.status, refused.body.code], [507, 'files_full']);
    assert.equal(refused.body.details.limit, gb);
  });

  test('MILLRACE_RUNS_KEPT is how many ended runs of a workflow are kept', async () => {
    const kept = await waitFor(async () => {
      const runs = await service.runs('p_seeded');
      // They go in several transactions.
      return runs.length <= 2 && runs;
    });
    assert.equal(kept.length, 2);
  });

  test('MILLRACE_PROCESSES_MAX and MILLRACE_PROCESSES_MEMORY are what the processes of all owners share', async () => {
    const { data } = (await service.api('GET', '/v1/instance/processes')).body;
    assert.deepEqual([data.processes_max, data.memory_bytes_max], [9, 1234 * 1024 * 1024]);
  });

  test('MILLRACE_STREAMS_PER_KEY is how many live streams a key has open at once', async () => {
    const { id } = await service.createSource({ component_code: telling });
    const open = async (path: string) => {
      const leave = new AbortController();
      const answer = await fetch(`${service.url}${path}`, {
        headers: { authorization: `Bearer ${testApiKey}` },
        signal: leave.signal,
      });
      return { answer, leave };
    };
    const headOf = (path: string) =>
      fetch(`${service.url}${path}`, {
        method: 'HEAD',
        headers: { authorization: `Bearer ${testApiKey}` },
        signal: AbortSignal.timeout(patienceMs),
      });
    const first = await open(`/sources/${id}/sse`);
    const second = await open(`/v1/workspaces/${me.workspaceId}/sse`);
    assert.deepEqual([first.answer.status, second.answer.status], [200, 200]);
    const { answer } = await open(`/v1/sources/${id}/sse`);
    assert.deepEqual(
      [answer.status, answer.headers.get('retry-after'), answer.headers.get('x-ratelimit-limit')],
      [429, '5', '2'],
    );
    // biome-ignore lint/suspicious/noExplicitAny: a test looks into the answer.
    const refused = (await answer.json()) as any;
    assert.deepEqual([refused.code, refused.details.limit], ['streams_busy', 2]);
    const shares = await service.api('GET', '/v1/users/me/shares');
    assert.deepEqual(
      // biome-ignore lint/suspicious/noExplicitAny: a test looks into the answer.
      shares.body.data.map(({ resource, refused: count, reason }: any) => [resource, count, reason]),
      [['streams', 1, refused.error]],
      'the user reads what was refused',
    );
    const command = await runCommand(
      { folder: '/nonexistent', environment: { MILLRACE_URL: service.url, MILLRACE_API_KEY: testApiKey } },
      ['shares'],
    );
    assert.match(command.stdout, /^streams +0 +1 .*streams/m);
    // A HEAD request is answered at once, and takes no place.
    for (const path of [
      `/sources/${id}/sse`,
      `/v1/sources/${id}/sse`,
      `/v1/workspaces/${me.workspaceId}/sse`,
    ]) {
      const head = await headOf(path);
      assert.deepEqual(
        [head.status, head.headers.get('content-type')],
        [200, 'text/event-stream; charset=utf-8'],
      );
    }
    first.leave.abort();
    const again = await waitFor(async () => {
      const opened = await open(`/sources/${id}/sse`);
      return opened.answer.status === 200 && opened;
    });
    again.leave.abort();
    second.leave.abort();
    // What workflows send needs no key. One that is sent has as many streams there.
    const workflow = await service.createWorkflow({
      steps: [{ namespace: 'code', code: 'export default defineComponent({ run() {} })' }],
    });
    const path = `/pipelines/${workflow.id}/sse`;
    const readers = [];
    for (let n = 0; n < 2; n += 1)
      readers.push(
        await waitFor(async () => {
          const opened = await open(path);
          return opened.answer.status === 200 && opened;
        }),
      );
    const head = await headOf(path);
    assert.deepEqual([head.status, head.headers.get('access-control-allow-origin')], [200, '*']);
    const third = (await open(path)).answer;
    assert.deepEqual([third.status, third.headers.get('retry-after')], [429, '5']);
    const keyless = new AbortController();
    for (const headers of [{}, { authorization: 'Bearer of-nobody' }]) {
      const plain = await fetch(`${service.url}${path}`, { headers, signal: keyless.signal });
      assert.equal(plain.status, 200);
    }
    for (const { leave } of [{ leave: keyless }, ...readers]) leave.abort();
  });

  test('MILLRACE_AUDIT_DAYS is how long the audit of accounts is kept', async () => {
    const kept = await waitFor(async () => {
      const { body } = await service.api('GET', `/v1/workspaces/${me.workspaceId}/audit`);
      return body.data.length < 2 && body.data;
    });
    assert.deepEqual(
      kept.map(({ account_id }: { account_id: string }) => account_id),
      ['apn_yesterday'],
    );
  });

  test('MILLRACE_QUOTA_… are the quotas of all owners that have none of their own', async () => {
    const person = { username: 'other', email: 'other@example.com' };
    const { id, api_key: key } = (await service.api('POST', '/v1/users', person)).body.data;
    const { credits, compute_ms, invocations, enforced, ...limits } = (
      await service.api('GET', `/v1/quotas/${id}`)
    ).body.data;
    assert.deepEqual([credits, compute_ms, invocations, enforced], [1001, 1002, 0, true]);
    const { sources, workflows, events, deliveries, stored_mb, streams, builds, workspaces } = limits;
    assert.deepEqual(
      [sources, workflows, events, deliveries, stored_mb, streams, builds, workspaces],
      [1003, 1004, 1005, 1006, 1_000_007, 1008, 1009, 1010],
    );
    const source = await service.api('POST', '/v1/sources', { component_code: telling }, { key });
    // What an owner has used is read when its first request comes, which does not wait for it.
    const refused = await waitFor(async () => {
      const answer = await post(source.body.data.configured_props.http.endpoint_url, '{}');
      return answer.status !== 200 && answer;
    });
    assert.deepEqual(
      [refused.status, refused.body.code, refused.body.details.quota],
      [429, 'quota_exceeded', 'invocations'],
    );
  });
});

describe('MILLRACE_ROLES', () => {
  test('with ingress alone endpoints are answered and the API is not', async () => {
    const environment = {
      MILLRACE_ROLES: 'ingress',
      MILLRACE_ENDPOINT_DOMAIN: 'hooks.example.test',
      MILLRACE_TRUSTED_PROXIES: '10.0.0.0/8',
    };
    await withService(environment, async (service) => {
      assert.equal((await service.api('GET', '/in/nobody')).body.code, 'unknown_endpoint');
      assert.equal((await service.api('GET', '/v1/users/me')).body.code, 'unknown_path');
      // Proxies elsewhere are trusted, and this caller is none of them.
      const host = `${endpointKey}.hooks.example.test`;
      const asked = await askHost(service, host, { ...forwarded, 'x-forwarded-host': 'other.example.com' });
      assert.deepEqual(asked, { status: 200, ip: '127.0.0.1', url: `${host}/ping` });
      assert.equal((await askHost(service, 'localhost', { 'x-forwarded-host': host })).status, 404);
    });
  });

  test('with api alone the API is answered and endpoints are not', async () => {
    await withService({ MILLRACE_ROLES: 'api' }, async (service) => {
      assert.equal((await service.api('GET', '/in/nobody')).body.code, 'unknown_path');
      assert.equal((await service.api('GET', '/v1/users/me')).status, 200);
      assert.equal((await service.api('GET', '/openapi.json')).status, 200);
    });
  });

  test('without api and ingress, only health and metrics are answered', async () => {
    await withService({ MILLRACE_ROLES: 'scheduler,worker' }, async (service) => {
      for (const path of ['/healthz', '/readyz'])
        assert.equal((await service.api('GET', path)).status, 200, path);
      assert.equal((await fetch(`${service.url}/metrics`)).status, 200);
      for (const path of [
        '/v1/users/me',
        '/v1/sources/x',
        '/openapi.json',
        '/docs',
        '/in/x',
        '/sources/x/sse',
      ]) {
        const answer = await service.api('GET', path);
        assert.deepEqual([answer.status, answer.body.code], [404, 'unknown_path'], path);
      }
      assert.doesNotMatch(service.output, /manual/);
    });
  });
});

test('MILLRACE_LOG_FORMAT chooses between lines of text and of JSON, whatever the output is', async () => {
  const linesWith = async (format: string) => {
    let lines: string[] = [];
    await withService({ MILLRACE_LOG_FORMAT: format, MILLRACE_LOG_LEVEL: 'debug' }, async (service) => {
      await fetch(`${service.url}/readyz`);
      await waitFor(() => service.output.includes('http.request-answered'));
      lines = service.output.split('\n').filter((line) => line.includes('http.request-answered'));
    });
    return lines;
  };
  assert.ok((await linesWith('json')).every((line) => line.startsWith('{')));
  assert.ok((await linesWith('text')).every((line) => !line.startsWith('{')));
});

test('OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG decide which traces are recorded, whatever the sender says', async () => {
  await using receiver = await HttpReceiver.start();
  const environment = {
    OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
    OTEL_TRACES_SAMPLER: 'traceidratio',
    OTEL_TRACES_SAMPLER_ARG: '0.5',
  };
  // The last digits of the id decide.
  const recorded = '4bf92f3577b34da6a3ce929d00000001';
  const left = '4bf92f3577b34da6a3ce929dffffffff';
  await withService(environment, async (service) => {
    for (const [traceId, flags] of [
      [left, '01'],
      [recorded, '00'],
    ] as const) {
      const headers = {
        authorization: `Bearer ${testApiKey}`,
        traceparent: `00-${traceId}-00f067aa0ba902b7-${flags}`,
      };
      assert.equal((await fetch(`${service.url}/v1/users/me`, { headers })).status, 200);
    }
    await receiver.waitForRequest(1);
  });
  const sent = receiver.requests.map(({ body }) => body.toString()).join();
  assert.ok(sent.includes(recorded) && !sent.includes(left), sent);
});

test('MILLRACE_TRUSTED_PROXIES: what a trusted proxy says is the address of the caller, and the host that decides which endpoint is meant', async () => {
  const environment = {
    MILLRACE_ENDPOINT_DOMAIN: 'hooks.example.test',
    MILLRACE_TRUSTED_PROXIES: '10.0.0.0/8,127.0.0.1',
  };
  await withService(environment, async (service) => {
    const source = await service.createSource({ component_code: telling });
    const { host } = new URL(source.configured_props.http.endpoint_url);
    assert.match(host, /^\w+\.hooks\.example\.test$/);
    const asked = await askHost(service, 'localhost', { ...forwarded, 'x-forwarded-host': host });
    // The last address that is not a trusted proxy itself.
    assert.deepEqual(asked, { status: 200, ip: '203.0.113.9', url: `${host}/ping` });
    // A proxy that adds the port.
    const ported = { 'x-forwarded-for': 'unknown, 203.0.113.9:4711', 'x-forwarded-host': host };
    assert.equal((await askHost(service, 'localhost', ported)).ip, '203.0.113.9');
  });
});

/** The first user, and what is there from before: too many runs, an old audit, and files that take all there may be. */
async function seed(dataFolder: string): Promise<{ id: string; workspaceId: string }> {
  const store = await openSqliteStore({ folder: dataFolder });
  try {
    const first = await firstStart(store, { folder: dataFolder, apiKey: testApiKey, clock: systemClock });
    const { userId, workspaceId } = must(first, 'the first user');
    const workflowId = await storeWorkflow(store, { id: 'p_seeded', ownerId: userId });
    const trigger: RunTrigger = {
      ...{ workflowId, ownerId: userId, deploymentId: 'd_p_seeded_1', emitterId: 'hi_1' },
      flowControl: null,
      ...{ sourceType: 'HTTP', event: '{}', hops: 0 },
    };
    const nowMs = Date.now();
    // More than a hundred beyond those that are kept: the pruner leaves fewer for later.
    const runs = Array.from(
      { length: 103 },
      (_, n): RunTable => ({
        ...newRunRow(trigger, { id: `run_${n}`, nowMs: nowMs + n, token: 'token', state: 'running' }),
        state: 'succeeded',
        ended_at_ms: nowMs + n,
      }),
    );
    const account = { owner_id: workspaceId, app_slug: 'acme' };
    const audited = { action: 'created', actor: theService } as const;
    await store.transaction(async (tx) => {
      await tx.insertInto('runs').values(runs).execute();
      await recordAudit(
        tx,
        { ...audited, account: { ...account, id: 'apn_yesterday' }, nowMs: nowMs - dayMs },
        { ...audited, account: { ...account, id: 'apn_old' }, nowMs: nowMs - 3 * dayMs },
      );
      await insertFile(tx, {
        ...{
          id: newId('file'),
          owner_id: userId,
          folder: 'files',
          path: 'large',
          content_type: 'text/plain',
        },
        ...{ size: gb, sha256: '0'.repeat(64), complete: 1, expires_at_ms: null },
        ...{ created_at_ms: nowMs, updated_at_ms: nowMs, content_in: 'store' },
      });
    });
    return { id: userId, workspaceId };
  } finally {
    await store.close();
  }
}

test('MILLRACE_NODE_LEASE is how long the work of a node that was killed stays its own', async () => {
  const service = await start({ MILLRACE_NODE_LEASE: '120' });
  await service.kill();
  const database = new DatabaseSync(join(folder.path, 'data', 'millrace.sqlite'), { readOnly: true });
  try {
    const node = database.prepare('select expires_at_ms - started_at_ms as "leaseMs" from nodes').get();
    assert.equal(node?.leaseMs, 120_000);
  } finally {
    database.close();
  }
});

test('MILLRACE_DRAIN_SECONDS is how long a node that was told to stop serves requests and is not ready', async () => {
  const service = await start({ MILLRACE_DRAIN_SECONDS: '300' });
  service.process.kill('SIGTERM');
  await waitFor(async () => (await fetch(`${service.url}/readyz`)).status === 503);
  const answer = await (await fetch(`${service.url}/readyz`)).json();
  assert.match(JSON.stringify(answer), /this node is about to stop/);
  assert.equal((await fetch(`${service.url}/healthz`)).status, 200);
  const account = await fetch(`${service.url}/v1/users/me`, {
    headers: { authorization: `Bearer ${testApiKey}` },
  });
  assert.equal(account.status, 200);
  assert.equal(await service.stop(), 0, 'a second signal stops it');
});
