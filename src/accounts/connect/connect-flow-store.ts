import type { Db, Tx } from '#storage/store.ts';
import type { ConnectFlowTable } from '#storage/tables/account-tables.ts';

export type ConnectFlow = ConnectFlowTable;

/** How many of those that are over go with each new one: more than come. */
const expiredAtOnce = 20;

const columns = [
  'id',
  'owner_id',
  'user_id',
  'key_id',
  'app_slug',
  'oauth_client_id',
  'account_id',
  'name',
  'redirect_url',
  'link_hash',
  'browser_hash',
  'state_hash',
  'sealed',
  'created_at_ms',
  'expires_at_ms',
  'used_at_ms',
] as const;

/** Adds a flow, and removes some that are over. */
export async function insertFlow(tx: Tx, flow: ConnectFlow): Promise<void> {
  const over = await tx
    .selectFrom('connect_flows')
    .select('id')
    .where('expires_at_ms', '<', flow.created_at_ms)
    .orderBy('expires_at_ms')
    .limit(expiredAtOnce)
    .execute();
  const ids = over.map(({ id }) => id);
  if (ids.length > 0) await tx.deleteFrom('connect_flows').where('id', 'in', ids).execute();
  await tx.insertInto('connect_flows').values(flow).execute();
}

/** The number of an owner's links that may still be used. */
export async function countOpenFlows(db: Db, ownerId: string, nowMs: number): Promise<number> {
  const { count } = await db
    .selectFrom('connect_flows')
    .select((select) => select.fn.countAll().as('count'))
    .where('expires_at_ms', '>', nowMs)
    .where('owner_id', '=', ownerId)
    .where('used_at_ms', 'is', null)
    .executeTakeFirstOrThrow();
  return Number(count);
}

export async function findFlowByLink(db: Db, linkHash: string): Promise<ConnectFlow | undefined> {
  return db.selectFrom('connect_flows').select(columns).where('link_hash', '=', linkHash).executeTakeFirst();
}

export async function findFlowByState(db: Db, stateHash: string): Promise<ConnectFlow | undefined> {
  return db
    .selectFrom('connect_flows')
    .select(columns)
    .where('state_hash', '=', stateHash)
    .executeTakeFirst();
}

/** The first browser gets the flow. True: it is this one. */
export async function bindFlow(tx: Tx, id: string, browserHash: string): Promise<boolean> {
  const { numUpdatedRows } = await tx
    .updateTable('connect_flows')
    .set({ browser_hash: browserHash })
    .where('id', '=', id)
    .where('browser_hash', 'is', null)
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}

/** While it is under way. True: it was written. */
export async function changeFlow(
  tx: Tx,
  id: string,
  changes: Partial<Pick<ConnectFlow, 'sealed' | 'state_hash'>>,
): Promise<boolean> {
  const { numUpdatedRows } = await tx
    .updateTable('connect_flows')
    .set(changes)
    .where('id', '=', id)
    .where('used_at_ms', 'is', null)
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}

/**
 * Ends the flow, once: of two that come with the same answer of a provider only one gets true. What was sealed for it
 * is gone then. `state_hash` is the one that it was found by: another tab may have started over.
 */
export async function takeFlow(
  tx: Tx,
  flow: Pick<ConnectFlow, 'id' | 'state_hash'>,
  nowMs: number,
): Promise<boolean> {
  const { numUpdatedRows } = await tx
    .updateTable('connect_flows')
    .set({ used_at_ms: nowMs, sealed: '' })
    .where('id', '=', flow.id)
    .where('used_at_ms', 'is', null)
    .where('state_hash', flow.state_hash === null ? 'is' : '=', flow.state_hash)
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}

/** Ends the links for accounts of an owner, and those that a user has made for other owners. */
export async function deleteFlowsOf(tx: Tx, ownerId: string): Promise<void> {
  await tx
    .deleteFrom('connect_flows')
    .where((where) => where.or([where('owner_id', '=', ownerId), where('user_id', '=', ownerId)]))
    .execute();
}
