import { sql } from 'kysely';
import type { Db } from '#storage/store.ts';

export const mbBytes = 1024 * 1024;

/**
 * What an owner keeps: the texts of its events and of its runs with their steps (trigger event, exports, input and logs; a
 * character counts as a byte), and the bytes of its files. Reads everything that is counted, so it is not for hot paths.
 */
export async function storedBytesOf(db: Db, ownerId: string): Promise<number> {
  const { rows } = await sql<{ bytes: number | string | null }>`
    with owned (id) as (
      select id from sources where owner_id = ${ownerId} union all select id from workflows where owner_id = ${ownerId})
    select coalesce((select sum(length(event)) from events where emitter_id in (select id from owned)), 0)
      + coalesce((select sum(length(event)) from runs where workflow_id in (select id from owned)), 0)
      + coalesce((select sum(length(exports) + length(coalesce(input, '')) + length(logs)) from run_steps
          where run_id in (select id from runs where workflow_id in (select id from owned))), 0)
      + coalesce((select sum(size) from files where owner_id = ${ownerId}), 0) as bytes`.execute(db);
  return Number(rows[0]?.bytes ?? 0);
}

/** What is counted of an owner: its sources, its active workflows, and the workspaces that a user has created. */
export type CountedName = 'sources' | 'workflows' | 'workspaces';

export async function countOwned(db: Db, name: CountedName, ownerId: string): Promise<number> {
  const count = sql<number>`count(*)`.as('count');
  const queries = {
    sources: () => db.selectFrom('sources').where('owner_id', '=', ownerId).select(count),
    workflows: () =>
      db.selectFrom('workflows').where('owner_id', '=', ownerId).where('state', '=', 'active').select(count),
    workspaces: () => db.selectFrom('workspaces').where('created_by', '=', ownerId).select(count),
  };
  return Number((await queries[name]().executeTakeFirstOrThrow()).count);
}
