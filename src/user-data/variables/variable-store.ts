import { newId } from '#lib/ids.ts';
import { type Page, type PageRequest, pageOf } from '#storage/page.ts';
import type { Db, Tx } from '#storage/store.ts';
import type { VariableAuditTable, VariableTable } from '#storage/tables/variable-tables.ts';

export type Variable = VariableTable;

/** Whose variables: of an owner (project ''), or of one of its projects. */
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
 * Makes changes of one set take turns until the end of the transaction, and tells all processes that there was one. Call it before
 * the rows are read.
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

/** Names a state of what workflows of a project (null: of none) find: another one after each change. */
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

/** In the order of their names. */
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

/** Those of the owner, then those of the project. */
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

export function findVariable(
  db: Db,
  { ownerId, projectId }: VariableScope,
  name: string,
): Promise<Variable | undefined> {
  return db
    .selectFrom('variables')
    .select(columns)
    .where('owner_id', '=', ownerId)
    .where('project_id', '=', projectId)
    .where('name', '=', name)
    .executeTakeFirst();
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

/** Inserts it, or replaces the one of its id. */
export async function putVariable(tx: Tx, variable: Variable): Promise<void> {
  const { id: _id, ...changed } = variable;
  await tx
    .insertInto('variables')
    .values(variable)
    .onConflict((conflict) => conflict.column('id').doUpdateSet(changed))
    .execute();
}

export async function deleteVariable(tx: Tx, id: string): Promise<void> {
  await tx.deleteFrom('variables').where('id', '=', id).execute();
}

export async function deleteVariableSet(tx: Tx, { ownerId, projectId }: VariableScope): Promise<void> {
  for (const table of ['variables', 'variable_sets'] as const)
    await tx.deleteFrom(table).where('owner_id', '=', ownerId).where('project_id', '=', projectId).execute();
}

/** In the transaction of what was done, so that neither is there without the other. */
export async function recordVariableAudit(
  tx: Tx,
  entry: Omit<VariableAuditTable, 'id' | 'details'> & { details: Record<string, unknown> },
): Promise<void> {
  await tx
    .insertInto('variable_audit')
    .values({ ...entry, id: newId('aud'), details: JSON.stringify(entry.details) })
    .execute();
}

/** Newest first: of a whole owner with its projects, or of one project; of all variables, or of one name. */
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

/** Removes what was done before a time, at most `limit` rows. Answers how many. */
export async function removeVariableAuditBefore(tx: Tx, ms: number, limit: number): Promise<number> {
  const { numDeletedRows } = await tx
    .deleteFrom('variable_audit')
    .where('id', 'in', (from) =>
      from
        .selectFrom('variable_audit')
        .select('id')
        .where('created_at_ms', '<', ms)
        .orderBy('created_at_ms')
        .limit(limit),
    )
    .executeTakeFirst();
  return Number(numDeletedRows);
}
