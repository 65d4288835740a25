import { type Static, Type } from 'typebox';
import { deleteUser, type UserDeletion } from '#deletion/delete-user.ts';
import { deleteWorkspace } from '#deletion/delete-workspace.ts';
import { endMembership } from '#http/end-membership.ts';
import { encodeCursor, pageRequest, pageResponse } from '#http/pagination.ts';
import { type App, callerOf, DataOf, IdParams, OneOf, PageOf, pageParameters } from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import { findDeletion, pageOfDeletions } from '#identity/deletion-store.ts';
import { type Caller, notFound } from '#identity/permissions.ts';
import { lastErrors } from '#jobs/job-store.ts';
import { type Clock, epochSeconds } from '#lib/clock.ts';
import type { Logger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import { type DeletionTable, deletionKinds, deletionStates } from '#storage/tables/deletion-tables.ts';

export interface DeletionRouteOptions {
  store: Store;
  clock: Clock;
  logger: Logger;
  /** Sources and workflows that use the account must run with what it is now. */
  onAccountChange: (accountId: string) => void;
  /** Called when access has ended: streams check at once whether their readers may still read. */
  onAccessEnd: () => void;
  /** Requests to endpoints of the owner are refused from then on. */
  onOwnerDeleted: (ownerId: string) => void;
  /** A job was queued. */
  onJobs: () => void;
}

const Deletion = Type.Object({
  id: Type.String({ description: 'del_…' }),
  kind: OneOf(deletionKinds),
  subject_id: Type.String({ description: 'o_… or u_…' }),
  name: Type.Union([Type.String(), Type.Null()], {
    description: 'The orgname or the username; null: of a user whose deletion is done',
  }),
  state: OneOf(deletionStates, {
    description: 'ending: hooks run, and what runs ends; removing: rows are removed; done: nothing is left',
  }),
  removed_rows: Type.Integer({ description: 'Rows of the store that were removed so far' }),
  problem: Type.Union([Type.String(), Type.Null()], {
    description: 'Why the last attempt to continue failed: it is tried again; null: none did',
  }),
  requested_by: Type.String({ description: 'u_…' }),
  created_at: Type.Integer(),
  ended_at: Type.Union([Type.Integer(), Type.Null()]),
});
const DeletionOfUser = Type.Intersect([
  Deletion,
  Type.Object({
    workspaces: Type.Array(Deletion, {
      description: 'Workspaces in which the user was the only person: they go too',
    }),
  }),
]);
const username = Type.String({ description: 'The name of the user, as a confirmation' });

/** Additions: deleting workspaces and users with everything that is theirs. */
export function deletionRoutes(app: App, options: DeletionRouteOptions): void {
  const { store, clock, logger } = options;

  app.delete(
    '/workspaces/:id',
    {
      schema: {
        operationId: 'deleteWorkspace',
        summary: 'Deletes a workspace and everything in it; only for its admins',
        description:
          'Access, endpoints and timers end at once; sources are deactivated, runs end, and all data is removed in the background: ' +
          'GET /v1/deletions/{id} has the state. It cannot be undone. While the workspace is under a legal hold the answer is 409.',
        tags: ['workspaces', 'addition'],
        params: IdParams('o_…'),
        body: Type.Object({
          orgname: Type.String({ description: 'The orgname of the workspace, as a confirmation' }),
        }),
        response: { 202: DataOf(Deletion) },
      },
    },
    async (request, reply) => {
      const caller = callerOf(request);
      const { id: workspaceId } = request.params;
      const deletion = await deleteWorkspace(
        store,
        caller,
        { workspaceId, orgname: request.body.orgname },
        clock,
      );
      begun([deletion], caller);
      return reply.code(202).send({ data: selectFields(request, shown(deletion)) });
    },
  );

  app.delete(
    '/users/me',
    {
      schema: {
        operationId: 'deleteMe',
        summary: 'Deletes your user and everything that is yours personally',
        description:
          'API keys, sessions and streams end at once. What you made in workspaces stays there; workspaces in which you are the only person ' +
          'are deleted too. The answer is 409 for the last admin of the instance, while you are the only admin of a workspace with other ' +
          'members, and while a workspace that would go too is under a legal hold.',
        tags: ['users', 'addition'],
        body: Type.Object({ username }),
        response: { 202: DataOf(DeletionOfUser) },
      },
    },
    async (request, reply) => {
      const caller = callerOf(request);
      const answer = await deleteOne(caller, caller.userId, request.body.username);
      return reply.code(202).send({ data: selectFields(request, answer) });
    },
  );

  app.delete(
    '/users/:id',
    {
      config: { adminMay: 'delete users' },
      schema: {
        operationId: 'deleteUser',
        summary:
          'Deletes a user and everything that is theirs personally; only for the admin of the instance',
        description: 'As DELETE /v1/users/me. Service accounts are deleted in their workspace.',
        tags: ['users', 'addition'],
        params: IdParams('u_…'),
        body: Type.Object({ username }),
        response: { 202: DataOf(DeletionOfUser) },
      },
    },
    async (request, reply) => {
      const answer = await deleteOne(callerOf(request), request.params.id, request.body.username);
      return reply.code(202).send({ data: selectFields(request, answer) });
    },
  );

  app.get(
    '/deletions',
    {
      config: { adminMay: 'see what was deleted' },
      schema: {
        operationId: 'listDeletions',
        summary: 'Deletions of workspaces and users, newest first; only for the admin of the instance',
        tags: ['users', 'addition'],
        querystring: Type.Object({ ...pageParameters }),
        response: { 200: PageOf(Deletion) },
      },
    },
    async (request) => {
      const { rows, totalCount } = await pageOfDeletions(store.read, pageRequest(request));
      const problems = await problemsOf(rows);
      const deletions = rows.map((row) => shown(row, problems.get(row.subject_id)));
      return pageResponse(selectFields(request, deletions), {
        totalCount,
        cursorOf: (_, index) => encodeCursor(rows[index]?.id ?? ''),
      });
    },
  );

  app.get(
    '/deletions/:id',
    {
      schema: {
        operationId: 'getDeletion',
        summary: 'How far a deletion is; for the user who asked for it, and the admin of the instance',
        tags: ['users', 'addition'],
        params: IdParams('del_…'),
        response: { 200: DataOf(Deletion) },
      },
    },
    async (request) => {
      const { id } = request.params;
      const { userId, isAdmin } = callerOf(request);
      const deletion = await findDeletion(store.read, id);
      if (deletion === undefined || (!isAdmin && deletion.requested_by !== userId))
        throw notFound('deletion', id);
      const problems = await problemsOf([deletion]);
      return { data: selectFields(request, shown(deletion, problems.get(deletion.subject_id))) };
    },
  );

  /** By subject. The second look at what was deleted is no part of its state. */
  function problemsOf(rows: readonly DeletionTable[]): Promise<Map<string, string>> {
    const underWay = rows.filter(({ state }) => state !== 'done');
    return lastErrors(
      store.read,
      'delete_owner',
      underWay.map(({ subject_id }) => subject_id),
    );
  }

  async function deleteOne(
    caller: Caller,
    userId: string,
    name: string,
  ): Promise<Static<typeof DeletionOfUser>> {
    const deleting = {
      ...{ store, clock },
      endMembership: (tx: Parameters<typeof endMembership>[1], member: Parameters<typeof endMembership>[2]) =>
        endMembership(store, tx, member, clock.now()),
    };
    const { user, workspaces, accountIds }: UserDeletion = await deleteUser(deleting, caller, {
      ...{ userId, username: name },
    });
    begun([user, ...workspaces], caller);
    for (const accountId of accountIds) options.onAccountChange(accountId);
    return { ...shown(user), workspaces: workspaces.map((row) => shown(row)) };
  }

  function begun(deletions: readonly DeletionTable[], caller: Caller): void {
    for (const { id, kind, subject_id: subject } of deletions) {
      options.onOwnerDeleted(subject);
      logger.info({ deletion: id, kind, subject, by: caller.userId }, 'deletion.accepted');
    }
    options.onAccessEnd();
    options.onJobs();
  }
}

function shown(row: DeletionTable, problem: string | null = null): Static<typeof Deletion> {
  const { owner_ids: _owners, created_at_ms, ended_at_ms, removed_rows, ...fields } = row;
  return {
    ...fields,
    removed_rows: Number(removed_rows),
    problem,
    created_at: epochSeconds(created_at_ms),
    ended_at: ended_at_ms === null ? null : epochSeconds(ended_at_ms),
  };
}
