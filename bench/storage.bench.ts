import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { insertJobs, jobRow } from '#jobs/job-store.ts';
import { newTimeOrderedId } from '#lib/ids.ts';
import { silentLogger } from '#lib/logger.ts';
import type { BatchWrite } from '#storage/group-commit.ts';
import { openStore } from '#storage/open-store.ts';
import type { JobTable } from '#storage/tables/job-tables.ts';
import { startPostgres } from '../test/support/postgres-server.ts';
import { type AppendResult, bareGroupCommit, measureAppends } from './baselines.ts';

/**
 * The storage floor: accepting one request, as ingress does (one job row of 1 kB, group-committed and synced), through
 * the real store, beside bare SQLite doing the same to a table without indexes on this thread.
 */
const { values: options } = parseArgs({
  options: {
    'in-flight': { type: 'string', default: '1,16,64,256' },
    rounds: { type: 'string', default: '3' },
    seconds: { type: 'string', default: '2' },
    store: { type: 'string', default: 'sqlite' },
  },
});
const seconds = Number(options.seconds);

const write: BatchWrite<JobTable, string> = { name: 'bench', run: insertJobs };
const event = JSON.stringify({ method: 'POST', path: '/', body: { text: 'x'.repeat(900) } });

function newRow(): JobTable {
  const nowMs = Date.now();
  return jobRow({
    id: newTimeOrderedId(nowMs),
    kind: 'run_source',
    ownerId: 'u_bench',
    payload: { source_id: 'dc_bench', trigger: 'http', event, hops: 0 },
    runAtMs: nowMs,
    nowMs,
  });
}

function median(results: AppendResult[]): AppendResult {
  const sorted = results.toSorted((a, b) => a.perSecond - b.perSecond);
  const middle = sorted[Math.floor(sorted.length / 2)];
  if (middle === undefined) throw new Error('at least one round is needed');
  return middle;
}

const folder = await mkdtemp(join(tmpdir(), 'millrace-bench-'));
const postgres = options.store === 'postgres' ? await startPostgres() : undefined;
const store = await openStore({ databaseUrl: postgres?.url ?? '', folder, logger: silentLogger });
try {
  const rows = [];
  for (const inFlight of options['in-flight'].split(',').map(Number)) {
    const bare: AppendResult[] = [];
    const ours: AppendResult[] = [];
    for (let round = 0; round < Number(options.rounds); round += 1) {
      bare.push(await bareGroupCommit({ folder, inFlight, seconds }));
      ours.push(await measureAppends(() => store.writes.submit(write, newRow()), { inFlight, seconds }));
    }
    const [a, b] = [median(bare), median(ours)];
    rows.push({
      'in flight': inFlight,
      'store per s': Math.round(b.perSecond),
      'bare SQLite per s': Math.round(a.perSecond),
      ratio: (b.perSecond / a.perSecond).toFixed(3),
      'p50 ms': b.p50Ms.toFixed(2),
      'p99 ms': b.p99Ms.toFixed(1),
      'bare p50/p99 ms': `${a.p50Ms.toFixed(2)} / ${a.p99Ms.toFixed(1)}`,
    });
  }
  console.log(`store ${store.name}`);
  console.table(rows);
} finally {
  await store.close();
  await postgres?.stop();
  await rm(folder, { recursive: true, force: true });
}
