import { sql } from 'kysely';
import type { BatchWrite } from '#storage/group-commit.ts';
import type { Db, Tx } from '#storage/store.ts';
import type { IdempotencyKeyTable } from '#storage/tables/idempotency-tables.ts';
import { encodeMark } from './kept-answer.ts';
import type { RequestKey } from './request-key.ts';

/** How long a key counts. */
export const keptMs = 24 * 3_600_000;
/** Keys in one statement: far below the parameter limits of both dialects. */
const keysPerStatement = 500;

/** An item of a batch write that is done only when its key is new. */
export interface KeyedItem<Item> {
  item: Item;
  key: IdempotencyKeyTable;
}

/**
 * The row of a key whose request becomes the job or run `jobId`. `accepted`: it is answered with that alone. `api`: the request
 * `jobId` is carried out by a node.
 */
export function keyRow(
  key: RequestKey,
  {
    jobId,
    nowMs,
    accepted,
    api,
  }: { jobId: string; nowMs: number; accepted: boolean; api?: { node: string; rights: string } },
): IdempotencyKeyTable {
  return {
    id: key.id,
    owner_id: key.ownerId,
    subject_id: key.subjectId,
    job_id: jobId,
    request_digest: key.requestDigest,
    answer: accepted ? encodeMark({ kind: 'accepted' }) : null,
    answer_bytes: 0,
    created_at_ms: nowMs,
    node: api?.node ?? null,
    rights: api?.rights ?? null,
  };
}

/**
 * `write` for items with keys: each is done in the same transaction in which its key is stored, and not at all when the key
 * is there already. Returns for each whether it was done.
 */
export function writeOnce<Item>(write: BatchWrite<Item, unknown>): BatchWrite<KeyedItem<Item>, boolean> {
  return {
    name: `${write.name}-once`,
    ownerOf: ({ item }) => write.ownerOf?.(item),
    bytes: ({ item }) => write.bytes?.(item) ?? 0,
    async run(tx, keyed) {
      const taken = await takeKeys(
        tx,
        keyed.map(({ key }) => key),
      );
      const fresh = keyed.filter(({ key }) => taken.has(key));
      if (fresh.length > 0)
        await write.run(
          tx,
          fresh.map(({ item }) => item),
        );
      return keyed.map(({ key }) => taken.has(key));
    },
  };
}

/** Reserves keys of requests to the API before these are carried out. Returns for each whether it was new. */
export const reserveKeys: BatchWrite<IdempotencyKeyTable, boolean> = {
  name: 'reserve-idempotency-keys',
  ownerOf: ({ owner_id }) => owner_id,
  async run(tx, rows) {
    const taken = await takeKeys(tx, rows);
    return rows.map((row) => taken.has(row));
  },
};

