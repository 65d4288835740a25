import { createHmac } from 'node:crypto';
import type { Clock } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import type { Store, Tx } from '#storage/store.ts';
import type { ImportedObjectTable } from '#storage/tables/import-tables.ts';
import { findDataStore } from '#user-data/data-stores/data-store-store.ts';
import { addDataStore } from '#user-data/data-stores/manage-data-stores.ts';
import { findVariable } from '#user-data/variables/variable-store.ts';
import type { Variables } from '#user-data/variables/variables.ts';
import type { Vault } from '#vault/vault.ts';
import type { GivenAccounts } from './import-context.ts';
import { findImported, type ImportScope, putImported } from './import-store.ts';
import type { MappedWorkflow } from './map-workflow.ts';
import type { MovedSecret } from './move-secrets.ts';
import { byHand, checkIt, type ForeignProject } from './project.ts';

interface ObjectOptions {
  store: Store;
  clock: Clock;
  vault: Vault;
  variables: Pick<Variables, 'set'>;
  onVariableChange: (ownerId: string) => void;
}

/** The import that makes an object, and for whom. */
export interface MadeBy {
  importId: string;
  scope: ImportScope;
  userId: string;
  keyId: string;
}

/** Stores the chosen accounts, so that later imports use them too. An account from a bundle never replaces a chosen one. */
export async function rememberAccounts(
  { store, clock }: Pick<ObjectOptions, 'store' | 'clock'>,
  { importId, scope }: MadeBy,
  { accounts, saved }: GivenAccounts,
): Promise<void> {
  await store.transaction(async (tx) => {
    for (const [oldId, newId] of Object.entries({ ...saved, ...accounts })) {
      const before = await findImported(tx, scope, 'account', oldId);
      const isChosen = Object.hasOwn(accounts, oldId);
      if (before?.new_id === newId || (before !== undefined && !isChosen)) continue;
      const row = { ...scope, kind: 'account' as const, old_id: oldId, new_id: newId, import_id: importId };
      await putImported(tx, { ...row, fingerprint: '', mark: '', created_at_ms: clock.now() }, before);
    }
  });
}

/** Creates an empty data store for each one that the project names and that does not exist here. Adds it to `known`. */
export async function importDataStores(
  { store, clock }: Pick<ObjectOptions, 'store' | 'clock'>,
  { importId, scope, userId }: MadeBy,
  project: ForeignProject,
  known: Map<string, string>,
): Promise<void> {
  for (const oldId of dataStoresIn(project)) {
    const newId = await store.transaction(async (tx) => {
      const before = await findImported(tx, scope, 'data_store', oldId);
      if (before !== undefined && (await findDataStore(tx, before.new_id)) !== undefined)
        return before.new_id;
      const name = `${scope.project_id === '' ? '' : `${scope.project_id} `}${oldId}`;
      const made = await addDataStore(tx, { ownerId: scope.owner_id, userId, name }, clock.now());
      const row = {
        ...scope,
        kind: 'data_store' as const,
        old_id: oldId,
        new_id: made.id,
        import_id: importId,
      };
      await putImported(tx, { ...row, fingerprint: '', mark: '', created_at_ms: clock.now() }, before);
      return made.id;
    });
    known.set(oldId, newId);
  }
}

function dataStoresIn({ workflows }: ForeignProject): string[] {
  const ids = workflows.flatMap(({ steps }) =>
    steps.flatMap(({ props }) =>
      Object.values(props).flatMap((value) => {
        const id = (value as { storeId?: unknown } | null)?.storeId;
        return typeof id === 'string' ? [id] : [];
      }),
    ),
  );
  return [...new Set(ids)];
}

/**
 * Keeps the secrets of a workflow as secret variables, before the workflow that reads them is made. A variable that was changed here stays
 * as it is. Secrets that could not be kept become findings of the workflow.
 */
export async function importSecrets(
  options: ObjectOptions,
  made: MadeBy,
  mapped: Pick<MappedWorkflow, 'secrets' | 'findings'>,
): Promise<void> {
  const { store, onVariableChange } = options;
  if (mapped.secrets.length === 0) return;
  for (const secret of mapped.secrets) {
    try {
      const isKept = await store.transaction((tx) => importSecret(options, tx, made, secret));
      if (!isKept)
        mapped.findings.push(
          checkIt(
            `the secret in ${secret.place} changed there, and the variable ${secret.name} here: it was left as it is`,
          ),
        );
    } catch (error) {
      if (!(error instanceof CallerError)) throw error;
      mapped.findings.push(
        byHand(`the secret in ${secret.place} could not be kept as ${secret.name}: ${error.message}`),
      );
    }
  }
  onVariableChange(made.scope.owner_id);
}

/** False when the secret was changed on both sides. */
async function importSecret(
  { store, vault, variables, clock }: ObjectOptions,
  tx: Tx,
  { importId, scope, userId, keyId }: MadeBy,
  { name, value, place }: MovedSecret,
): Promise<boolean> {
  const set = { ownerId: scope.owner_id, projectId: scope.project_id };
  // A plain hash would let an attacker guess short secrets.
  const fingerprint = createHmac('sha256', vault.keyFor('imported secrets')).update(value).digest('hex');
  const before = await findImported(tx, scope, 'variable', name);
  const present = await findVariable(tx, set, name);
  if (present !== undefined) {
    if (before === undefined || before.fingerprint === fingerprint) return true;
    if (before.mark !== markOfVariable(present)) return false;
  }
  const [variable] = await variables.set(
    tx,
    set,
    [{ name, value, secret: true, description: `Imported: ${place}`.slice(0, 500) }],
    { userId, keyId },
  );
  await store.notify(tx, 'millrace_variables', scope.owner_id);
  if (variable === undefined) return true;
  const row: ImportedObjectTable = {
    ...scope,
    ...{ kind: 'variable', old_id: name, new_id: variable.id, fingerprint },
    import_id: before?.import_id ?? importId,
    mark: markOfVariable(variable),
    created_at_ms: clock.now(),
  };
  await putImported(tx, row, before);
  return true;
}

export function markOfVariable({ id, updated_at_ms }: { id: string; updated_at_ms: number }): string {
  return `${id} ${Number(updated_at_ms)}`;
}
