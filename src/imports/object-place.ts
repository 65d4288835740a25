import type { WebhookOptions } from '#delivery/webhooks/manage-webhooks.ts';
import type { Clock } from '#lib/clock.ts';
import type { CallerError } from '#lib/errors.ts';
import type { ComponentOwner } from '#registry/resolve-component.ts';
import type { SourceDeployer } from '#sources/deploy-source.ts';
import type { Db, Store, Tx } from '#storage/store.ts';
import type { ImportedKind, ImportedObjectTable, ImportTable } from '#storage/tables/import-tables.ts';
import type { Vault } from '#vault/vault.ts';
import { findImported, type ImportScope, putImported } from './import-store.ts';
import { ImportedMeanwhile } from './imported-meanwhile.ts';
import { checkIt, type Finding } from './project.ts';

/** What sources, webhooks and subscriptions are imported with. */
export interface ObjectImportOptions {
  store: Store;
  vault: Vault;
  clock: Clock;
  sources: Pick<SourceDeployer, 'create' | 'update'>;
  webhooks: WebhookOptions;
}

/** The import that brings an object, and for whom. */
export interface ObjectPlace {
  row: Pick<ImportTable, 'id' | 'activate' | 'key_id'>;
  scope: ImportScope;
  owner: ComponentOwner;
}

/** What an object was when it was last imported (`imported_objects.mark`). */
export interface ObjectMark {
  /** Epoch ms; any change by hand moves it. */
  updated_at_ms: number;
  active: boolean;
  /** The last import that changed it after the one that made it. */
  changed_by?: string;
}

export function objectMarkOf({ mark }: Pick<ImportedObjectTable, 'mark'>): ObjectMark {
  return JSON.parse(mark) as ObjectMark;
}

/** What an import does with a source or a webhook; `present` is the one that is here. */
export type ObjectDecision<Present> =
  | { outcome: 'created'; before: ImportedObjectTable | undefined }
  | { outcome: 'updated' | 'unchanged' | 'conflict'; before: ImportedObjectTable; present: Present };

/** Compares what is imported with what an earlier import made of it, and with what that is now. */
export async function decideObject<Present extends { updated_at_ms: number }>(
  db: Db,
  scope: ImportScope,
  {
    kind,
    oldId,
    fingerprint,
    find,
  }: {
    kind: ImportedKind;
    oldId: string;
    fingerprint: string;
    find: (db: Db, id: string) => Promise<Present | undefined>;
  },
): Promise<ObjectDecision<Present>> {
  const before = await findImported(db, scope, kind, oldId);
  const present = before === undefined ? undefined : await find(db, before.new_id);
  if (before === undefined || present === undefined) return { outcome: 'created', before };
  if (before.fingerprint === fingerprint) return { outcome: 'unchanged', before, present };
  const isChanged = Number(present.updated_at_ms) !== objectMarkOf(before).updated_at_ms;
  return { outcome: isChanged ? 'conflict' : 'updated', before, present };
}

/** The finding of a decision that is a conflict. */
export function changedOnBothSides(): Finding {
  return checkIt('it was changed there and here since it was imported: it was left as it is here');
}

/** Records what an object is here. Throws ImportedMeanwhile when another import was faster. */
export async function recordObject(
  tx: Tx,
  { row, scope }: Pick<ObjectPlace, 'row' | 'scope'>,
  {
    before,
    present,
    ...object
  }: {
    kind: ImportedKind;
    oldId: string;
    newId: string;
    fingerprint: string;
    mark: Omit<ObjectMark, 'changed_by'>;
    nowMs: number;
    before: ImportedObjectTable | undefined;
    /** The object of `before` is still there. */
    present: boolean;
  },
): Promise<void> {
  const isKept = before !== undefined && present;
  const mark: ObjectMark = {
    ...object.mark,
    ...(isKept && before.import_id !== row.id ? { changed_by: row.id } : {}),
  };
  const written = await putImported(
    tx,
    {
      ...scope,
      ...{ kind: object.kind, old_id: object.oldId, new_id: object.newId, fingerprint: object.fingerprint },
      import_id: isKept ? before.import_id : row.id,
      mark: JSON.stringify(mark),
      created_at_ms: object.nowMs,
    },
    before,
  );
  if (!written) throw new ImportedMeanwhile();
}

/** What is wrong, without the value that was found: the value of a prop, or a URL, may be a secret. */
export function withoutValue({ message }: CallerError): string {
  return message.replace(/, found [\s\S]*$/, '');
}
