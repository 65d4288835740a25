import type { HealthState } from '#health/health.ts';
import { hasHealth } from '#health/health-store.ts';
import type { BatchWrite } from '#storage/group-commit.ts';
import { type Page, type PageRequest, pageOf } from '#storage/page.ts';
import type { Db, Store, Tx } from '#storage/store.ts';
import type { WebhookDisabledReason, WebhookState, WebhookTable } from '#storage/tables/delivery-tables.ts';

const webhookColumns = [
  'id',
  'owner_id',
  'user_id',
  'name',
  'description',
  'url',
  'secret',
  'old_secret',
  'old_secret_until_ms',
  'state',
  'disabled_reason',
  'disabled_at_ms',
  'failing_since_ms',
  'removed_records',
  'created_at_ms',
  'updated_at_ms',
] as const;

export async function insertWebhook(tx: Tx, row: WebhookTable): Promise<void> {
  await tx.insertInto('webhooks').values(row).execute();
}

export async function findWebhook(db: Db, id: string): Promise<WebhookTable | undefined> {
  return db.selectFrom('webhooks').select(webhookColumns).where('id', '=', id).executeTakeFirst();
}

/** The same, locked until the end of the transaction. */
export async function lockWebhook(store: Store, tx: Tx, id: string): Promise<WebhookTable | undefined> {
  const query = tx.selectFrom('webhooks').select(webhookColumns).where('id', '=', id);
  return store.lockRows(query).executeTakeFirst();
}

/** How many webhooks an owner has, counting no further than `limit`. */
export async function countWebhooks(db: Db, ownerId: string, limit: number): Promise<number> {
  const row = await db
    .selectFrom((from) =>
      from.selectFrom('webhooks').select('id').where('owner_id', '=', ownerId).limit(limit).as('owned'),
    )
    .select((select) => select.fn.countAll<number>().as('count'))
    .executeTakeFirst();
  return Number(row?.count ?? 0);
}

/** Webhooks of an owner, newest first; with `health`, those in that state. */
export async function pageOfWebhooks(
  db: Db,
  ownerId: string,
  page: PageRequest,
  health?: { state: HealthState; nowMs: number },
): Promise<Page<WebhookTable>> {
  const query = db.selectFrom('webhooks').select(webhookColumns).where('owner_id', '=', ownerId);
  if (health === undefined) return pageOf(query, page);
  return pageOf(query.where(hasHealth('webhook', health.state, health.nowMs)), page);
}

export async function changeWebhook(
  tx: Tx,
  id: string,
  changes: Partial<Omit<WebhookTable, 'id' | 'owner_id' | 'user_id' | 'created_at_ms'>>,
): Promise<void> {
  await tx.updateTable('webhooks').set(changes).where('id', '=', id).execute();
}

/** True when it was there. */
export async function deleteWebhook(tx: Tx, id: string): Promise<boolean> {
  const { numDeletedRows } = await tx.deleteFrom('webhooks').where('id', '=', id).executeTakeFirst();
  return Number(numDeletedRows) === 1;
}

interface WebhookNote {
  id: string;
  ownerId: string;
  sinceMs: number | null;
}

/** `setFailingSince` for many at once: a receiver that fails every other time does not cost a commit each time. */
export const noteFailingSince: BatchWrite<WebhookNote, boolean> = {
  name: 'note-webhook-health',
  ownerOf: ({ ownerId }) => ownerId,
  async run(tx, notes) {
    // Always in one order, since rows are locked.
    const byWebhook = [...Map.groupBy(notes, ({ id }) => id)].sort(([a], [b]) => (a < b ? -1 : 1));
    for (const [id, ofOne] of byWebhook) {
      // A success among them ends what failed before, also when it failed again since.
      if (ofOne.some(({ sinceMs }) => sinceMs === null)) await setFailingSince(tx, id, null);
      const sinceMs = ofOne.at(-1)?.sinceMs ?? null;
      if (sinceMs !== null) await setFailingSince(tx, id, sinceMs);
    }
    return notes.map(() => true);
  },
};

/** Records when a webhook began to fail (`sinceMs`), or that it no longer fails (null). */
export async function setFailingSince(tx: Tx, id: string, sinceMs: number | null): Promise<void> {
  let update = tx.updateTable('webhooks').set({ failing_since_ms: sinceMs }).where('id', '=', id);
  // Another node may have seen an earlier failure.
  if (sinceMs !== null) update = update.where('failing_since_ms', 'is', null);
  await update.execute();
}

/**
 * Disables an active webhook; false when it was none. `url` and `failingSinceMs` bound it to the row as it was read: a new
 * URL, or a success that another node has noted meanwhile, keeps it active.
 */
export async function disableWebhook(
  tx: Tx,
  id: string,
  disabled: { url: string; reason: WebhookDisabledReason; atMs: number; failingSinceMs?: number },
): Promise<boolean> {
  let update = tx
    .updateTable('webhooks')
    .set({
      state: 'disabled',
      disabled_reason: disabled.reason,
      disabled_at_ms: disabled.atMs,
      updated_at_ms: disabled.atMs,
    })
    .where('id', '=', id)
    .where('url', '=', disabled.url)
    .where('state', '=', 'active');
  if (disabled.failingSinceMs !== undefined)
    update = update.where('failing_since_ms', '=', disabled.failingSinceMs);
  const { numUpdatedRows } = await update.executeTakeFirst();
  return Number(numUpdatedRows) === 1;
}

/** Counts the active webhooks whose deliveries fail, and those that are disabled, over all owners. */
export async function troubledWebhooks(db: Db): Promise<Record<'failing' | 'disabled', number>> {
  const rows = await db
    .selectFrom('webhooks')
    .select('state')
    .select((select) => select.fn.countAll<number>().as('webhooks'))
    .where((where) =>
      where.or([
        where('state', '=', 'disabled'),
        where.and([where('state', '=', 'active'), where('failing_since_ms', 'is not', null)]),
      ]),
    )
    .groupBy('state')
    .execute();
  const countOf = (state: WebhookState) => Number(rows.find((row) => row.state === state)?.webhooks ?? 0);
  return { failing: countOf('active'), disabled: countOf('disabled') };
}

export async function addRemovedRecords(tx: Tx, id: string, count: number): Promise<void> {
  await tx
    .updateTable('webhooks')
    .set((set) => ({ removed_records: set('removed_records', '+', count) }))
    .where('id', '=', id)
    .execute();
}
