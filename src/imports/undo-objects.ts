import { unsubscribeById } from '#delivery/subscriptions/manage-subscriptions.ts';
import { findSubscription, hasSubscriptions } from '#delivery/subscriptions/subscription-store.ts';
import { removeWebhook, type WebhookOptions } from '#delivery/webhooks/manage-webhooks.ts';
import { findWebhook } from '#delivery/webhooks/webhook-store.ts';
import type { Caller } from '#identity/permissions.ts';
import { CallerError } from '#lib/errors.ts';
import type { SourceDeployer } from '#sources/deploy-source.ts';
import { findSource } from '#sources/source-store.ts';
import type { Db, Store, Tx } from '#storage/store.ts';
import type { ImportedObjectTable } from '#storage/tables/import-tables.ts';
import { deleteImported, findImported } from './import-store.ts';
import { objectMarkOf } from './object-place.ts';

/** `gone`: it was removed before, or there is nothing to remove. */
export type Outcome = 'removed' | 'gone' | { reason: string };

/** Ends the transaction that would remove an object. */
export class Stays extends Error {}

interface UndoObjectOptions {
  store: Store;
  sources: Pick<SourceDeployer, 'remove'>;
  webhooks: WebhookOptions;
}

/** A subscription cannot be changed, so it is what the import made. */
export async function undoSubscription(
  { store, webhooks }: UndoObjectOptions,
  object: ImportedObjectTable,
  by: Pick<Caller, 'userId' | 'keyId' | 'workspaceId'>,
): Promise<Outcome> {
  const isHere = (await findSubscription(store.read, object.new_id)) !== undefined;
  if (isHere) {
    const refused = await reasonOf(() => unsubscribeById(webhooks, { ...by, isAdmin: false }, object.new_id));
    if (refused !== undefined && refused !== 'gone') return refused;
  }
  await store.transaction((tx) => deleteImported(tx, object));
  return isHere ? 'removed' : 'gone';
}

export async function undoSource(
  { store, sources }: UndoObjectOptions,
  object: ImportedObjectTable,
): Promise<Outcome> {
  const source = await findSource(store.read, object.new_id);
  if (source === undefined) return forget(store, object);
  const isActive = source.state === 'active';
  // Before its hook runs, and once more in the transaction.
  const reason = await reasonToKeep(store.read, object, { ...source, isActive });
  if (reason !== undefined) return { reason };
  const refused = await reasonOf(() =>
    sources.remove(source.id, {
      ignoreHookErrors: true,
      alongside: (tx, { updated_at_ms }) => forgetUnchanged(tx, object, { updated_at_ms, isActive }),
    }),
  );
  return refused ?? 'removed';
}

export async function undoWebhook(
  { store, webhooks }: UndoObjectOptions,
  object: ImportedObjectTable,
): Promise<Outcome> {
  if ((await findWebhook(store.read, object.new_id)) === undefined) return forget(store, object);
  const refused = await reasonOf(() =>
    removeWebhook(webhooks, object.new_id, (tx, { updated_at_ms, state }) =>
      forgetUnchanged(tx, object, { updated_at_ms, isActive: state === 'active' }),
    ),
  );
  return refused ?? 'removed';
}

async function forget(store: Store, object: ImportedObjectTable): Promise<Outcome> {
  await store.transaction((tx) => deleteImported(tx, object));
  return 'gone';
}

interface Present {
  updated_at_ms: number;
  isActive: boolean;
}

async function forgetUnchanged(tx: Tx, object: ImportedObjectTable, present: Present): Promise<void> {
  const current = await findImported(tx, object, object.kind, object.old_id);
  const since =
    current?.mark === object.mark
      ? await reasonToKeep(tx, object, present)
      : 'a later import changed it since';
  if (since !== undefined) throw new Stays(since);
  await deleteImported(tx, object);
}

/** Why a source or a webhook is no longer what the import made. */
async function reasonToKeep(
  db: Db,
  object: ImportedObjectTable,
  { updated_at_ms, isActive }: Present,
): Promise<string | undefined> {
  const mark = objectMarkOf(object);
  if (mark.changed_by !== undefined) return `the import ${mark.changed_by} changed it since`;
  if (isActive !== mark.active) return `it was ${isActive ? 'activated' : 'deactivated'} since`;
  if (Number(updated_at_ms) !== mark.updated_at_ms) return 'it was changed here since';
  return (await hasSubscriptions(db, object.new_id)) ? 'it has subscriptions that stay' : undefined;
}

/** Undefined: it was done. */
async function reasonOf(work: () => Promise<void>): Promise<Outcome | undefined> {
  try {
    await work();
    return undefined;
  } catch (error) {
    if (error instanceof Stays) return { reason: error.message };
    if (!(error instanceof CallerError)) throw error;
    return error.code === 'not_found' ? 'gone' : { reason: error.message };
  }
}
