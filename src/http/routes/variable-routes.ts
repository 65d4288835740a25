import type { FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import { noteOwner } from '#audit/audit-context.ts';
import { recordSubject } from '#audit/record-change.ts';
import { encodeCursor, listPart, pageRequest, pageResponse } from '#http/pagination.ts';
import {
  type App,
  callerOf,
  DataOf,
  NoContent,
  namedWorkspace,
  OneOf,
  PageOf,
  pageParameters,
  parameterOf,
} from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import { homeOf, notFound, ownersOf, requireWorkspace } from '#identity/permissions.ts';
import { findProject, lockProject, projectOfWorkspace } from '#identity/project-store.ts';
import { must } from '#lib/assert.ts';
import type { Db, Store, Tx } from '#storage/store.ts';
import { variableAuditActions } from '#storage/tables/variable-tables.ts';
import {
  variableDescriptionCharactersMax,
  variableNameCharactersMax,
  variablesPerRequestMax,
} from '#user-data/variables/variable-rules.ts';
import {
  findVariable,
  listVariables,
  selectVariableAudit,
  type Variable,
  type VariableScope,
} from '#user-data/variables/variable-store.ts';
import type { VariableActor, Variables } from '#user-data/variables/variables.ts';

export interface VariableRouteOptions {
  store: Store;
  variables: Variables;
  /** Called after a change: the next runs of workflows of this owner must find it. */
  onVariableChange: (ownerId: string) => void;
}

const projectParameter = Type.Optional(
  Type.String({ description: 'proj_…: the variables of this project, instead of those of the workspace' }),
);

const nameText = Type.String({
  minLength: 1,
  maxLength: variableNameCharactersMax,
  description: 'Letters, digits and underscores, not a digit first',
});
const changeFields = {
  value: Type.Optional(
    Type.String({ description: 'At most 64 KB. Required for a new variable; absent: it stays' }),
  ),
  secret: Type.Optional(
    Type.Boolean({
      description: 'The API never shows the value again. Absent: it stays; false for a new variable',
    }),
  ),
  description: Type.Optional(Type.String({ maxLength: variableDescriptionCharactersMax })),
};

const VariableShape = Type.Object({
  name: Type.String(),
  value: Type.Union([Type.String(), Type.Null()], {
    description: 'null: it is secret, you are a viewer, or its data key is lost',
  }),
  secret: Type.Boolean(),
  description: Type.String(),
  owner_id: Type.String({ description: 'u_… or o_…' }),
  project_id: Type.Union([Type.String(), Type.Null()], {
    description: 'null: it is for all workflows of the owner',
  }),
  user_id: Type.String({ description: 'The user (u_…) or OAuth client (oac_…) that made the last change' }),
  created_at: Type.String({ description: 'ISO 8601' }),
  updated_at: Type.String({ description: 'ISO 8601' }),
});

const VariableAuditEntry = Type.Object({
  id: Type.String({ description: 'aud_…' }),
  name: Type.String(),
  project_id: Type.Union([Type.String(), Type.Null()]),
  action: OneOf(variableAuditActions),
  user_id: Type.String({ description: 'The user (u_…) or OAuth client (oac_…) that made the change' }),
  key_id: Type.String({ description: 'The API key or access token of the request' }),
  details: Type.Record(Type.String(), Type.Unknown(), {
    description: 'The fields that changed; never a value',
  }),
  created_at: Type.String({ description: 'ISO 8601' }),
});

const NameParams = Type.Object({ name: Type.String({ description: 'Name of the variable' }) });

/** Additions: environment variables of workflows, by workspace, by project, and those of a user. */
export function variableRoutes(app: App, options: VariableRouteOptions): void {
  const support = variableSupport(options);
  variableListRoutes(app, support);
  oneVariableRoutes(app, support);
  variableAuditRoutes(app, support);
}

type VariableSupport = ReturnType<typeof variableSupport>;

/** What the handlers of these routes share. */
function variableSupport({ store, variables, onVariableChange }: VariableRouteOptions) {
  /** The scope that a request names. Throws CallerError as `resolveOwner` does, also for the project. */
  const scopeOf = async (
    db: Db,
    request: FastifyRequest,
    right: 'read' | 'write' | 'administer',
  ): Promise<VariableScope & { showsValues: boolean }> => {
    const caller = callerOf(request);
    const named = namedWorkspace(request);
    const projectId = parameterOf(request, 'project_id');
    if (typeof projectId === 'string' && projectId !== '') {
      const project = await findProject(db, projectId);
      const owners = await ownersOf(db, caller);
      if (project === undefined || !owners.mayRead(project.org_id))
        throw notFound('project', projectId, 'project_id');
      if (named !== undefined) await projectOfWorkspace(db, projectId, named.id);
      await requireWorkspace(db, caller, project.org_id, right);
      return { ownerId: project.org_id, projectId, showsValues: owners.mayWrite(project.org_id) };
    }
    const ownerId = named?.id ?? homeOf(caller);
    if (ownerId === caller.userId) return { ownerId, projectId: '', showsValues: true };
    const owners = await requireWorkspace(db, caller, ownerId, right, named?.parameter);
    return { ownerId, projectId: '', showsValues: owners.mayWrite(ownerId) };
  };
  /** Makes a change in one transaction, and notifies all nodes. */
  const change = async <T>(
    request: FastifyRequest,
    work: (tx: Tx, scope: VariableScope, actor: VariableActor) => Promise<T>,
  ): Promise<T> => {
    const { userId, keyId } = callerOf(request);
    const { result, ownerId } = await store.transaction(async (tx) => {
      const scope = await scopeOf(tx, request, 'write');
      noteOwner(scope.ownerId);
      // A project cannot be deleted meanwhile.
      if (scope.projectId !== '' && (await lockProject(tx, store, scope.projectId)) === undefined)
        throw notFound('project', scope.projectId, 'project_id');
      const result = await work(tx, scope, { userId, keyId });
      await store.notify(tx, 'millrace_variables', scope.ownerId);
      return { result, ownerId: scope.ownerId };
    });
    onVariableChange(ownerId);
    return result;
  };
  const shown = async (
    rows: readonly Variable[],
    showsValues = true,
  ): Promise<Static<typeof VariableShape>[]> => {
    const values = showsValues ? await variables.plainValues(store.read, rows) : new Map<string, string>();
    return rows.map((row) => ({
      name: row.name,
      value: values.get(row.id) ?? null,
      secret: row.secret === 1,
      description: row.description,
      owner_id: row.owner_id,
      project_id: orNull(row.project_id),
      user_id: row.user_id,
      created_at: new Date(row.created_at_ms).toISOString(),
      updated_at: new Date(row.updated_at_ms).toISOString(),
    }));
  };

  return { store, variables, scopeOf, change, shown };
}

function variableListRoutes(app: App, { store, variables, scopeOf, change, shown }: VariableSupport): void {
  app.get(
    '/variables',
    {
      schema: {
        operationId: 'listVariables',
        summary: 'Variables of a workspace, a project or your own, by name',
        description:
          'Without org_id and project_id: your own, which your personal workflows find. A variable of a project wins over one of the ' +
          'workspace that has the same name; each list has only what was set there.',
        tags: ['variables', 'addition'],
        querystring: Type.Object({ ...pageParameters, project_id: projectParameter }),
        response: { 200: PageOf(VariableShape) },
      },
    },
    async (request) => {
      const scope = await scopeOf(store.read, request, 'read');
      const all = await listVariables(store.read, scope);
      const rows = listPart(all, pageRequest(request), ({ name }) => name);
      const cursors = rows.map(({ name }) => encodeCursor(name));
      return pageResponse(selectFields(request, await shown(rows, scope.showsValues)), {
        totalCount: all.length,
        cursorOf: (_, index) => cursors[index] ?? '',
      });
    },
  );

  app.put(
    '/variables',
    {
      schema: {
        operationId: 'setVariables',
        summary: `Sets up to ${variablesPerRequestMax} variables, all or none of them`,
        description:
          'Variables that are not named stay as they are. The next run of a workflow finds the new values.',
        tags: ['variables', 'addition'],
        querystring: Type.Object({ project_id: projectParameter }),
        body: Type.Object({
          variables: Type.Array(
            Type.Object({ name: nameText, ...changeFields }, { additionalProperties: false }),
            {
              minItems: 1,
              maxItems: variablesPerRequestMax,
            },
          ),
          project_id: projectParameter,
        }),
        response: { 200: DataOf(Type.Array(VariableShape)) },
      },
    },
    async (request) => {
      const changes = request.body.variables.map((each, index) => ({ ...each, at: `variables[${index}].` }));
      const rows = await change(request, (tx, scope, actor) => variables.set(tx, scope, changes, actor));
      return { data: selectFields(request, await shown(rows)) };
    },
  );
}

function oneVariableRoutes(app: App, { store, variables, scopeOf, change, shown }: VariableSupport): void {
  app.get(
    '/variables/:name',
    {
      schema: {
        operationId: 'getVariable',
        summary: 'A variable',
        tags: ['variables', 'addition'],
        params: NameParams,
        querystring: Type.Object({ project_id: projectParameter }),
        response: { 200: DataOf(VariableShape) },
      },
    },
    async (request) => {
      const scope = await scopeOf(store.read, request, 'read');
      const { name } = request.params;
      const row = await findVariable(store.read, scope, name);
      if (row === undefined) throw notFound('variable', name, 'name');
      const [variable] = await shown([row], scope.showsValues);
      return { data: selectFields(request, must(variable, 'the variable')) };
    },
  );

  app.put(
    '/variables/:name',
    {
      schema: {
        operationId: 'setVariable',
        summary: 'Sets a variable',
        description: 'The next run of a workflow finds the new value.',
        tags: ['variables', 'addition'],
        params: NameParams,
        querystring: Type.Object({ project_id: projectParameter }),
        body: Type.Object({ ...changeFields, project_id: projectParameter }),
        response: { 200: DataOf(VariableShape) },
      },
    },
    async (request) => {
      const { name } = request.params;
      const { value, secret, description } = request.body;
      const given = {
        name,
        ...(value === undefined ? {} : { value }),
        ...(secret === undefined ? {} : { secret }),
        ...(description === undefined ? {} : { description }),
      };
      const rows = await change(request, async (tx, scope, actor) => {
        await recordVariable(tx, scope, given.name);
        return variables.set(tx, scope, [given], actor);
      });
      const [variable] = await shown(rows);
      return { data: selectFields(request, must(variable, 'the variable')) };
    },
  );

  app.delete(
    '/variables/:name',
    {
      schema: {
        operationId: 'deleteVariable',
        summary: 'Removes a variable',
        description: 'Workflows that name it find it unset at their next run.',
        tags: ['variables', 'addition'],
        params: NameParams,
        querystring: Type.Object({ project_id: projectParameter }),
        response: { 204: NoContent },
      },
    },
    async (request, reply) => {
      const { name } = request.params;
      await change(request, async (tx, scope, actor) => {
        await recordVariable(tx, scope, name);
        if (!(await variables.remove(tx, scope, name, actor))) throw notFound('variable', name, 'name');
      });
      return reply.code(204).send(null);
    },
  );
}

function variableAuditRoutes(app: App, { store, scopeOf }: VariableSupport): void {
  app.get(
    '/variable_audit',
    {
      schema: {
        operationId: 'listVariableAudit',
        summary:
          'Changes of variables of a workspace with the users who made them, or of your own, newest first; for admins',
        description:
          'Of a workspace with all its projects, those that were deleted included. Kept for MILLRACE_AUDIT_DAYS.',
        tags: ['variables', 'addition'],
        querystring: Type.Object({
          ...pageParameters,
          project_id: Type.Optional(
            Type.String({
              description: 'Only the variables of this project; with org_id also of one that was deleted',
            }),
          ),
          name: Type.Optional(Type.String({ description: 'Only variables of this name' })),
        }),
        response: { 200: PageOf(VariableAuditEntry) },
      },
    },
    async (request) => {
      const { name, project_id: projectId } = request.query;
      const caller = callerOf(request);
      const named = namedWorkspace(request);
      // A project that was deleted needs its workspace beside it.
      const ofProject = named === undefined && projectId !== undefined;
      const ownerId = ofProject
        ? (await scopeOf(store.read, request, 'administer')).ownerId
        : (named?.id ?? homeOf(caller));
      if (ownerId !== caller.userId)
        await requireWorkspace(store.read, caller, ownerId, 'administer', named?.parameter);
      const filter = {
        ownerId,
        ...(name === undefined ? {} : { name }),
        ...(projectId === undefined ? {} : { projectId }),
      };
      const { rows, totalCount } = await selectVariableAudit(store.read, filter, pageRequest(request));
      const cursors = rows.map(({ id }) => encodeCursor(id));
      const entries = rows.map((row) => ({
        id: row.id,
        name: row.name,
        project_id: orNull(row.project_id),
        action: row.action,
        user_id: row.user_id,
        key_id: row.key_id,
        details: JSON.parse(row.details) as Record<string, unknown>,
        created_at: new Date(row.created_at_ms).toISOString(),
      }));
      return pageResponse(selectFields(request, entries), {
        totalCount,
        cursorOf: (_, index) => cursors[index] ?? '',
      });
    },
  );
}

function orNull(text: string): string | null {
  return text === '' ? null : text;
}

/** The scope comes from the query and the body, so the path alone does not say which variable changes. */
function recordVariable(tx: Tx, { ownerId, projectId }: VariableScope, name: string): Promise<void> {
  return recordSubject(tx, {
    kind: 'variables',
    id: name,
    path: { owner_id: ownerId, project_id: projectId },
  });
}
