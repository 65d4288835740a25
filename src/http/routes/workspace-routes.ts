import { type Static, Type } from 'typebox';
import { endMembership } from '#http/end-membership.ts';
import { type App, callerOf, DataOf, IdParams, NoContent, OneOf } from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import { createWorkspace } from '#identity/create-identity.ts';
import { notFound, requireWorkspace } from '#identity/permissions.ts';
import { insertProject, listProjects } from '#identity/project-store.ts';
import { findUser, findUserByEmail, type User } from '#identity/user-store.ts';
import {
  deleteMember,
  findMember,
  findWorkspace,
  listMembers,
  type Member,
  putMember,
  updateWorkspace,
  type Workspace,
} from '#identity/workspace-store.ts';
import { type Clock, epochSeconds } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import type { QuotaGuard } from '#metering/quota-guard.ts';
import { findOwnerQuota } from '#metering/quota-store.ts';
import { effectiveQuotas } from '#metering/quotas.ts';
import { usageToday } from '#metering/usage-store.ts';
import type { Db, Store } from '#storage/store.ts';
import { roles, userKinds } from '#storage/tables/identity-tables.ts';
import { Email, Name, Orgname } from './identity-shapes.ts';
import { OwnWorkspace, ownWorkspaces } from './own-workspaces.ts';
import { ProjectShape, projectShape } from './project-routes.ts';

export interface WorkspaceRouteOptions {
  store: Store;
  clock: Clock;
  quotas: QuotaGuard;
  /** Throws where only the first user may be admitted. */
  admitPerson: () => void;
  /** Sources and workflows that use the account must run with what it is now. */
  onAccountChange: (accountId: string) => void;
  /** Called when access has ended: streams check at once whether their readers may still read. */
  onAccessEnd: () => void;
}

const WorkspaceShape = Type.Object({
  id: Type.String({ description: 'o_…' }),
  orgname: Type.String(),
  name: Type.String(),
  email: Type.String(),
  daily_credits_quota: Type.Integer(),
  daily_credits_used: Type.Integer(),
});

const MemberShape = Type.Object({
  user_id: Type.String({ description: 'u_…' }),
  username: Type.String(),
  email: Type.String(),
  role: OneOf(roles),
  kind: OneOf(userKinds, { description: 'A person, or a service account of the workspace' }),
  created_at: Type.Integer(),
});

