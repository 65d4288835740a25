import { CallerError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import type { Db, Store, Tx } from '#storage/store.ts';
import type { ProjectTable } from '#storage/tables/identity-tables.ts';

export type Project = ProjectTable;

const columns = [
  'id',
  'hid',
  'name',
  'repository_id',
  'repository_path',
  'org_id',
  'exceptions',
  'allow_support',
  'created_at_ms',
  'updated_at_ms',
] as const;

/** Projects of one workspace at most: their listing is whole, not pages. */
const projectsMax = 1000;

/** Newest first. */
export function listProjects(db: Db, workspaceId: string): Promise<Project[]> {
  return db
    .selectFrom('projects')
    .select(columns)
    .where('org_id', '=', workspaceId)
    .orderBy('created_at_ms', 'desc')
    .orderBy('id', 'desc')
    .limit(projectsMax)
    .execute();
}

/** Throws CallerError `conflict` when the workspace has as many as it may. */
export async function insertProject(
  tx: Tx,
  values: { workspaceId: string; name: string },
  nowMs: number,
): Promise<Project> {
  const { count } = await tx
    .selectFrom('projects')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('org_id', '=', values.workspaceId)
    .executeTakeFirstOrThrow();
  if (Number(count) >= projectsMax) {
    throw new CallerError('conflict', `a workspace has at most ${projectsMax} projects`);
  }
  const id = newId('proj');
  const project: Project = {
    id,
    // The short form of the id, as used in URLs of the dashboard.
    hid: id.slice('proj_'.length, 'proj_'.length + 7),
    name: values.name,
    repository_id: null,
    repository_path: null,
    org_id: values.workspaceId,
    exceptions: null,
    allow_support: 0,
    created_at_ms: nowMs,
    updated_at_ms: nowMs,
  };
  await tx.insertInto('projects').values(project).execute();
  return project;
}

/**
 * The id of a project, if it belongs to this workspace. Throws CallerError `not_found` naming `project_id`; a project
 * never belongs to a user.
 */
export async function projectOfWorkspace(db: Db, id: string, workspaceId: string): Promise<string> {
  const project = await findProject(db, id);
  if (project?.org_id === workspaceId) return id;
  throw new CallerError(
    'invalid_parameter',
    `project_id: the workspace has no project ${JSON.stringify(id)}; org_id names the workspace`,
    { parameter: 'project_id' },
  );
}

export async function findProject(db: Db, id: string): Promise<Project | undefined> {
  return db.selectFrom('projects').select(columns).where('id', '=', id).executeTakeFirst();
}

/** The project, held until the end of the transaction. */
export async function lockProject(
  tx: Tx,
  store: Pick<Store, 'lockRows'>,
  id: string,
): Promise<Project | undefined> {
  await store
    .lockRows(tx.selectFrom('projects').select('projects.id as id').where('projects.id', '=', id))
    .execute();
  return findProject(tx, id);
}

export async function renameProject(tx: Tx, project: Project, name: string, nowMs: number): Promise<Project> {
  await tx.updateTable('projects').set({ name, updated_at_ms: nowMs }).where('id', '=', project.id).execute();
  return { ...project, name, updated_at_ms: nowMs };
}

/** Throws CallerError `conflict` while it has workflows: none of them should lose its place unnoticed. */
export async function deleteProject(tx: Tx, id: string): Promise<void> {
  const { count } = await tx
    .selectFrom('workflows')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('project_id', '=', id)
    .executeTakeFirstOrThrow();
  if (Number(count) > 0) {
    const what = Number(count) === 1 ? 'a workflow' : `${count} workflows`;
    throw new CallerError('conflict', `the project has ${what}: only an empty project can be deleted`);
  }
  await tx.deleteFrom('projects').where('id', '=', id).execute();
}
