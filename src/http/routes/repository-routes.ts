import { Type } from 'typebox';
import { encodeCursor, pageRequest, pageResponse } from '#http/pagination.ts';
import { type App, callerOf, DataOf, NoContent, OneOf, PageOf, PageQuery } from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import type { Clock } from '#lib/clock.ts';
import type { Logger } from '#lib/logger.ts';
import {
  addRepository,
  noRepository,
  removeRepository,
  requestUpdate,
  viewRepository,
} from '#registry/manage-repositories.ts';
import { forgetRepository, type RepositoryOptions } from '#registry/open-repository.ts';
import { findRepository, repositoriesQuery } from '#registry/repository-store.ts';
import { progressPhases } from '#registry/update-repository.ts';
import { pageOf } from '#storage/page.ts';
import type { Store } from '#storage/store.ts';
import { repositoryStates } from '#storage/tables/registry-tables.ts';

const Repository = Type.Object({
  id: Type.String({ description: 'repo_…' }),
  url: Type.String({ description: 'An https URL, or the path of a clone on the machine of the service' }),
  ref: Type.String({ description: 'A branch, a tag or a commit; empty: the default branch' }),
  commit: Type.Union([Type.String(), Type.Null()], {
    description: 'The commit at the ref when the repository was last read; null: it was not read yet',
  }),
  state: OneOf(repositoryStates),
  state_since: Type.Integer({ description: 'Epoch seconds' }),
  error: Type.Union([Type.Object({ code: Type.String(), message: Type.String() }), Type.Null()], {
    description: 'Why the last update failed; the result of the update before it is still used',
  }),
  progress: Type.Union(
    [
      Type.Object({
        phase: OneOf(progressPhases),
        done: Type.Integer({
          description: 'Bytes while downloading; else objects, commits, files or versions',
        }),
        total: Type.Union([Type.Integer(), Type.Null()]),
      }),
      Type.Null(),
    ],
    { description: 'Of the update that is under way' },
  ),
  commits: Type.Integer({ description: 'Commits that were read' }),
  components: Type.Integer({ description: 'Components at the ref' }),
  versions: Type.Integer({ description: 'Versions of components in the history' }),
  problems: Type.Array(Type.Object({ path: Type.String(), message: Type.String() }), {
    description: 'Files at the ref that were left out, and why',
  }),
  created_at: Type.Integer({ description: 'Epoch seconds' }),
  indexed_at: Type.Union([Type.Integer(), Type.Null()], {
    description: 'Epoch seconds: when the last successful update ended',
  }),
});

export interface RepositoryRouteOptions {
  store: Store;
  clock: Clock;
  logger: Logger;
  repositoryOptions: RepositoryOptions;
}

/** Additions: Git repositories that components come from, for admins of the instance. */
export function repositoryRoutes(app: App, options: RepositoryRouteOptions): void {
  const { store, clock, logger, repositoryOptions } = options;
  const config = { adminMay: 'see and change its Git repositories of components' };
  const shared = { tags: ['components', 'addition'] };
  const IdParams = Type.Object({ id: Type.String({ description: 'repo_…' }) });

  app.post(
    '/registry/repositories',
    {
      config,
      schema: {
        ...shared,
        operationId: 'addRegistryRepository',
        summary:
          'Add the components in the history of a Git repository for all users; only for the admin of the instance',
        description:
          'Responds at once. The repository is read in the background: state and progress say how far that is. A repository that is there already is updated.',
        body: Type.Object({
          url: Type.String({
            maxLength: 2000,
            description: 'An https URL, or the absolute path of a clone on the machine of the service',
          }),
          ref: Type.Optional(
            Type.String({
              maxLength: 250,
              description: 'A branch, a tag or a commit; default: the default branch',
            }),
          ),
        }),
        response: { 200: DataOf(Repository) },
      },
    },
    async (request) => {
      const { userId } = callerOf(request);
      const { url, ref } = request.body;
      const row = await addRepository({ store, clock }, { url, ref, userId });
      logger.info(
        { repository: row.id, url: row.url, ref: row.ref, user: userId },
        'registry.repository-added',
      );
      return { data: selectFields(request, viewRepository(row)) };
    },
  );

  app.get(
    '/registry/repositories',
    {
      config,
      schema: {
        ...shared,
        operationId: 'listRegistryRepositories',
        summary:
          'The Git repositories that components come from, newest first; only for the admin of the instance',
        querystring: PageQuery,
        response: { 200: PageOf(Repository) },
      },
    },
    async (request) => {
      const { rows, totalCount } = await pageOf(repositoriesQuery(store.read), pageRequest(request));
      return pageResponse(selectFields(request, rows.map(viewRepository)), {
        totalCount,
        cursorOf: (_item, index) => encodeCursor(rows[index]?.id ?? ''),
      });
    },
  );

  app.get(
    '/registry/repositories/:id',
    {
      config,
      schema: {
        ...shared,
        operationId: 'getRegistryRepository',
        summary: 'A Git repository that components come from; only for the admin of the instance',
        params: IdParams,
        response: { 200: DataOf(Repository) },
      },
    },
    async (request) => {
      const row = await findRepository(store.read, request.params.id);
      if (row === undefined) throw noRepository(request.params.id);
      return { data: selectFields(request, viewRepository(row)) };
    },
  );

  app.post(
    '/registry/repositories/:id/update',
    {
      config,
      schema: {
        ...shared,
        operationId: 'updateRegistryRepository',
        summary: 'Read the new commits of a Git repository; only for the admin of the instance',
        description: 'Responds at once, as adding it does.',
        params: IdParams,
        response: { 200: DataOf(Repository) },
      },
    },
    async (request) => {
      const row = await requestUpdate({ store, clock }, request.params.id);
      return { data: selectFields(request, viewRepository(row)) };
    },
  );

  app.delete(
    '/registry/repositories/:id',
    {
      config,
      schema: {
        ...shared,
        operationId: 'removeRegistryRepository',
        summary: 'Remove a Git repository from the registry; only for the admin of the instance',
        description: 'Sources and workflows that use components of it run on.',
        params: IdParams,
        response: { 204: NoContent },
      },
    },
    async (request, reply) => {
      const { userId } = callerOf(request);
      const { id, url, ref } = await removeRepository({ store }, request.params.id);
      await forgetRepository(repositoryOptions, id);
      logger.info({ repository: id, url, ref, user: userId }, 'registry.repository-removed');
      return reply.code(204).send(null);
    },
  );
}
