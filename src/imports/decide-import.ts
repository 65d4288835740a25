import type { Db } from '#storage/store.ts';
import type { ImportedObjectTable } from '#storage/tables/import-tables.ts';
import type { WorkflowTable } from '#storage/tables/workflow-tables.ts';
import { findDeployment, findWorkflow } from '#workflows/definitions/workflow-store.ts';

/** What a workflow was when it was last imported (`imported_objects.mark`). */
export interface WorkflowMark {
  deployment_id: string;
  name: string;
  active: boolean;
  /** Epoch ms; any change by hand moves it. */
  updated_at_ms: number;
  /** The last import that changed it after the one that made it. */
  changed_by?: string;
  /** Fingerprint of what was deployed where steps had to be replaced: a later import tries again. Absent: none were. */
  repaired?: string;
}

/** What an import does with one workflow. */
export type ImportDecision =
  | Creation
  | OfWorkflow<'updated'>
  | OfWorkflow<'unchanged'>
  | OfWorkflow<'conflict'>;

interface Creation {
  outcome: 'created';
  /** It was imported before, and removed here since. */
  before: ImportedObjectTable | undefined;
}

interface OfWorkflow<Outcome> {
  outcome: Outcome;
  before: ImportedObjectTable;
  workflow: WorkflowTable;
}

/** The workflow is written. */
export type Deployment = Creation | OfWorkflow<'updated'>;

export async function decideImport(
  db: Db,
  before: ImportedObjectTable | undefined,
  fingerprint: string,
): Promise<ImportDecision> {
  if (before === undefined) return { outcome: 'created', before };
  const workflow = await findWorkflow(db, before.new_id);
  if (workflow === undefined) return { outcome: 'created', before };
  const mark = markOf(before);
  const isSame = before.fingerprint === fingerprint;
  if (isSame && mark.repaired === undefined) return { outcome: 'unchanged', before, workflow };
  const isChanged = await wasChangedHere(db, workflow, mark);
  if (isSame && isChanged) return { outcome: 'unchanged', before, workflow };
  return { outcome: isChanged ? 'conflict' : 'updated', before, workflow };
}

export function markOf({ mark }: ImportedObjectTable): WorkflowMark {
  return JSON.parse(mark) as WorkflowMark;
}

/** Its name was changed here, so one from there is not taken over. */
export function isRenamedHere({ workflow, before }: OfWorkflow<'updated' | 'conflict'>): boolean {
  return workflow.name !== markOf(before).name;
}

/** A deployment that changed only the triggers is none of the definition: an export lacks most triggers, so they are made here. */
async function wasChangedHere(db: Db, workflow: WorkflowTable, mark: WorkflowMark): Promise<boolean> {
  if (workflow.deployment_id === mark.deployment_id) return false;
  const [imported, current] = [
    await findDeployment(db, mark.deployment_id),
    await findDeployment(db, workflow.deployment_id),
  ];
  return imported === undefined || imported.definition !== current?.definition;
}