export function workspaceRoutes(app: App, options: WorkspaceRouteOptions): void {
  const { store, clock } = options;

  app.post(
    '/',
    {
      schema: {
        operationId: 'createWorkspace',
        summary: 'Creates a workspace; you are its first admin',
        tags: ['workspaces', 'addition'],
        body: Type.Object({
          name: Name,
          orgname: Type.Optional(Orgname),
          email: Type.Optional(Email),
        }),
        response: { 200: DataOf(WorkspaceShape) },
      },
    },
    async (request) => {
      const { userId, homeId } = callerOf(request);
      if (homeId !== undefined)
        throw new CallerError(
          'forbidden',
          'a service account belongs to its workspace and cannot create another',
        );
      const user = await findUser(store.read, userId);
      if (user === undefined) throw notFound('user', userId);
      const { name, orgname, email } = request.body;
      const workspace = await createWorkspace(
        store,
        { name, user, ...(orgname !== undefined && { orgname }), ...(email !== undefined && { email }) },
        { clock, mayCreate: (tx) => options.quotas.requireRoom(tx, 'workspaces', userId) },
      );
      return { data: selectFields(request, await workspaceShape(options, workspace)) };
    },
  );

  app.get(
    '/',
    {
      schema: {
        operationId: 'listWorkspaces',
        summary: "All workspaces you are in, oldest first, with today's usage",
        description: 'The same as `orgs` of /users/me, also for users on the paid plan.',
        tags: ['workspaces', 'addition'],
        response: { 200: DataOf(Type.Array(OwnWorkspace)) },
      },
    },
    async (request) => {
      const { workspaces } = await ownWorkspaces(options, callerOf(request).userId);
      return { data: selectFields(request, workspaces) };
    },
  );

  app.get(
    '/:id',
    {
      schema: {
        operationId: 'getWorkspace',
        summary: 'A workspace with its credit usage today',
        tags: ['workspaces'],
        params: IdParams('o_…'),
        response: { 200: DataOf(WorkspaceShape) },
      },
    },
    async (request) => {
      const { id } = request.params;
      await requireWorkspace(store.read, callerOf(request), id, 'read');
      const workspace = await findWorkspace(store.read, id);
      if (workspace === undefined) throw notFound('workspace', id);
      return { data: selectFields(request, await workspaceShape(options, workspace)) };
    },
  );

  app.put(
    '/:id',
    {
      schema: {
        operationId: 'updateWorkspace',
        summary: 'Changes name and e-mail address of a workspace; only for its admins',
        description: 'What is not named stays as it is, as does the orgname.',
        tags: ['workspaces', 'addition'],
        params: IdParams('o_…'),
        body: Type.Object({ name: Type.Optional(Name), email: Type.Optional(Email) }),
        response: { 200: DataOf(WorkspaceShape) },
      },
    },
    async (request) => {
      const { id } = request.params;
      const { name, email } = request.body;
      const workspace = await store.transaction(async (tx) => {
        await requireWorkspace(tx, callerOf(request), id, 'administer');
        await updateWorkspace(tx, id, {
          ...(name !== undefined && { name }),
          ...(email !== undefined && { email }),
        });
        return findWorkspace(tx, id);
      });
      if (workspace === undefined) throw notFound('workspace', id);
      return { data: selectFields(request, await workspaceShape(options, workspace)) };
    },
  );

  projectListRoutes(app, options);
  memberRoutes(app, options);
}

function projectListRoutes(app: App, { store, clock }: WorkspaceRouteOptions): void {
  app.get(
    '/:id/projects',
    {
      schema: {
        operationId: 'listProjects',
        summary: 'All projects of a workspace, newest first',
        tags: ['projects'],
        params: IdParams('o_…'),
        response: { 200: DataOf(Type.Array(ProjectShape)) },
      },
    },
    async (request) => {
      const { id } = request.params;
      await requireWorkspace(store.read, callerOf(request), id, 'read');
      const projects = await listProjects(store.read, id);
      return { data: selectFields(request, projects.map(projectShape)) };
    },
  );

  app.post(
    '/:id/projects',
    {
      schema: {
        operationId: 'createProject',
        summary: 'Creates a project in a workspace',
        tags: ['projects', 'addition'],
        params: IdParams('o_…'),
        body: Type.Object({ name: Name }),
        response: { 200: DataOf(ProjectShape) },
      },
    },
    async (request) => {
      const { id } = request.params;
      const project = await store.transaction(async (tx) => {
        await requireWorkspace(tx, callerOf(request), id, 'write');
        return insertProject(tx, { workspaceId: id, name: request.body.name }, clock.now());
      });
      return { data: selectFields(request, projectShape(project)) };
    },
  );
}

