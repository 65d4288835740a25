import { type SqlBool, sql } from 'kysely';
import type { Db, Store, Tx } from '#storage/store.ts';
import type { ComponentUseTable } from '#storage/tables/component-tables.ts';

/** A use is recorded again after this long. The shortest time that a component stays after its last use is far longer. */
const recordedForMs = 30 * 60_000;

/**
 * Records that a component is about to be used, so that it is not removed before what uses it is stored. False: it has
 * been removed. `saves`: it stays for good.
 */
export async function recordUse(
  store: Pick<Store, 'read' | 'transaction'>,
  component: { id: string; owner_id: string },
  { nowMs, saves = false }: { nowMs: number; saves?: boolean },
): Promise<boolean> {
  const known = await store.read
    .selectFrom('component_uses')
    .select(['saved', 'used_at_ms'])
    .where('component_id', '=', component.id)
    .executeTakeFirst();
  const isRecent = known !== undefined && known.used_at_ms > nowMs - recordedForMs;
  if (isRecent && (known.saved === 1 || !saves)) return true;
  return store.transaction(async (tx) => {
    const updated = await tx
      .updateTable('component_uses')
      .set({ used_at_ms: nowMs, ...(saves ? { saved: 1 } : {}) })
      .where('component_id', '=', component.id)
      .returning('component_id')
      .execute();
    if (updated.length > 0) return true;
    const row = await tx
      .selectFrom('components')
      .select('id')
      .where('id', '=', component.id)
      .executeTakeFirst();
    if (row === undefined) return false;
    // A node of an older version stored it.
    await insertUse(tx, { ...component, nowMs, saves });
    return true;
  });
}

export async function insertUse(
  tx: Tx,
  { id, owner_id, nowMs, saves = false }: { id: string; owner_id: string; nowMs: number; saves?: boolean },
): Promise<void> {
  const row: ComponentUseTable = {
    ...{ component_id: id, owner_id, saved: saves ? 1 : 0, used_at_ms: nowMs },
  };
  await tx
    .insertInto('component_uses')
    .values(row)
    .onConflict((conflict) => conflict.column('component_id').doNothing())
    .execute();
}

/**
 * What a row of `component_uses` is kept for whatever its age: a source, a deployment of a workflow, a package of the
 * registry; and of components of the instance, which templates name as `key@version`, the newest of each version.
 */
function isInUse(instanceOwnerId: string) {
  return sql<SqlBool>`(
    exists (select 1 from sources where sources.component_id = component_uses.component_id)
    or exists (select 1 from deployment_components
      where deployment_components.component_id = component_uses.component_id)
    or exists (select 1 from registry_components
      where registry_components.component_id = component_uses.component_id)
    or (component_uses.owner_id = ${instanceOwnerId} and not exists (
      select 1 from components as own
      join components as newer on newer.owner_id = own.owner_id and newer.component_key = own.component_key
        and newer.version = own.version and newer.created_at_ms > own.created_at_ms
      where own.id = component_uses.component_id)))`;
}

/** Records the use of components that are in use and were last recorded before `beforeMs`, at most `limit`. */
export async function recordUsesUnderWay(
  tx: Tx,
  {
    beforeMs,
    nowMs,
    limit,
    instanceOwnerId,
  }: { beforeMs: number; nowMs: number; limit: number; instanceOwnerId: string },
): Promise<number> {
  const updated = await tx
    .updateTable('component_uses')
    .set({ used_at_ms: nowMs })
    .where('component_id', 'in', (from) =>
      from
        .selectFrom('component_uses')
        .select('component_id')
        .where('saved', '=', 0)
        .where('used_at_ms', '<', beforeMs)
        .where(isInUse(instanceOwnerId))
        .orderBy('used_at_ms')
        .limit(limit),
    )
    .returning('component_id')
    .execute();
  return updated.length;
}

export interface UnusedComponents {
  /** Last used before then. */
  beforeMs: number;
  /** Restricts the result to those of this owner beyond its `keep` last used ones. */
  beyond?: { ownerId: string; keep: number };
  limit: number;
  instanceOwnerId: string;
}

/** Removes components that nothing uses, with the bundles that only they had. Returns their number. */
export async function removeUnused(tx: Tx, unused: UnusedComponents): Promise<number> {
  const { beforeMs, beyond, limit, instanceOwnerId } = unused;
  const removed = await tx
    .deleteFrom('component_uses')
    .where('component_id', 'in', (from) => {
      const query = from
        .selectFrom('component_uses')
        .select('component_id')
        .where('saved', '=', 0)
        .where('used_at_ms', '<', beforeMs)
        .where(sql<SqlBool>`not ${isInUse(instanceOwnerId)}`)
        .limit(limit);
      if (beyond === undefined) return query.orderBy('used_at_ms');
      const ofOwner = query.where('owner_id', '=', beyond.ownerId);
      return ofOwner.orderBy('used_at_ms', 'desc').orderBy('component_id').offset(beyond.keep);
    })
    // Looked at again when another transaction has just recorded a use.
    .where('used_at_ms', '<', beforeMs)
    .where('saved', '=', 0)
    .returning('component_id')
    .execute();
  if (removed.length === 0) return 0;
  const ids = removed.map((row) => row.component_id);
  const components = await tx
    .deleteFrom('components')
    .where('id', 'in', ids)
    .returning(['owner_id', 'bundle_hash'])
    .execute();
  for (const { owner_id, bundle_hash } of components) {
    await tx
      .deleteFrom('bundles')
      .where('owner_id', '=', owner_id)
      .where('hash', '=', bundle_hash)
      // A component that another transaction is about to store renews its bundle.
      .where('created_at_ms', '<', beforeMs)
      .where((where) =>
        where.not(
          where.exists(
            where
              .selectFrom('components')
              .select('components.id')
              .whereRef('components.owner_id', '=', 'bundles.owner_id')
              .whereRef('components.bundle_hash', '=', 'bundles.hash'),
          ),
        ),
      )
      .execute();
  }
  return removed.length;
}

/** Owners with more than `keep` components that they have not saved. */
export async function ownersOfMany(db: Db, keep: number): Promise<string[]> {
  const rows = await db
    .selectFrom('component_uses')
    .select('owner_id')
    .where('saved', '=', 0)
    .groupBy('owner_id')
    .having((having) => having(having.fn.countAll(), '>', keep))
    .execute();
  return rows.map((row) => row.owner_id);
}
