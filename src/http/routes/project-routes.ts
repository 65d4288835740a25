import { type Static, Type } from 'typebox';
import { type App, callerOf, DataOf, IdParams, NoContent } from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import { type Caller, notFound, writable } from '#identity/permissions.ts';
import { deleteProject, lockProject, type Project, renameProject } from '#identity/project-store.ts';
import type { Clock } from '#lib/clock.ts';
import type { Store, Tx } from '#storage/store.ts';
import type { Variables } from '#user-data/variables/variables.ts';
import { Name } from './identity-shapes.ts';

export interface ProjectRouteOptions {
  store: Store;
  clock: Clock;
  variables: Pick<Variables, 'removeAll'>;
}

const nullableText = Type.Union([Type.String(), Type.Null()]);
export const ProjectShape = Type.Object({
  id: Type.String({ description: 'proj_…' }),
  hid: Type.String(),
  name: Type.String(),
  repository_id: nullableText,
  repository_path: nullableText,
  created_at: Type.String({ description: 'ISO 8601' }),
  updated_at: Type.String({ description: 'ISO 8601' }),
  org_id: Type.String({ description: 'o_…' }),
  exceptions: nullableText,
  allow_support: Type.Boolean(),
});

/** Additions: what is done to one project. They are listed and made below their workspace (workspace-routes.ts). */
export function projectRoutes(app: App, { store, clock, variables }: ProjectRouteOptions): void {
  app.put(
    '/projects/:id',
    {
      schema: {
        operationId: 'updateProject',
        summary: 'Renames a project',
        tags: ['projects', 'addition'],
        params: IdParams('proj_…'),
        body: Type.Object({ name: Name }),
        response: { 200: DataOf(ProjectShape) },
      },
    },
    async (request) => {
      const { id } = request.params;
      const project = await store.transaction(async (tx) => {
        const found = await requireProject(tx, callerOf(request), id);
        return renameProject(tx, found, request.body.name, clock.now());
      });
      return { data: selectFields(request, projectShape(project)) };
    },
  );

  app.delete(
    '/projects/:id',
    {
      schema: {
        operationId: 'deleteProject',
        summary: 'Deletes a project that has no workflows',
        description: 'Its variables are removed with it.',
        tags: ['projects', 'addition'],
        params: IdParams('proj_…'),
        response: { 204: NoContent },
      },
    },
    async (request, reply) => {
      const { id } = request.params;
      await store.transaction(async (tx) => {
        const { org_id: ownerId } = await requireProject(tx, callerOf(request), id);
        await variables.removeAll(tx, { ownerId, projectId: id }, callerOf(request));
        await deleteProject(tx, id);
      });
      return reply.code(204).send(null);
    },
  );

  /** Held until the end of the transaction. */
  async function requireProject(tx: Tx, caller: Caller, id: string): Promise<Project> {
    const project = await lockProject(tx, store, id);
    await writable(tx, caller, project && { owner_id: project.org_id }, { what: 'project', id });
    if (project === undefined) throw notFound('project', id);
    return project;
  }
}

export function projectShape(project: Project): Static<typeof ProjectShape> {
  return {
    id: project.id,
    hid: project.hid,
    name: project.name,
    repository_id: project.repository_id,
    repository_path: project.repository_path,
    created_at: new Date(project.created_at_ms).toISOString(),
    updated_at: new Date(project.updated_at_ms).toISOString(),
    org_id: project.org_id,
    exceptions: project.exceptions,
    allow_support: project.allow_support === 1,
  };
}
