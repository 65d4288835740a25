import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { sql } from 'kysely';
import { silentLogger } from '#lib/logger.ts';
import { openStore } from '#storage/open-store.ts';
import type { DeliveryTable } from '#storage/tables/delivery-tables.ts';
import { startPostgres } from '../test/support/postgres-server.ts';
import { failuresOf, type LoadResult, runLoad } from './support/load.ts';
import { createSource } from './support/numbers-source.ts';
import { type Service, startService } from './support/service.ts';

/**
 * Measures whether others notice that a large workspace is deleted: the time of requests to the endpoint of another owner, quiet, and while
 * this many deliveries of the workspace are removed, as retention removes them: in batches. The first row of each store is the baseline.
 */
const { values: options } = parseArgs({
  options: {
    rows: { type: 'string', default: '200000' },
    seconds: { type: 'string', default: '10' },
    'per-second': { type: 'string', default: '100' },
    store: { type: 'string' },
  },
});
const [rows, seconds] = [Number(options.rows), Number(options.seconds)];
const perSecond = Number(options['per-second']);
const connections = 4;
const rowsPerInsert = 500;
const deliveriesPerListener = 900;
const table: object[] = [];

for (const store of options.store === undefined ? ['embedded', 'PostgreSQL'] : [options.store]) {
  const folder = await mkdtemp(join(tmpdir(), 'millrace-bench-retention-'));
  const postgres = store === 'embedded' ? undefined : await startPostgres();
  const settings = {
    MILLRACE_DATA: join(folder, 'data'),
    ...(postgres === undefined ? {} : { MILLRACE_DATABASE_URL: postgres.url }),
  };
  try {
    step(`${store}: start`);
    const first = await startService(settings);
    const workspace = await newWorkspace(first);
    const source = await createSource(first);
    await first.stop();
    step(`${rows} deliveries are written`);
    await fill(settings, workspace.id);
    step('start again');
    const service = await startService(settings, { apiKey: first.apiKey });
    try {
      const endpoint = `${service.url}${new URL(source.url).pathname}`;
      step('requests');
      await load(endpoint, 3);
      const quiet = await load(endpoint, seconds);
      const { result, removed, whole } = await deleteUnderLoad(service, workspace, endpoint);
      table.push(rowOf(store, 'quiet', quiet, quiet));
      table.push({ ...rowOf(store, 'while rows are removed', result, quiet), ...removed, ...whole });
    } finally {
      await service.stop();
    }
  } finally {
    await postgres?.stop();
    await rm(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 });
  }
}
console.table(table);

/** Says on standard error what is being done, for who waits. */
function step(what: string): void {
  console.error(`${(performance.now() / 1000).toFixed(0)} s  ${what}`);
}

async function newWorkspace(service: Service): Promise<{ id: string; orgname: string }> {
  const { data } = (await service.api('POST', '/workspaces', { name: 'Large' })) as {
    data: { id: string; orgname: string };
  };
  return data;
}

/** Puts delivered deliveries of the workspace into the store of a service that is stopped. */
async function fill(
  { MILLRACE_DATA: folder, MILLRACE_DATABASE_URL: databaseUrl = '' }: Record<string, string>,
  ownerId: string,
): Promise<void> {
  const store = await openStore({ databaseUrl, folder: folder ?? '', logger: silentLogger });
  try {
    for (let at = 0; at < rows; at += rowsPerInsert)
      await store.transaction(async (tx) => {
        const count = Math.min(rowsPerInsert, rows - at);
        await tx
          .insertInto('deliveries')
          .values(Array.from({ length: count }, (_, n) => deliveryRow(ownerId, at + n)))
          .execute();
      });
    if (store.isShared) await sql`analyze deliveries`.execute(store.read);
  } finally {
    await store.close();
  }
}

function deliveryRow(ownerId: string, number: number): DeliveryTable {
  const nowMs = Date.now();
  return {
    // In no order, as ids of deliveries are.
    id: `dlv_${((number * 2_654_435_761) % 4_294_967_296).toString(36)}_${number}`,
    owner_id: ownerId,
    // Of each listener no more than are kept.
    listener_id: `wh_large${Math.floor(number / deliveriesPerListener)}`,
    ...{ subscription_id: 'sub_large', replay_id: null, emitter_id: 'dc_large' },
    ...{ channel: '', ms: nowMs, seq: number, emit_id: `emit_${number}`, hops: 0, trace: null },
    ...{ state: 'delivered', reason: null, run_at_ms: nowMs, lease_node: null, attempts: 1 },
    ...{ attempt_log: '[]', status: 200, latency_ms: 5, has_payload: 0, payload_bytes: 0 },
    ...{ created_at_ms: nowMs, ended_at_ms: nowMs },
  };
}

function load(url: string, duration: number): Promise<LoadResult> {
  return runLoad({
    ...{ url, connections, perSecond, seconds: duration, method: 'POST', body: '{"n":"000000000000"}' },
    headers: { 'content-type': 'application/json' },
  });
}

/** Load for as long as before; how many rows were removed meanwhile, and how long all of them took. */
async function deleteUnderLoad(
  service: Service,
  { id, orgname }: { id: string; orgname: string },
  url: string,
) {
  const startedMs = performance.now();
  const { data } = (await service.api('DELETE', `/workspaces/${id}`, { orgname })) as {
    data: { id: string };
  };
  const read = async () =>
    (
      (await service.api('GET', `/deletions/${data.id}`)) as {
        data: { state: string; removed_rows: number };
      }
    ).data;
  const result = await load(url, seconds);
  const { removed_rows: removed } = await read();
  while ((await read()).state !== 'done') await new Promise((resolve) => setTimeout(resolve, 100));
  const wholeSeconds = (performance.now() - startedMs) / 1000;
  return {
    result,
    removed: { 'rows removed meanwhile': removed },
    whole: { 'all rows after s': wholeSeconds.toFixed(1) },
  };
}

function rowOf(store: string, state: string, result: LoadResult, quiet: LoadResult): object {
  return {
    store,
    requests: state,
    'per s': result.perSecond.toFixed(0),
    'p50 ms': result.p50Ms.toFixed(2),
    'p99 ms': result.p99Ms.toFixed(2),
    'max ms': result.maxMs.toFixed(1),
    'p99 ratio': (result.p99Ms / quiet.p99Ms).toFixed(2),
    failed: failuresOf(result),
  };
}
