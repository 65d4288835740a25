import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { Client } from 'pg';
import { recentMs } from '../src/jobs/recent-lanes.ts';
import { startPostgres } from '../test/support/postgres-server.ts';
import { failuresOf, type LoadResult, runLoad } from './support/load.ts';
import { treeUsage } from './support/process-tree.ts';
import { type Service, startService } from './support/service.ts';

/**
 * What another node brings and what it costs, on one PostgreSQL: requests to 1 to 4 nodes. Here all of them share the cores of one machine, so
 * the rate says little; what counts is the processor time that a request takes on the nodes and in the database, from which follows how many
 * nodes one database carries. The first row of each kind is the baseline.
 *
 * - `workflow`: one step of code; any node runs what it accepted.
 * - `source`: emits an event; each source has its turn on one node, and requests that come to another one wait for it in the store, as behind a
 *   balancer.
 * - `source, own node`: the same, where all requests of a source come to one node, as when a balancer goes by path.
 * - `idle`: nothing happens; processor time of the database in a second.
 *
 * Each node has so many connections. Run: npm run bench -- nodes [--nodes 1,2,4] [--connections 16] [--seconds 6]
 */
const { values: options } = parseArgs({
  options: {
    nodes: { type: 'string', default: '1,2,4' },
    connections: { type: 'string', default: '16' },
    seconds: { type: 'string', default: '6' },
  },
});
const connections = Number(options.connections);
const seconds = Number(options.seconds);
const body = JSON.stringify({ text: 'x'.repeat(970) });
const source = `export default {
  name: 'bench nodes', version: '0.0.1',
  props: { http: { type: '$.interface.http', customResponse: true } },
  run(event) { this.http.respond({ status: 200 }); this.$emit({ length: event.body.text.length }); },
};`;
const step = {
  namespace: 'answer',
  code: 'export default defineComponent({ async run({ $ }) { await $.respond({ status: 200 }); } })',
};

const postgres = await startPostgres();
const client = new Client({ connectionString: postgres.url });
const nodes: Service[] = [];
const rows: Record<string, unknown>[] = [];
const baselines = new Map<string, { nodeUs: number; databaseUs: number }>();
try {
  await client.connect();
  for (const count of options.nodes.split(',').map(Number)) {
    while (nodes.length < count)
      nodes.push(
        await startService({
          MILLRACE_DATABASE_URL: postgres.url,
          MILLRACE_ENCRYPTION_KEY: Buffer.alloc(32, 7).toString('base64'),
        }),
      );
    // Nodes learn of each other with their heartbeats.
    await delay(10_000);
    await measureIdle();
    const create = (make: () => Promise<string>) =>
      Promise.all(Array.from({ length: connections * count }, make));
    await measure('workflow', await create(createWorkflow), (place) => place % count);
    await measure('source', await create(createSource), (place, part) => (place + part) % count);
    await measure('source, own node', await create(createSource), (place) => place % count);
  }
  console.table(rows);
} finally {
  await client.end();
  for (const node of nodes) await node.stop();
  await postgres.stop();
}

/** Each connection asks for one endpoint, in parts of a second; `nodeOf` says which node the connection asks in which part. */
async function measure(
  kind: string,
  paths: readonly string[],
  nodeOf: (place: number, part: number) => number,
): Promise<void> {
  const send = async (parts: number): Promise<LoadResult[]> => {
    const results: LoadResult[] = [];
    for (let part = 0; part < parts; part += 1)
      results.push(
        ...(await Promise.all(
          paths.map((path, place) =>
            runLoad({
              url: `${nodes[nodeOf(place, part)]?.url}${path}`,
              connections: 1,
              seconds: seconds / parts,
              body,
            }),
          ),
        )),
      );
    return results;
  };
  await send(2);
  // Requests that come to several nodes go through the store, and so do those that follow within ten seconds.
  if (kind === 'source, own node') await delay(recentMs + 1_000);
  const before = await countersOf();
  const results = await send(kind === 'source' ? 4 : 1);
  const after = await countersOf();
  const requests = results.reduce((sum, result) => sum + result.requests, 0);
  const nodeUs = (after.nodesUs - before.nodesUs) / requests;
  const databaseUs = (after.databaseUs - before.databaseUs) / requests;
  const baseline = baselines.get(kind) ?? { nodeUs, databaseUs };
  baselines.set(kind, baseline);
  const failed = [...new Set(results.map(failuresOf).filter((text) => text !== ''))];
  rows.push({
    ...{ requests: kind, nodes: nodes.length, 'per s': Math.round(requests / seconds) },
    'p99 ms': Math.max(...results.map(({ p99Ms }) => p99Ms)).toFixed(0),
    'node µs each': Math.round(nodeUs),
    'database µs each': Math.round(databaseUs),
    ratio: `${(nodeUs / baseline.nodeUs).toFixed(2)}, ${(databaseUs / baseline.databaseUs).toFixed(2)}`,
    'transactions each': ((after.transactions - before.transactions) / requests).toFixed(2),
    'connections a node': (after.connections / nodes.length).toFixed(1),
    failures: failed.join(', '),
  });
}

async function measureIdle(): Promise<void> {
  const before = await countersOf();
  await delay(10_000);
  const after = await countersOf();
  rows.push({
    ...{ requests: 'idle', nodes: nodes.length },
    'database ms a second': ((after.databaseUs - before.databaseUs) / 10_000).toFixed(1),
    'node ms a second': ((after.nodesUs - before.nodesUs) / 10_000 / nodes.length).toFixed(1),
    'connections a node': (after.connections / nodes.length).toFixed(1),
  });
}

/** Processor time of all nodes and of the database so far, its transactions, and the connections of the nodes. */
async function countersOf() {
  const { rows: found } = await client.query<{ transactions: string; connections: string }>(
    `select (select sum(xact_commit) from pg_stat_database) as transactions,
      (select count(*) - 1 from pg_stat_activity where backend_type = 'client backend') as connections`,
  );
  return {
    nodesUs: nodes.reduce((sum, { pid }) => sum + treeUsage(pid).cpuUs, 0),
    databaseUs: treeUsage(postgres.pid).cpuUs,
    transactions: Number(found[0]?.transactions),
    connections: Number(found[0]?.connections),
  };
}

async function createSource(): Promise<string> {
  const answer = (await nodes[0]?.api('POST', '/sources', { component_code: source })) as {
    data: { configured_props: { http: { endpoint_url: string } } };
  };
  return new URL(answer.data.configured_props.http.endpoint_url).pathname;
}

async function createWorkflow(): Promise<string> {
  const answer = (await nodes[0]?.api('POST', '/workflows', {
    steps: [step],
    triggers: [{ type: 'http', props: { custom_response: true } }],
    settings: { auto_deploy: true },
  })) as { data: { triggers: { endpoint_url: string }[] } };
  return new URL(answer.data.triggers[0]?.endpoint_url ?? '').pathname;
}
