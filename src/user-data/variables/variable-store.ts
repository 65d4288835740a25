import type { RemoveOfOwner } from '#identity/retention-pruner.ts';
import { isAsInstance } from '#identity/retention-store.ts';
import { newId } from '#lib/ids.ts';
import { type Page, type PageRequest, pageOf } from '#storage/page.ts';
import type { Db, Tx } from '#storage/store.ts';
import type { VariableAuditTable, VariableTable } from '#storage/tables/variable-tables.ts';

export type Variable = VariableTable;

/** The place of variables: an owner (project ''), or one of its projects. */
export interface VariableScope {
  ownerId: string;
  projectId: string;
}

const columns = [
  'id',
  'owner_id',
  'project_id',
  'name',
  'secret',
  'sealed',
  'bytes',
  'description',
  'user_id',
  'created_at_ms',
  'updated_at_ms',
] as const;

/**
 * Makes changes of one set take turns until the end of the transaction, and raises the version that all processes compare. It must be
 * called before the rows are read.
 */
export async function beginChange(tx: Tx, { ownerId, projectId }: VariableScope): Promise<void> {
  await tx
    .insertInto('variable_sets')
    .values({ owner_id: ownerId, project_id: projectId, version: 1 })
    .onConflict((conflict) =>
      conflict
        .columns(['owner_id', 'project_id'])
        .doUpdateSet((set) => ({ version: set('variable_sets.version', '+', 1) })),
    )
    .execute();
}

/** The versions of the variables of workflows in a project (null: in none), as a text that differs after each change. */
export async function variablesStamp(db: Db, ownerId: string, projectId: string | null): Promise<string> {
  const rows = await db
    .selectFrom('variable_sets')
    .select(['project_id', 'version'])
    .where('owner_id', '=', ownerId)
    .where('project_id', 'in', projectsOf(projectId))
    .orderBy('project_id')
    .execute();
  return rows.map((row) => `${row.project_id}:${row.version}`).join(' ');
}

/** All variables of a scope in the order of their names. */
export async function listVariables(db: Db, { ownerId, projectId }: VariableScope): Promise<Variable[]> {
  const rows = await db
    .selectFrom('variables')
    .select(columns)
    .where('owner_id', '=', ownerId)
    .where('project_id', '=', projectId)
    .execute();
  // The order of texts differs between databases.
  return rows.sort((one, other) => (one.name < other.name ? -1 : 1));
}

/** Variables of the owner, then variables of the project. */
export function variablesOfWorkflows(db: Db, ownerId: string, projectId: string | null): Promise<Variable[]> {
  return db
    .selectFrom('variables')
    .select(columns)
    .where('owner_id', '=', ownerId)
    .where('project_id', 'in', projectsOf(projectId))
    .orderBy('project_id')
    .execute();
}

function projectsOf(projectId: string | null): string[] {
  return projectId === null ? [''] : ['', projectId];
}

export async function findVariable(
  db: Db,
  scope: VariableScope,
  name: string,
): Promise<Variable | undefined> {
  return (await findVariables(db, scope, [name])).get(name);
}

/** Variables with these names, by name. */
export async function findVariables(
  db: Db,
  { ownerId, projectId }: VariableScope,
  names: readonly string[],
): Promise<Map<string, Variable>> {
  if (names.length === 0) return new Map();
  const rows = await db
    .selectFrom('variables')
    .select(columns)
    .where('owner_id', '=', ownerId)
    .where('project_id', '=', projectId)
    .where('name', 'in', names)
    .execute();
  return new Map(rows.map((row) => [row.name, row]));
}

export async function measureVariables(
  db: Db,
  { ownerId, projectId }: VariableScope,
): Promise<{ count: number; bytes: number }> {
  const row = await db
    .selectFrom('variables')
    .select((eb) => [eb.fn.countAll<number>().as('count'), eb.fn.sum<number | null>('bytes').as('bytes')])
    .where('owner_id', '=', ownerId)
    .where('project_id', '=', projectId)
    .executeTakeFirstOrThrow();
  return { count: Number(row.count), bytes: Number(row.bytes ?? 0) };
}

/** Inserts each variable, or changes the row with its id. */
export async function putVariables(tx: Tx, variables: readonly Variable[]): Promise<void> {
  if (variables.length === 0) return;
  await tx
    .insertInto('variables')
    .values(variables)
    .onConflict((conflict) =>
      conflict.column('id').doUpdateSet((set) => ({
        secret: set.ref('excluded.secret'),
        sealed: set.ref('excluded.sealed'),
        bytes: set.ref('excluded.bytes'),
        description: set.ref('excluded.description'),
        user_id: set.ref('excluded.user_id'),
        updated_at_ms: set.ref('excluded.updated_at_ms'),
      })),
    )
    .execute();
}

export async function deleteVariable(tx: Tx, id: string): Promise<void> {
  await tx.deleteFrom('variables').where('id', '=', id).execute();
}

export async function deleteVariableSet(tx: Tx, { ownerId, projectId }: VariableScope): Promise<void> {
  for (const table of ['variables', 'variable_sets'] as const)
    await tx.deleteFrom(table).where('owner_id', '=', ownerId).where('project_id', '=', projectId).execute();
}

/** Must be called in the transaction of the change, so that neither is stored without the other. */
export async function recordVariableAudit(
  tx: Tx,
  entries: readonly (Omit<VariableAuditTable, 'id' | 'details'> & { details: Record<string, unknown> })[],
): Promise<void> {
  if (entries.length === 0) return;
  await tx
    .insertInto('variable_audit')
    .values(entries.map((entry) => ({ ...entry, id: newId('aud'), details: JSON.stringify(entry.details) })))
    .execute();
}

/** Audit entries, newest first: of an owner with all projects, or of one project; of all variables, or of one name. */
export async function selectVariableAudit(
  db: Db,
  filter: { ownerId: string; projectId?: string; name?: string },
  page: PageRequest,
): Promise<Page<VariableAuditTable>> {
  let query = db
    .selectFrom('variable_audit')
    .select([
      ...(['id', 'owner_id', 'project_id', 'name', 'action', 'user_id', 'key_id', 'details'] as const),
      'created_at_ms',
    ])
    .where('owner_id', '=', filter.ownerId);
  if (filter.projectId !== undefined) query = query.where('project_id', '=', filter.projectId);
  if (filter.name !== undefined) query = query.where('name', '=', filter.name);
  return pageOf(query, page);
}

/** Removes entries from before a time, at most `limit` rows. Returns the number of removed rows. */
export async function removeVariableAuditBefore(tx: Tx, ms: number, limit: number): Promise<number> {
  const { numDeletedRows } = await tx
    .deleteFrom('variable_audit')
    .where('id', 'in', (from) =>
      from
        .selectFrom('variable_audit')
        .select('id')
        .where('created_at_ms', '<', ms)
        .where(isAsInstance('audit'))
        .orderBy('created_at_ms')
        .limit(limit),
    )
    .executeTakeFirst();
  return Number(numDeletedRows);
}

/** Removes entries of an owner from before a time. */
export const removeVariableAuditOf: RemoveOfOwner = async (tx, { ownerId, beforeMs, limit }) => {
  const { numDeletedRows } = await tx
    .deleteFrom('variable_audit')
    .where('id', 'in', (from) =>
      from
        .selectFrom('variable_audit')
        .select('id')
        .where('owner_id', '=', ownerId)
        .where('created_at_ms', '<', beforeMs)
        .limit(limit),
    )
    .executeTakeFirst();
  return Number(numDeletedRows);
};
