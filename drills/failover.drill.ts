/**
 * The primary of PostgreSQL dies under load: Patroni promotes the synchronous standby, two nodes of Millrace find it by themselves, and nothing
 * that was acknowledged is lost. Twice: the second time the old primary has come back as a standby.
 */
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Millrace, testApiKey } from '../test/support/millrace.ts';
import { until } from './support/event-of-a-person.ts';
import { Inbox } from './support/inbox.ts';
import { Load } from './support/load.ts';
import { PatroniCluster } from './support/patroni.ts';
import { requirePrograms } from './support/programs.ts';

const senders = 8;
const pauseMs = 50;
const quietMs = 5_000;

let folder: string;
let cluster: PatroniCluster;
let inbox: Inbox;
const nodes: Millrace[] = [];

before(async () => {
  requirePrograms({
    patroni: 'patroni',
    etcd: 'etcd-server',
    psql: 'postgresql-client-15',
    '/usr/lib/postgresql/15/bin/postgres': 'postgresql-15',
  });
  folder = await mkdtemp(join(tmpdir(), 'millrace-failover-'));
  cluster = new PatroniCluster(folder);
  await cluster.start();
  for (const name of ['a', 'b']) {
    const node = await Millrace.start({
      dataFolder: join(folder, `node-${name}`),
      databaseUrl: cluster.url,
      environment: { MILLRACE_ENCRYPTION_KEY: Buffer.alloc(32, 7).toString('base64') },
    });
    nodes.push(node);
  }
  inbox = await Inbox.open({ url: nodes[0]?.url ?? '', apiKey: testApiKey });
});
after(async () => {
  inbox?.close();
  await Promise.all(nodes.map((node) => node.stop()));
  await cluster?.stop();
  await rm(folder, { recursive: true, force: true });
});

for (const round of ['first', 'second']) {
  test(`the ${round} primary dies under load, and nothing acknowledged is lost`, async (t) => {
    const old = await cluster.primary();
    assert.ok(old !== undefined);
    const seen = new Set(inbox.received);
    const base = Math.max(0, ...seen);
    const load = new Load({
      senders,
      pauseMs,
      send: (n) => inbox.send(nodes[n % nodes.length]?.url ?? '', base + n),
    });
    await delay(quietMs);
    const killed = performance.now();
    await cluster.kill(old);
    const next = await until('another primary', async () => {
      const name = await cluster.primary();
      return name !== old && name;
    });
    const promoted = performance.now();
    const before = load.acknowledged.length;
    await until('acknowledgements', async () => load.acknowledged.length > before + senders);
    const back = performance.now();
    await delay(quietMs);
    const report = await load.stop();
    t.diagnostic(
      `${old} killed; ${next} is the primary ${seconds(promoted - killed)} later, and acknowledged ${seconds(back - killed)} later`,
    );
    t.diagnostic(JSON.stringify(report));
    const numbers = load.acknowledged.map((n) => base + n);
    await until('each acknowledged request to arrive', async () => inbox.missing(numbers).length === 0);
    t.diagnostic(`${numbers.length} acknowledged requests, all arrived at the receiver`);
    for (const failure of Object.keys(report.failures))
      assert.match(failure, /^503 /, 'what fails is told to send again');
    await cluster.restart(old);
    await until('a synchronous standby', async () => (await cluster.roles()).includes('sync_standby'));
  });
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
