/**
 * A rolling restart of three nodes on PostgreSQL behind HAProxy, under load and with timers: no request fails, and no tick is without a record.
 * As an upgrade from the previous release: `MILLRACE_DRILL_PREVIOUS=FOLDER npm run drill -- rolling`, with a clone of it after `npm ci`.
 */
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { freePort } from '../test/support/guarded-process.ts';
import { Millrace, testApiKey } from '../test/support/millrace.ts';
import { type PostgresServer, startPostgres } from '../test/support/postgres-server.ts';
import { request, until } from './support/event-of-a-person.ts';
import { startHaproxy } from './support/haproxy.ts';
import { Inbox } from './support/inbox.ts';
import { Load } from './support/load.ts';
import { requirePrograms } from './support/programs.ts';

const nodesCount = 3;
const senders = 12;
const pauseMs = 20;
/** One request in so many reads; the others send. */
const readEvery = 5;
/** How long the nodes are left alone between two steps. */
const settleMs = 5_000;
/** The shortest interval there is. Sources that begin one second after another have a tick in every second together. */
const intervalSeconds = 15;
const clock = `export default {
  name: 'Clock', version: '0.0.1',
  props: { timer: { type: '$.interface.timer', default: { intervalSeconds: ${intervalSeconds} } } },
  run() {},
};`;

let folder: string;
let database: PostgresServer;
let proxy: { stop(): Promise<void> } | undefined;
const nodes: Millrace[] = [];
const ports: number[] = [];
let service: { url: string; apiKey: string };

before(async () => {
  requirePrograms({ haproxy: 'haproxy' });
  folder = await mkdtemp(join(tmpdir(), 'millrace-rolling-'));
  database = await startPostgres();
  for (let index = 0; index < nodesCount; index += 1) ports.push(await freePort());
  const previous = process.env.MILLRACE_DRILL_PREVIOUS;
  for (const index of ports.keys()) nodes.push(await startNode(index, previous));
  const port = await freePort();
  proxy = await startHaproxy({ folder, port, nodes: ports });
  service = { url: `http://127.0.0.1:${port}`, apiKey: testApiKey };
  await until('the proxy', async () => (await fetch(`${service.url}/readyz`)).ok);
});
after(async () => {
  await proxy?.stop();
  await Promise.all(nodes.map((node) => node.stop()));
  await database?.stop();
  await rm(folder, { recursive: true, force: true });
});

test('three nodes are replaced, one after another', async (t) => {
  const inbox = await Inbox.open(service);
  t.after(() => inbox.close());
  const timers: string[] = [];
  for (let index = 0; index < intervalSeconds; index += 1) {
    timers.push((await request(service, 'POST', '/v1/sources', { component_code: clock })).data.id);
    await delay(1_000);
  }
  const load = new Load({
    senders,
    pauseMs,
    send: (n) =>
      n % readEvery === 0
        ? fetch(`${service.url}/v1/sources/${inbox.sourceId}`, {
            headers: { authorization: `Bearer ${testApiKey}` },
          })
        : inbox.send(service.url, n),
  });
  await delay(settleMs);
  for (const index of ports.keys()) {
    const started = performance.now();
    assert.equal(await nodes[index]?.stop(), 0);
    const stopped = performance.now();
    nodes[index] = await startNode(index);
    await delay(settleMs);
    t.diagnostic(
      `node ${index}: stopped in ${seconds(stopped - started)}, back ${seconds(performance.now() - stopped - settleMs)} later`,
    );
  }
  const report = await load.stop();
  t.diagnostic(JSON.stringify(report));
  const sent = load.acknowledged.filter((n) => n % readEvery !== 0);
  await until('each acknowledged request to arrive', async () => inbox.missing(sent).length === 0);
  t.diagnostic(`acknowledged requests to the source: ${sent.length}, all arrived at the receiver`);
  const outcomes: string[] = [];
  const gaps: number[] = [];
  for (const id of timers) {
    const ticks = await ticksOf(id);
    const times = [...ticks.keys()].sort((one, other) => one - other);
    outcomes.push(...ticks.values());
    gaps.push(...times.slice(1).map((time, index) => time - (times[index] ?? time)));
  }
  t.diagnostic(`ticks with a record: ${outcomes.length}, ${JSON.stringify(countBy(outcomes))}`);
  assert.deepEqual(report.failures, {}, 'no request fails');
  assert.ok(outcomes.length > 2 * intervalSeconds, `${outcomes.length} ticks`);
  assert.ok(
    gaps.every((gap) => gap === intervalSeconds),
    `a record of every tick: ${JSON.stringify(countBy(gaps.map(String)))}`,
  );
});

function startNode(index: number, from?: string): Promise<Millrace> {
  return Millrace.start({
    dataFolder: join(folder, `node${index}`),
    databaseUrl: database.url,
    environment: {
      MILLRACE_PORT: String(ports[index]),
      MILLRACE_ENCRYPTION_KEY: Buffer.alloc(32, 7).toString('base64'),
      MILLRACE_DRAIN_SECONDS: '6',
    },
    ...(from === undefined
      ? {}
      : { program: [process.execPath, '--disable-sigusr1', join(from, 'src/main.ts')] }),
  });
}

/** The outcome of each tick of a source, by the second for which it was planned. An entry for several ticks stands for those before it too. */
async function ticksOf(sourceId: string): Promise<Map<number, string>> {
  const { data } = await request(service, 'GET', `/v1/sources/${sourceId}/ticks?limit=100`);
  const ticks = new Map<number, string>();
  for (const tick of data as unknown as { planned_at: number; outcome: string; ticks: number }[])
    for (let back = 0; back < tick.ticks; back += 1)
      ticks.set(tick.planned_at - back * intervalSeconds, tick.outcome);
  return ticks;
}

function countBy(texts: readonly string[]): Record<string, number> {
  return Object.fromEntries(
    [...new Set(texts)].map((one) => [one, texts.filter((text) => text === one).length]),
  );
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