/** Stores keys and answers those that were new. One that has expired is new again. A key under way elsewhere is waited for. */
export async function takeKeys(
  tx: Tx,
  rows: readonly IdempotencyKeyTable[],
): Promise<Set<IdempotencyKeyTable>> {
  const firsts = new Map<string, IdempotencyKeyTable>();
  for (const row of rows) if (!firsts.has(row.id)) firsts.set(row.id, row);
  // In one order on all nodes, so that no two transactions wait for each other.
  const ordered = [...firsts.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
  const taken = new Set<IdempotencyKeyTable>();
  for (let at = 0; at < ordered.length; at += keysPerStatement) {
    const stored = await tx
      .insertInto('idempotency_keys')
      .values(ordered.slice(at, at + keysPerStatement))
      .onConflict((conflict) =>
        conflict
          .column('id')
          .doUpdateSet((set) => ({
            job_id: set.ref('excluded.job_id'),
            request_digest: set.ref('excluded.request_digest'),
            answer: set.ref('excluded.answer'),
            answer_bytes: set.ref('excluded.answer_bytes'),
            created_at_ms: set.ref('excluded.created_at_ms'),
            node: set.ref('excluded.node'),
            rights: set.ref('excluded.rights'),
          }))
          .where(
            'idempotency_keys.created_at_ms',
            '<=',
            sql<number>`excluded.created_at_ms - ${sql.lit(keptMs)}`,
          ),
      )
      .returning('id')
      .execute();
    for (const { id } of stored) {
      const row = firsts.get(id);
      if (row !== undefined) taken.add(row);
    }
  }
  return taken;
}

/** The key of a request that was taken after `afterMs`. */
export async function findKey(
  db: Db,
  id: string,
  afterMs: number,
): Promise<(Omit<IdempotencyKeyTable, 'answer'> & { mark: string | null }) | undefined> {
  return db
    .selectFrom('idempotency_keys')
    .select(['id', 'owner_id', 'subject_id', 'job_id', 'request_digest', 'answer_bytes', 'created_at_ms'])
    .select(['node', 'rights'])
    .select((select) =>
      select.case().when('answer_bytes', '=', 0).then(select.ref('answer')).else(null).end().as('mark'),
    )
    .where('id', '=', id)
    .where('created_at_ms', '>', afterMs)
    .executeTakeFirst();
}

/** The sealed reply of a key that has one. */
export async function sealedReply(db: Db, id: string): Promise<string | undefined> {
  const row = await db
    .selectFrom('idempotency_keys')
    .select('answer')
    .where('id', '=', id)
    .where('answer_bytes', '>', 0)
    .executeTakeFirst();
  return row?.answer ?? undefined;
}

/** Keeps how a request was answered; the first answer counts. */
export async function setAnswer(
  tx: Tx,
  { id, jobId }: { id: string; jobId: string },
  { answer, bytes }: { answer: string; bytes: number },
): Promise<void> {
  await tx
    .updateTable('idempotency_keys')
    .set({ answer, answer_bytes: bytes })
    .where('id', '=', id)
    .where('job_id', '=', jobId)
    .where('answer', 'is', null)
    .execute();
}

/** Gives up the key of a request of which nothing was done. */
export async function freeKey(tx: Tx, { id, jobId }: { id: string; jobId: string }): Promise<void> {
  await tx
    .deleteFrom('idempotency_keys')
    .where('id', '=', id)
    .where('job_id', '=', jobId)
    .where('answer', 'is', null)
    .execute();
}

/** Records that no node works on the request, and that its outcome is unknown. */
export async function abandonKey(tx: Tx, { id, jobId }: { id: string; jobId: string }): Promise<void> {
  await tx
    .updateTable('idempotency_keys')
    .set({ node: '' })
    .where('id', '=', id)
    .where('job_id', '=', jobId)
    .where('answer', 'is', null)
    .execute();
}

/** The replies kept for an owner, and what they take. */
export async function replyUsage(db: Db, ownerId: string): Promise<{ jobs: number; bytes: number }> {
  const row = await db
    .selectFrom('idempotency_keys')
    .select((select) => [
      select.fn.countAll().as('jobs'),
      select.fn.coalesce(select.fn.sum('answer_bytes'), sql.lit(0)).as('bytes'),
    ])
    .where('owner_id', '=', ownerId)
    .where('answer_bytes', '>', sql.lit(0))
    .executeTakeFirst();
  return { jobs: Number(row?.jobs ?? 0), bytes: Number(row?.bytes ?? 0) };
}

/** Removes keys that were stored at `beforeMs` or earlier, at most `limit`. Returns how many. */
export async function removeExpiredKeys(tx: Tx, beforeMs: number, limit: number): Promise<number> {
  const old = tx
    .selectFrom('idempotency_keys')
    .select('id')
    .where('created_at_ms', '<=', beforeMs)
    .limit(limit);
  const result = await tx.deleteFrom('idempotency_keys').where('id', 'in', old).executeTakeFirst();
  return Number(result.numDeletedRows);
}

/** Owners with more than `keep` keys. */
export async function ownersBeyond(db: Db, keep: number): Promise<{ ownerId: string; keys: number }[]> {
  const rows = await db
    .selectFrom('idempotency_keys')
    .select((select) => ['owner_id', select.fn.countAll().as('keys')])
    .groupBy('owner_id')
    .having((having) => having(having.fn.countAll(), '>', keep))
    .execute();
  return rows.map(({ owner_id, keys }) => ({ ownerId: owner_id, keys: Number(keys) }));
}

/** Removes the oldest keys of an owner, at most `limit`. */
export async function removeOldestKeys(tx: Tx, ownerId: string, limit: number): Promise<void> {
  const oldest = tx
    .selectFrom('idempotency_keys')
    .select('id')
    .where('owner_id', '=', ownerId)
    .orderBy('created_at_ms')
    .limit(limit);
  await tx.deleteFrom('idempotency_keys').where('id', 'in', oldest).execute();
}

/** Removes keys of a source or workflow that is removed, at most `limit`. True when none is left. */
export async function removeKeysOf(tx: Tx, subjectId: string, limit: number): Promise<boolean> {
  const some = tx
    .selectFrom('idempotency_keys')
    .select('id')
    .where('subject_id', '=', subjectId)
    .limit(limit);
  const result = await tx.deleteFrom('idempotency_keys').where('id', 'in', some).executeTakeFirst();
  return Number(result.numDeletedRows) < limit;
}

/** True when a job is neither waiting nor running. */
export async function isGone(db: Db, jobId: string): Promise<boolean> {
  const row = await db.selectFrom('jobs').select('id').where('id', '=', jobId).executeTakeFirst();
  return row === undefined;
}