function memberRoutes(
  app: App,
  { store, clock, onAccountChange, onAccessEnd, admitPerson }: WorkspaceRouteOptions,
): void {
  app.get(
    '/:id/members',
    {
      schema: {
        operationId: 'listMembers',
        summary: 'All members of a workspace, oldest first',
        tags: ['workspaces', 'addition'],
        params: IdParams('o_…'),
        response: { 200: DataOf(Type.Array(MemberShape)) },
      },
    },
    async (request) => {
      const { id } = request.params;
      await requireWorkspace(store.read, callerOf(request), id, 'read');
      const members = await listMembers(store.read, id);
      return { data: selectFields(request, members.map(memberShape)) };
    },
  );

  app.post(
    '/:id/members',
    {
      schema: {
        operationId: 'putMember',
        summary: 'Adds a user to a workspace, or changes the role of a member; only for its admins',
        tags: ['workspaces', 'addition'],
        params: IdParams('o_…'),
        body: Type.Object({
          user_id: Type.Optional(Type.String({ description: 'u_…; this or email' })),
          email: Type.Optional(Email),
          role: Type.Optional(OneOf(roles, { default: 'member' })),
        }),
        response: { 200: DataOf(MemberShape) },
      },
    },
    async (request) => {
      const { id } = request.params;
      const { body } = request;
      const member = await store.transaction(async (tx) => {
        await requireWorkspace(tx, callerOf(request), id, 'administer');
        const user = await findNamedUser(tx, body);
        // Another role admits no one.
        if ((await findMember(tx, id, user.id)) === undefined) {
          // As one that does not exist: it is of another workspace, or was removed.
          if (user.kind === 'service') throw notFound('user', user.id, 'user_id');
          admitPerson();
        }
        await putMember(
          tx,
          store,
          { workspaceId: id, userId: user.id, role: body.role ?? 'member' },
          clock.now(),
        );
        return findMember(tx, id, user.id);
      });
      if (member === undefined) throw notFound('member', id);
      return { data: selectFields(request, memberShape(member)) };
    },
  );

  app.delete(
    '/:id/members/:user_id',
    {
      schema: {
        operationId: 'deleteMember',
        summary: 'Removes a member; for admins of the workspace, and for leaving it',
        description:
          'Sources and workflows of the workspace can no longer use the personal accounts of the member; accounts that the member ' +
          'connected for the workspace stay. Subscriptions and triggers between the workspace and what the member owns end.',
        tags: ['workspaces', 'addition'],
        params: Type.Object({
          id: Type.String({ description: 'o_…' }),
          user_id: Type.String({ description: 'u_…' }),
        }),
        response: { 204: NoContent },
      },
    },
    async (request, reply) => {
      const { id, user_id: userId } = request.params;
      const caller = callerOf(request);
      const accountIds = await store.transaction(async (tx) => {
        await requireWorkspace(tx, caller, id, userId === caller.userId ? 'read' : 'administer');
        if ((await findMember(tx, id, userId))?.kind === 'service')
          throw new CallerError(
            'conflict',
            'user_id: found a service account, expected a person: DELETE /v1/workspaces/{id}/service_accounts/{account_id} removes it',
            { parameter: 'user_id' },
          );
        if (!(await deleteMember(tx, store, id, userId))) throw notFound('member', userId, 'user_id');
        await store.notify(tx, 'millrace_access', userId);
        return endMembership(store, tx, { workspaceId: id, userId }, clock.now());
      });
      onAccessEnd();
      for (const accountId of accountIds) onAccountChange(accountId);
      return reply.code(204).send(null);
    },
  );
}

async function findNamedUser(db: Db, named: { user_id?: string; email?: string }): Promise<User> {
  if (named.user_id !== undefined) {
    const user = await findUser(db, named.user_id);
    if (user === undefined) throw notFound('user', named.user_id, 'user_id');
    return user;
  }
  if (named.email === undefined) {
    throw new CallerError('missing_parameter', 'user_id or email: one of them is required', {
      parameter: 'user_id',
    });
  }
  const user = await findUserByEmail(db, named.email);
  if (user === undefined) throw notFound('user', named.email, 'email');
  return user;
}

async function workspaceShape(
  { store, clock, quotas }: WorkspaceRouteOptions,
  workspace: Workspace,
): Promise<Static<typeof WorkspaceShape>> {
  const [{ credits }, own] = await Promise.all([
    usageToday(store.read, workspace.id, clock.now()),
    findOwnerQuota(store.read, workspace.id),
  ]);
  return {
    id: workspace.id,
    orgname: workspace.orgname,
    name: workspace.name,
    email: workspace.email,
    daily_credits_quota: effectiveQuotas(quotas.defaults, own).credits,
    daily_credits_used: credits,
  };
}

function memberShape(member: Member): Static<typeof MemberShape> {
  return {
    user_id: member.user_id,
    username: member.username,
    email: member.email,
    role: member.role,
    kind: member.kind,
    created_at: epochSeconds(member.created_at_ms),
  };
}
