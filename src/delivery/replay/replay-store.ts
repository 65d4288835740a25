import { sql } from 'kysely';
import { openStates } from '#delivery/delivery.ts';
import { type Page, type PageRequest, pageOf } from '#storage/page.ts';
import type { Db, Store, Tx } from '#storage/store.ts';
import type {
  DeliveryState,
  DeliveryTable,
  ReplayReason,
  ReplayState,
  ReplayTable,
} from '#storage/tables/delivery-tables.ts';

const replayColumns = [
  'id',
  'owner_id',
  'emitter_owner_id',
  'user_id',
  'emitter_id',
  'channel',
  'listener_id',
  'subscription_id',
  'start_ms',
  'start_seq',
  'end_ms',
  'end_seq',
  'after_ms',
  'after_seq',
  'state',
  'reason',
  'total',
  'queued',
  'removed_sent',
  'removed_failed',
  'rate',
  'run_at_ms',
  'created_at_ms',
  'updated_at_ms',
] as const;

/** Replays that have, or may have, something ahead of them. */
const openReplayStates = ['queueing', 'sending'] as const satisfies readonly ReplayState[];

export async function insertReplay(tx: Tx, row: ReplayTable): Promise<void> {
  await tx.insertInto('replays').values(row).execute();
}

export async function findReplay(db: Db, id: string): Promise<ReplayTable | undefined> {
  return db.selectFrom('replays').select(replayColumns).where('id', '=', id).executeTakeFirst();
}

/** The same, locked until the end of the transaction: making deliveries and cancelling take turns. */
export async function lockReplay(store: Store, tx: Tx, id: string): Promise<ReplayTable | undefined> {
  const query = tx.selectFrom('replays').select(replayColumns).where('id', '=', id);
  return store.lockRows(query).executeTakeFirst();
}

/** Replays of an emitter's events, newest first. */
export async function pageOfReplays(
  db: Db,
  emitterId: string,
  page: PageRequest,
): Promise<Page<ReplayTable>> {
  return pageOf(db.selectFrom('replays').select(replayColumns).where('emitter_id', '=', emitterId), page);
}

/** Those from things of one owner to things of another that may have something ahead of them. */
export async function openReplaysBetweenOwners(
  db: Db,
  owners: { emitterOwnerId: string; listenerOwnerId: string },
): Promise<ReplayTable[]> {
  return db
    .selectFrom('replays')
    .select(replayColumns)
    .where('owner_id', '=', owners.listenerOwnerId)
    .where('emitter_owner_id', '=', owners.emitterOwnerId)
    .where('state', 'in', openReplayStates)
    .execute();
}

/** Deliveries were made up to `after_ms`, `after_seq`. */
export async function advanceReplay(tx: Tx, replay: ReplayTable): Promise<void> {
  const { after_ms, after_seq, queued, state, run_at_ms, updated_at_ms } = replay;
  await tx
    .updateTable('replays')
    .set({ after_ms, after_seq, queued, state, run_at_ms, updated_at_ms })
    .where('id', '=', replay.id)
    .execute();
}

/** Nothing more of it is to be sent. */
export async function endReplay(
  tx: Tx,
  id: string,
  end: { reason: ReplayReason; nowMs: number },
): Promise<void> {
  await tx
    .updateTable('replays')
    .set({ state: 'cancelled', reason: end.reason, updated_at_ms: end.nowMs })
    .where('id', '=', id)
    .where('state', '<>', 'cancelled')
    .execute();
}

/**
 * The number of replays to a listener that still have deliveries to come. The others are marked as finished, so
 * that each is looked at once.
 */
export async function countOpenReplays(tx: Tx, listenerId: string): Promise<number> {
  await tx
    .updateTable('replays')
    .set({ state: 'finished' })
    .where('listener_id', '=', listenerId)
    .where('state', '=', 'sending')
    .where(nothingWaits())
    .execute();
  const row = await tx
    .selectFrom('replays')
    .select((select) => select.fn.countAll<number>().as('count'))
    .where('listener_id', '=', listenerId)
    .where('state', 'in', openReplayStates)
    .executeTakeFirst();
  return Number(row?.count ?? 0);
}

/** Removes at most `limit` replays that began before a time and are over. */
export async function pruneReplays(
  store: Store,
  tx: Tx,
  options: { beforeMs: number; limit: number },
): Promise<void> {
  const old = tx
    .selectFrom('replays')
    .select('id')
    .where('created_at_ms', '<', options.beforeMs)
    .where('state', '<>', 'queueing')
    .where(nothingWaits())
    .orderBy('created_at_ms')
    .limit(options.limit);
  // Two that do this at once each leave the other's alone.
  const ids = (await store.lockRows(old, { skipLocked: true }).execute()).map(({ id }) => id);
  if (ids.length > 0) await tx.deleteFrom('replays').where('id', 'in', ids).execute();
}

function nothingWaits() {
  return sql<boolean>`not exists (
    select 1 from deliveries where deliveries.replay_id = replays.id and deliveries.state in (${sql.join([...openStates])}))`;
}

/** What has become of the deliveries of a replay so far. */
export interface ReplayProgress {
  /** Delivered. */
  sent: number;
  /** Ended otherwise. */
  failed: number;
  /** Queued or held. */
  waiting: number;
}

/** The progress of each of these replays. */
export async function progressOf(
  db: Db,
  replays: readonly ReplayTable[],
): Promise<Map<string, ReplayProgress>> {
  const progress = new Map(
    replays.map((row) => [row.id, { sent: row.removed_sent, failed: row.removed_failed, waiting: 0 }]),
  );
  if (replays.length === 0) return progress;
  const rows = await db
    .selectFrom('deliveries')
    .select(['replay_id', 'state'])
    .select((select) => select.fn.countAll<number>().as('count'))
    .where('replay_id', 'in', [...progress.keys()])
    .groupBy(['replay_id', 'state'])
    .execute();
  for (const { replay_id, state, count } of rows) {
    const own = progress.get(replay_id ?? '');
    if (own !== undefined) own[groupOf(state)] += Number(count);
  }
  return progress;
}

function groupOf(state: DeliveryState): keyof ReplayProgress {
  if (state === 'delivered') return 'sent';
  return openStates.some((open) => open === state) ? 'waiting' : 'failed';
}

/** The records of these deliveries are removed: those of replays stay counted. */
export async function countRemoved(
  tx: Tx,
  removed: readonly Pick<DeliveryTable, 'replay_id' | 'state'>[],
): Promise<void> {
  for (const [id, rows] of Map.groupBy(removed, ({ replay_id }) => replay_id)) {
    if (id === null) continue;
    const sent = rows.filter(({ state }) => state === 'delivered').length;
    await tx
      .updateTable('replays')
      .set((set) => ({
        removed_sent: set('removed_sent', '+', sent),
        removed_failed: set('removed_failed', '+', rows.length - sent),
      }))
      .where('id', '=', id)
      .execute();
  }
}
