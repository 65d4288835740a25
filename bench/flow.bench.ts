import { parseArgs } from 'node:util';
import { sql } from 'kysely';
import { readFlowMap } from '#insights/flow-map.ts';
import { systemClock } from '#lib/clock.ts';
import { silentLogger } from '#lib/logger.ts';
import { openPostgresStore } from '#storage/postgres-store.ts';
import { openSqliteStore } from '#storage/sqlite-store.ts';
import type { Store } from '#storage/store.ts';
import { startPostgres } from '../test/support/postgres-server.ts';
import { sourceRow } from '../test/support/source-row.ts';
import { createTempFolder } from '../test/support/temp-folder.ts';

/**
 * What one answer of the flow map costs an owner with very many sources: each is subscribed to by one of 200 webhooks, and its
 * errors by one more; the busiest have as many recent events and deliveries as are kept.
 */
const { values: options } = parseArgs({
  options: {
    sources: { type: 'string', default: '10000' },
    rounds: { type: 'string', default: '30' },
    /** sqlite, or postgres: a server started for this run, on the same machine. */
    store: { type: 'string', default: 'sqlite' },
  },
});
const sources = Number(options.sources);
const webhooks = 200;
const busy = 300;
const kept = 100;
const ownerId = 'o_1';
const nowMs = Date.now();

const folder = await createTempFolder('flow-bench');
const postgres = options.store === 'postgres' ? await startPostgres() : undefined;
const store: Store =
  postgres === undefined
    ? await openSqliteStore({ folder: folder.path })
    : await openPostgresStore({ url: postgres.url, logger: silentLogger });
try {
  await fill();
  const times: number[] = [];
  let told = '';
  for (let round = 0; round < Number(options.rounds); round += 1) {
    const startMs = performance.now();
    const map = await readFlowMap({ store, clock: systemClock }, ownerId);
    times.push(performance.now() - startMs);
    told = `${map.nodes.length} nodes, ${map.edges.length} edges of ${map.totals.sources} sources and ${map.totals.subscriptions} subscriptions`;
  }
  const first = times[0] ?? 0;
  times.sort((a, b) => a - b);
  console.log(told);
  console.log(
    `${options.store}: the first answer ${first.toFixed(0)} ms; then median ${(times[times.length >> 1] ?? 0).toFixed(0)} ms, slowest ${(times.at(-1) ?? 0).toFixed(0)} ms`,
  );
} finally {
  await store.close();
  await postgres?.stop();
  await folder.remove();
}

async function fill(): Promise<void> {
  const rows = Array.from({ length: sources }, (_, n) => n);
  for (let from = 0; from < sources; from += 200) {
    const part = rows.slice(from, from + 200);
    await store.transaction(async (tx) => {
      await tx
        .insertInto('sources')
        .values(part.map((n) => ({ ...sourceRow(`dc_${n}`, { ownerId }), created_at_ms: n })))
        .execute();
      await tx
        .insertInto('emitters')
        .values(
          part.map((n) => ({
            ...{ id: `dc_${n}`, owner_id: ownerId, last_ms: nowMs - n * 1000, last_seq: 0, dedupe: '{}' },
          })),
        )
        .execute();
      await tx
        .insertInto('subscriptions')
        .values(
          part.flatMap((n) => [
            subscription(`sub_${n}`, n, '', `wh_${n % webhooks}`),
            subscription(`sub_e${n}`, n, '$errors', `wh_${webhooks}`),
          ]),
        )
        .execute();
    });
  }
  for (let n = 0; n <= webhooks; n += 1)
    await store.transaction((tx) =>
      tx
        .insertInto('webhooks')
        .values({
          ...{ id: `wh_${n}`, owner_id: ownerId, user_id: 'u_1', name: null, description: null, secret: 's' },
          ...{ url: 'https://example.com', old_secret: null, old_secret_until_ms: null, state: 'active' },
          ...{ failing_since_ms: null, disabled_reason: null, disabled_at_ms: null, removed_records: 0 },
          ...{ created_at_ms: n, updated_at_ms: n },
        })
        .execute(),
    );
  for (let n = 0; n < busy; n += 1) await fillBusy(n);
  // As it is done by itself where a server runs for longer than this.
  await store.transaction((tx) => sql`analyze`.execute(tx));
}

function subscription(id: string, source: number, eventName: string, listenerId: string) {
  return {
    ...{ id, emitter_owner_id: ownerId, emitter_id: `dc_${source}`, event_name: eventName },
    ...{ listener_id: listenerId, listener_owner_id: ownerId, user_id: 'u_1', created_at_ms: source },
  };
}

async function fillBusy(n: number): Promise<void> {
  const some = Array.from({ length: kept }, (_, index) => index);
  await store.transaction(async (tx) => {
    await tx
      .insertInto('events')
      .values(
        some.map((seq) => ({
          ...{ emitter_id: `dc_${n}`, channel: '', ms: nowMs - seq * 50, seq, owner_id: ownerId },
          ...{ emit_id: `${n}-${seq}`, given_id: null, summary: null, ts_ms: null, hops: 0 },
          ...{
            event: JSON.stringify({ text: 'x'.repeat(1_000) }),
            deliver_channel: null,
            deliver_at_ms: null,
          },
        })),
      )
      .execute();
    await tx
      .insertInto('deliveries')
      .values(
        some.map((seq) => ({
          ...{ id: `dlv_${n}_${seq}`, owner_id: ownerId, listener_id: `wh_${n % webhooks}`, replay_id: null },
          ...{ subscription_id: `sub_${n}`, emitter_id: `dc_${n}`, channel: '', ms: nowMs, seq, hops: 0 },
          ...{ emit_id: `${n}-${seq}`, state: seq % 10 === 0 ? 'failed' : 'delivered', reason: null },
          ...{
            run_at_ms: nowMs,
            lease_node: null,
            attempts: 1,
            attempt_log: '[]',
            status: 200,
            latency_ms: 3,
          },
          ...{ has_payload: 0, payload_bytes: 4, created_at_ms: nowMs - seq * 50, ended_at_ms: nowMs },
        })),
      )
      .execute();
  });
}
