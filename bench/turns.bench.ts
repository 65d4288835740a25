import { parseArgs } from 'node:util';
import { startPostgres } from '../test/support/postgres-server.ts';
import { failuresOf, type LoadResult, runLoad } from './support/load.ts';
import { type Service, startService } from './support/service.ts';

/**
 * What it costs that runs of one source follow each other over all nodes: requests to one source, answered by its component, on PostgreSQL.
 * The baseline is the same load on a node that is alone. `through the other node`: each request waits in the store for the node that has
 * the turn, and its answer comes back through the store. `both in turns` is what a balancer does. With `concurrency` each node runs its own.
 */
const { values: options } = parseArgs({
  options: {
    connections: { type: 'string', default: '1,16' },
    seconds: { type: 'string', default: '3' },
  },
});
const seconds = Number(options.seconds);
const code = `export default {
  name: 'bench turns', version: '0.0.1',
  props: { http: { type: '$.interface.http', customResponse: true }, db: '$.service.db' },
  async run(event) {
    this.db.set('count', (this.db.get('count') ?? 0) + 1);
    this.http.respond({ status: 200, body: 'ok' });
  },
};`;
const body = JSON.stringify({ text: 'x'.repeat(970) });

const postgres = await startPostgres();
const nodes: Service[] = [];
const settings = {
  MILLRACE_DATABASE_URL: postgres.url,
  MILLRACE_ENCRYPTION_KEY: Buffer.alloc(32, 7).toString('base64'),
};
try {
  const rows: object[] = [];
  nodes.push(await startService(settings));
  for (const connections of options.connections.split(',').map(Number)) {
    if (nodes.length === 2) await nodes.pop()?.stop();
    const alone = await measure(await create(), [0], connections);
    nodes.push(await startService(settings));
    const row = (way: string, load: LoadResult) =>
      rows.push({
        requests: way,
        connections,
        'per s': Math.round(load.perSecond),
        ratio: (load.perSecond / alone.perSecond).toFixed(2),
        'p50 ms': load.p50Ms.toFixed(1),
        'p99 ms': load.p99Ms.toFixed(1),
        failures: failuresOf(load),
      });
    row('to a node that is alone', alone);
    const source = await create();
    row('to the node with the turn, of two', await measure(source, [0], connections));
    row('through the other node', await measure(source, [1], connections));
    row('to both in turns', await measure(source, [0, 1], connections));
    row('to both, concurrency 16', await measure(await create({ concurrency: 16 }), [0, 1], connections));
  }
  console.table(rows);
} finally {
  for (const node of nodes) await node.stop();
  await postgres.stop();
}

async function create(more: object = {}): Promise<string> {
  const answer = (await nodes[0]?.api('POST', '/sources', { component_code: code, ...more })) as {
    data: { configured_props: { http: { endpoint_url: string } } };
  };
  const path = new URL(answer.data.configured_props.http.endpoint_url).pathname;
  // The node that is asked first has the turn.
  await fetch(`${nodes[0]?.url}${path}`, { method: 'POST', body });
  return path;
}

/** The same load on each of the nodes `at`, together as many connections. */
async function measure(path: string, at: readonly number[], connections: number): Promise<LoadResult> {
  const share = Math.max(1, connections / at.length);
  const load = () =>
    Promise.all(
      at.map((index) =>
        runLoad({ url: `${nodes[index]?.url}${path}`, connections: share, seconds, body, firstNumber: 1 }),
      ),
    );
  await load();
  const results = await load();
  const [first] = results;
  if (first === undefined) throw new Error('no node');
  return {
    ...first,
    perSecond: results.reduce((sum, { perSecond }) => sum + perSecond, 0),
  };
}
