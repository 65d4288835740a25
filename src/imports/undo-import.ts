import { hasSubscriptions } from '#delivery/subscriptions/subscription-store.ts';
import type { WebhookOptions } from '#delivery/webhooks/manage-webhooks.ts';
import { findWebhook } from '#delivery/webhooks/webhook-store.ts';
import type { Caller } from '#identity/permissions.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { SourceDeployer } from '#sources/deploy-source.ts';
import { findSource } from '#sources/source-store.ts';
import type { Db, Store } from '#storage/store.ts';
import type { ImportedObjectTable } from '#storage/tables/import-tables.ts';
import type { WorkflowTable } from '#storage/tables/workflow-tables.ts';
import { findDataStore } from '#user-data/data-stores/data-store-store.ts';
import { removeDataStore } from '#user-data/data-stores/manage-data-stores.ts';
import { findVariable } from '#user-data/variables/variable-store.ts';
import type { Variables } from '#user-data/variables/variables.ts';
import type { WorkflowDeployer } from '#workflows/definitions/deploy-workflow.ts';
import { triggersOf } from '#workflows/definitions/trigger-store.ts';
import { findDeployment, findWorkflow } from '#workflows/definitions/workflow-store.ts';
import { markOf } from './decide-import.ts';
import { markOfVariable } from './import-objects.ts';
import {
  changeImport,
  deleteImported,
  findImported,
  type ImportRow,
  type ImportScope,
  itemsOf,
  listImported,
  madeByImport,
} from './import-store.ts';
import {
  type ImportItem,
  type ImportSummary,
  isObjectItem,
  type KeptObject,
  type ObjectItem,
} from './report.ts';
import { type Outcome, Stays, undoSource, undoSubscription, undoWebhook } from './undo-objects.ts';

export interface UndoOptions {
  store: Store;
  clock: Clock;
  logger: Logger;
  deployer: Pick<WorkflowDeployer, 'remove'>;
  sources: Pick<SourceDeployer, 'remove'>;
  webhooks: WebhookOptions;
  variables: Pick<Variables, 'remove'>;
  /** Called after variables of an owner were changed. */
  onVariableChange: (ownerId: string) => void;
}

export interface UndoneObjects {
  removed: number;
  kept: KeptObject[];
}

/** The caller of an undo. */
export type UndoneBy = Pick<Caller, 'userId' | 'keyId' | 'workspaceId'>;

const isUsed = 'a workflow that stays uses it';

/** Removes what an import made, unless it was changed since, by hand or by a later import, or is used. One caller at a time (undo-once.ts). */
export async function undoImport(options: UndoOptions, row: ImportRow, by: UndoneBy): Promise<UndoneObjects> {
  const { store, clock, logger } = options;
  const made = await madeByImport(store.read, row.id);
  const kept: KeptObject[] = [];
  let removed = 0;
  const undoAll = async (
    kind: ImportedObjectTable['kind'],
    undoOne: (object: ImportedObjectTable) => Promise<Outcome>,
  ) => {
    for (const object of made.filter((one) => one.kind === kind)) {
      const outcome = await undoOne(object);
      if (outcome === 'removed') removed += 1;
      else if (outcome !== 'gone') kept.push({ kind, id: object.new_id, ...outcome });
    }
  };
  // Subscriptions connect the rest. Then workflows: those that stay keep what they use.
  await undoAll('subscription', (object) => undoSubscription(options, object, by));
  await undoAll('workflow', (object) => undoWorkflow(options, object));
  kept.push(...(await onlyChanged(store.read, row.id, made)));
  await undoAll('source', (object) => undoSource(options, object));
  await undoAll('webhook', (object) => undoWebhook(options, object));
  if (made.some(({ kind }) => kind === 'data_store' || kind === 'variable')) {
    const used = await definitionsOf(store.read, row);
    const uses = (text: string) => used.some((definition) => definition.includes(text));
    await undoAll('data_store', async (object) =>
      uses(object.new_id) ? { reason: isUsed } : undoDataStore(options, object),
    );
    await undoAll('variable', (object) => undoVariable(options, object, { by, isUsed: uses(object.old_id) }));
  }
  await undoAll('account', async (object) => {
    await store.transaction((tx) => deleteImported(tx, object));
    return 'gone';
  });
  const summary: ImportSummary = { ...(JSON.parse(row.summary) as ImportSummary), kept, removed };
  await store.transaction((tx) =>
    changeImport(tx, row.id, ['asking', 'done', 'failed', 'undone'], {
      ...{ state: 'undone', summary: JSON.stringify(summary), sealed: null, updated_at_ms: clock.now() },
    }),
  );
  logger.info({ import: row.id, owner: row.owner_id, removed, kept: kept.length }, 'import.undone');
  return { removed, kept };
}

