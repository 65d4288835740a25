/**
 * Owners on two databases, for an installation that one primary no longer carries: two instances, each with a database and a host name of its
 * own, behind one HAProxy, which goes by the name in the request. The loss of one database is felt by its own owners only.
 */
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { request as httpRequest } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { freePort } from '../test/support/guarded-process.ts';
import { Millrace, testApiKey } from '../test/support/millrace.ts';
import { type PostgresServer, startPostgres } from '../test/support/postgres-server.ts';
import { until } from './support/event-of-a-person.ts';
import { startHaproxy } from './support/haproxy.ts';
import { Inbox } from './support/inbox.ts';
import { Load } from './support/load.ts';
import { requirePrograms } from './support/programs.ts';

const names = ['a.millrace.test', 'b.millrace.test'] as const;
const senders = 4;
const pauseMs = 20;
const watchedMs = 5_000;

interface Part {
  name: string;
  database: PostgresServer;
  node: Millrace;
  inbox: Inbox;
}

let folder: string;
let proxyPort: number;
let proxy: { stop(): Promise<void> } | undefined;
const parts: Part[] = [];

before(async () => {
  requirePrograms({ haproxy: 'haproxy' });
  folder = await mkdtemp(join(tmpdir(), 'millrace-owners-'));
  proxyPort = await freePort();
  const ports: number[] = [];
  for (const name of names) {
    const database = await startPostgres();
    const port = await freePort();
    const node = await Millrace.start({
      dataFolder: join(folder, name),
      databaseUrl: database.url,
      environment: {
        MILLRACE_PORT: String(port),
        MILLRACE_PUBLIC_URL: `http://${name}:${proxyPort}`,
        MILLRACE_ENCRYPTION_KEY: Buffer.alloc(32, 7).toString('base64'),
      },
    });
    const inbox = await Inbox.open({ url: node.url, apiKey: testApiKey });
    ports.push(port);
    parts.push({ name, database, node, inbox });
  }
  const hosts = Object.fromEntries(names.map((name, index) => [name, ports[index] ?? 0]));
  proxy = await startHaproxy({ folder, port: proxyPort, nodes: ports, hosts });
  for (const name of names) await until(name, async () => (await through(name, '/readyz')) === 200);
});
after(async () => {
  for (const { inbox } of parts) inbox.close();
  await proxy?.stop();
  await Promise.all(parts.map(({ node }) => node.stop()));
  await Promise.all(parts.map(({ database }) => database.stop()));
  await rm(folder, { recursive: true, force: true });
});

/** The status of a request to the balancer with this host name, which no name server knows. */
function through(host: string, path: string, body?: object): Promise<number> {
  return new Promise((resolve, reject) => {
    const request = httpRequest(
      {
        ...{ host: '127.0.0.1', port: proxyPort, path, method: body === undefined ? 'GET' : 'POST' },
        headers: { host: `${host}:${proxyPort}`, 'content-type': 'application/json' },
      },
      (response) => {
        response.resume();
        response.once('end', () => resolve(response.statusCode ?? 0));
      },
    );
    request.once('error', reject);
    request.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

/** Senders to the endpoint of a part, by its name. */
function loadOf({ name, inbox }: Part): Load {
  return new Load({
    senders,
    pauseMs,
    send: async (n) => new Response(null, { status: await through(name, inbox.path, { n }) }),
  });
}

test('requests reach the instance that their host name says, and no other', async () => {
  const [a, b] = parts as [Part, Part];
  for (const { name, inbox } of parts) assert.equal(await through(name, inbox.path, { n: 0 }), 200);
  assert.equal(await through(b.name, a.inbox.path, { n: 0 }), 404);
  assert.equal(await through(a.name, b.inbox.path, { n: 0 }), 404);
  assert.notEqual(await through('c.millrace.test', a.inbox.path, { n: 0 }), 200, 'a name of neither');
});

test('while one database is away, owners on the other one notice nothing', async (t) => {
  const [a, b] = parts as [Part, Part];
  const loads = { a: loadOf(a), b: loadOf(b) };
  await delay(watchedMs);
  await a.database.kill();
  await delay(watchedMs);
  await a.database.restart();
  await until('the part that was away', async () => (await through(a.name, '/readyz')) === 200);
  await delay(watchedMs);
  const reports = { a: await loads.a.stop(), b: await loads.b.stop() };
  t.diagnostic(JSON.stringify(reports));
  assert.deepEqual(reports.b.failures, {});
  assert.ok(Object.keys(reports.a.failures).length > 0, 'the other part was away');
  for (const [part, load] of [
    [a, loads.a],
    [b, loads.b],
  ] as const)
    await until(
      `each acknowledged request of ${part.name} to arrive`,
      async () => part.inbox.missing(load.acknowledged).length === 0,
    );
});
