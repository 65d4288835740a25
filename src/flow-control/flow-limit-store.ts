import { sql } from 'kysely';
import { chunks } from '#lib/chunks.ts';
import type { Db } from '#storage/store.ts';
import type { FlowRunState } from '#storage/tables/flow-tables.ts';

/** As literals, so that partial indexes are used (see jobs/job-store.ts). */
const started = sql.lit<FlowRunState>('started');

/** Runs that hold a place, by concurrency key. */
export async function placesHeld(
  db: Db,
  subjectId: string,
  keys: readonly string[],
): Promise<Map<string, number>> {
  const held = new Map<string, number>();
  for (const part of chunks(keys)) {
    const rows = await db
      .selectFrom('flow_runs')
      .select('concurrency_key')
      .select(({ fn }) => fn.countAll<number>().as('count'))
      .where('subject_id', '=', subjectId)
      .where('state', '=', started)
      .where('concurrency_key', 'in', part)
      .groupBy('concurrency_key')
      .execute();
    for (const { concurrency_key, count } of rows) held.set(concurrency_key, Number(count));
  }
  return held;
}

/** All runs that hold a place. */
export async function allPlacesHeld(db: Db, subjectId: string): Promise<number> {
  const row = await db
    .selectFrom('flow_runs')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('subject_id', '=', subjectId)
    .where('state', '=', started)
    .executeTakeFirst();
  return Number(row?.count ?? 0);
}

/** How many runs of each throttle key have begun after `sinceMs`. */
export async function startedSince(
  db: Db,
  subjectId: string,
  keys: readonly string[],
  sinceMs: number,
): Promise<Map<string, number>> {
  const begun = new Map<string, number>();
  for (const part of chunks(keys)) {
    const rows = await db
      .selectFrom('flow_runs')
      .select('throttle_key')
      .select(({ fn }) => fn.countAll<number>().as('count'))
      .where('subject_id', '=', subjectId)
      .where('throttle_key', 'in', part)
      .where('started_ms', '>', sinceMs)
      .groupBy('throttle_key')
      .execute();
    for (const { throttle_key, count } of rows) begun.set(throttle_key, Number(count));
  }
  return begun;
}

/** When the `limit`th run before now began: with it out of the period, one more may begin. */
export async function nthStartMs(
  db: Db,
  of: { subjectId: string; throttleKey: string } | { rateKey: string },
  limit: number,
): Promise<number | undefined> {
  const query = db.selectFrom('flow_runs').select('started_ms').where('started_ms', 'is not', null);
  const row = await ('rateKey' in of
    ? query.where('rate_key', '=', of.rateKey)
    : query.where('subject_id', '=', of.subjectId).where('throttle_key', '=', of.throttleKey)
  )
    .orderBy('started_ms', 'desc')
    .offset(limit - 1)
    .limit(1)
    .executeTakeFirst();
  return row?.started_ms ?? undefined;
}

/** What all workflows and sources allow that share an account. */
export async function rateLimitsOf(db: Db, rateKey: string): Promise<{ limit: number; seconds: number }[]> {
  const rows = await db
    .selectFrom('flow_queues')
    .select(['rate_limit', 'rate_seconds'])
    .distinct()
    .where('rate_key', '=', rateKey)
    .execute();
  return rows.flatMap(({ rate_limit: limit, rate_seconds: seconds }) =>
    limit === null || seconds === null ? [] : [{ limit, seconds }],
  );
}

/** Other workflows and sources that wait for the same account, by when they were served last. */
export async function rateContenders(
  db: Db,
  rateKey: string,
  subjectId: string,
): Promise<{ subjectId: string; servedMs: number }[]> {
  const rows = await db
    .selectFrom('flow_groups')
    .select('subject_id')
    .select(({ fn }) => fn.max('served_ms').as('served_ms'))
    .where('rate_key', '=', rateKey)
    .where('blocked_by', '=', sql.lit('rate_limit'))
    .where('subject_id', '!=', subjectId)
    .groupBy('subject_id')
    .execute();
  return rows.map((row) => ({ subjectId: row.subject_id, servedMs: Number(row.served_ms) }));
}

export async function startedOnAccount(db: Db, rateKey: string, sinceMs: number): Promise<number> {
  const row = await db
    .selectFrom('flow_runs')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('rate_key', '=', rateKey)
    .where('started_ms', '>', sinceMs)
    .executeTakeFirst();
  return Number(row?.count ?? 0);
}

/** When a run of the subject last used the account; 0: never. */
export async function lastStartOnAccount(db: Db, rateKey: string, subjectId: string): Promise<number> {
  const row = await db
    .selectFrom('flow_runs')
    .select(({ fn }) => fn.max('started_ms').as('started_ms'))
    .where('rate_key', '=', rateKey)
    .where('subject_id', '=', subjectId)
    .where('started_ms', 'is not', null)
    .executeTakeFirst();
  return Number(row?.started_ms ?? 0);
}