async function undoWorkflow(
  { store, deployer }: Pick<UndoOptions, 'store' | 'deployer'>,
  object: ImportedObjectTable,
): Promise<Outcome> {
  const workflow = await findWorkflow(store.read, object.new_id);
  if (workflow === undefined) {
    await store.transaction((tx) => deleteImported(tx, object));
    return 'gone';
  }
  const reason = await reasonToKeep(store.read, workflow, object);
  if (reason !== undefined) return { reason };
  try {
    await deployer.remove(workflow.id, {
      ignoreHookErrors: true,
      alongside: async (tx, locked) => {
        const current = await findImported(tx, object, 'workflow', object.old_id);
        // It is looked at again: a request may have changed it a moment ago.
        const since =
          current?.mark === object.mark
            ? await reasonToKeep(tx, locked, object)
            : 'a later import changed it since';
        if (since !== undefined) throw new Stays(since);
        await deleteImported(tx, object);
      },
    });
    return 'removed';
  } catch (error) {
    if (error instanceof Stays) return { reason: error.message };
    if (error instanceof CallerError && error.code === 'not_found') return 'gone';
    throw error;
  }
}

/** Why a workflow is no longer what the import made. */
async function reasonToKeep(
  db: Db,
  workflow: WorkflowTable,
  object: ImportedObjectTable,
): Promise<string | undefined> {
  const mark = markOf(object);
  if (mark.changed_by !== undefined) return `the import ${mark.changed_by} changed it since`;
  if (workflow.deployment_id !== mark.deployment_id) return 'it was deployed again since';
  if (workflow.name !== mark.name) return 'it was renamed since';
  const isActive = workflow.state === 'active';
  if (isActive !== mark.active) return `it was ${isActive ? 'activated' : 'deactivated'} since`;
  // Such as a name that was changed and changed back.
  if (Number(workflow.updated_at_ms) !== mark.updated_at_ms) return 'it was changed here since';
  const besides = (await triggersOf(db, workflow.id)).map(({ id }) => id);
  return (await hasSubscriptions(db, workflow.id, { besides })) ? 'it was subscribed since' : undefined;
}

/** Workflows, sources and webhooks that an earlier import made and this one changed. */
async function onlyChanged(
  db: Db,
  importId: string,
  made: readonly ImportedObjectTable[],
): Promise<KeptObject[]> {
  const mine = new Set(made.map(({ new_id }) => new_id));
  const kept: KeptObject[] = [];
  for (const { item } of await itemsOf(db, importId)) {
    const one = JSON.parse(item) as ImportItem | ObjectItem;
    const { kind, id } = isObjectItem(one) ? one : { kind: 'workflow' as const, id: one.workflow_id };
    if (one.outcome !== 'updated' || id === null || mine.has(id) || !(await isHere(db, id))) continue;
    kept.push({
      kind,
      id,
      reason: 'this import only changed it: what it was before is not brought back',
    });
  }
  return kept;
}

async function isHere(db: Db, id: string): Promise<boolean> {
  const find = id.startsWith('dc_') ? findSource : id.startsWith('wh_') ? findWebhook : findWorkflow;
  return (await find(db, id)) !== undefined;
}

/** The definitions of the workflows that imports of this scope made and that are still here. */
async function definitionsOf(db: Db, { owner_id, project_id }: ImportScope): Promise<string[]> {
  const definitions: string[] = [];
  for (const { new_id } of await listImported(db, { owner_id, project_id }, 'workflow')) {
    const workflow = await findWorkflow(db, new_id);
    const deployment = workflow === undefined ? undefined : await findDeployment(db, workflow.deployment_id);
    if (deployment !== undefined) definitions.push(deployment.definition);
  }
  return definitions;
}

async function undoDataStore(
  { store, clock }: Pick<UndoOptions, 'store' | 'clock'>,
  object: ImportedObjectTable,
): Promise<Outcome> {
  const found = await findDataStore(store.read, object.new_id);
  if (found !== undefined && Number(found.entries) > 0) return { reason: 'it has entries' };
  if (found !== undefined) await removeDataStore(store, found.id, clock);
  const isForgotten = await store.transaction((tx) => deleteImported(tx, object));
  return found !== undefined && isForgotten ? 'removed' : 'gone';
}

async function undoVariable(
  { store, variables, onVariableChange }: UndoOptions,
  object: ImportedObjectTable,
  { by, isUsed: isInUse }: { by: UndoneBy; isUsed: boolean },
): Promise<Outcome> {
  const scope = { ownerId: object.owner_id, projectId: object.project_id };
  const outcome = await store.transaction(async (tx): Promise<Outcome> => {
    const found = await findVariable(tx, scope, object.old_id);
    if (found !== undefined) {
      // Imports make a variable in one change; a later import marks it again.
      const isChanged =
        markOfVariable(found) !== object.mark || Number(found.updated_at_ms) !== Number(found.created_at_ms);
      if (isChanged) return { reason: 'its value was changed since' };
      if (isInUse) return { reason: isUsed };
      await variables.remove(tx, scope, object.old_id, by);
      await store.notify(tx, 'millrace_variables', object.owner_id);
    }
    await deleteImported(tx, object);
    return found === undefined ? 'gone' : 'removed';
  });
  if (outcome === 'removed') onVariableChange(object.owner_id);
  return outcome;
}
