import { Type } from 'typebox';
import type { PackageFetcher } from '#components/package-fetcher.ts';
import { encodeCursor, pageRequest, pageResponse } from '#http/pagination.ts';
import { type App, callerOf, DataOf, NoContent, OneOf, PageOf, PageQuery } from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import type { Clock } from '#lib/clock.ts';
import type { Logger } from '#lib/logger.ts';
import { addPackage, removePackages, viewPackages } from '#registry/add-package.ts';
import { packagesQuery } from '#registry/package-store.ts';
import { pageOf } from '#storage/page.ts';
import type { Store } from '#storage/store.ts';
import { packageKinds } from '#storage/tables/registry-tables.ts';

const Package = Type.Object({
  id: Type.String({ description: 'pkg_…' }),
  kind: OneOf(packageKinds),
  name: Type.String({ description: 'The name of the package; for a folder, the path at which it was added' }),
  version: Type.String({ description: 'Exact; of a folder, a hash of its content' }),
  integrity: Type.String({ description: 'Subresource integrity of what was added' }),
  apps: Type.Array(Type.String(), { description: 'Slugs of the apps it has app files of' }),
  keys: Type.Array(
    Type.Object({ key: Type.String(), version: Type.String(), type: OneOf(['source', 'action']) }),
  ),
  problems: Type.Array(Type.Object({ path: Type.String(), message: Type.String() }), {
    description: 'Files that were left out, and why',
  }),
  created_at: Type.Integer({ description: 'Epoch seconds' }),
});

const Name = Type.String({ maxLength: 4096, description: 'Name of the package, such as @pipedream/slack' });

export interface RegistryRouteOptions {
  store: Store;
  clock: Clock;
  logger: Logger;
  packageFetcher: PackageFetcher;
}

/** Additions: where components come from, for admins of the instance. Folders are added by the command line only. */
export function registryRoutes(app: App, options: RegistryRouteOptions): void {
  const { store, clock, logger, packageFetcher } = options;

  const config = { adminMay: 'see and change its packages of components' };

  app.post(
    '/registry/packages',
    {
      config,
      schema: {
        operationId: 'addRegistryPackage',
        tags: ['components', 'addition'],
        summary: 'Add the components of an npm package for all users; only for the admin of the instance',
        description: 'Answers a version that is there already as it is. Other versions of the package stay.',
        body: Type.Object({
          name: Name,
          version: Type.Optional(
            Type.String({ maxLength: 200, description: 'Version, range or tag; default latest' }),
          ),
        }),
        response: { 200: DataOf(Package) },
      },
    },
    async (request) => {
      const { userId } = callerOf(request);
      const { name, version } = request.body;
      const added = await addPackage({ store, clock, fetcher: packageFetcher }, { name, version, userId });
      const { id, version: exact } = added;
      logger.info({ package: id, name, version: exact, user: userId }, 'registry.package-added');
      return { data: selectFields(request, added) };
    },
  );

  app.get(
    '/registry/packages',
    {
      config,
      schema: {
        operationId: 'listRegistryPackages',
        tags: ['components', 'addition'],
        summary: 'The packages that components come from, newest first; only for the admin of the instance',
        querystring: PageQuery,
        response: { 200: PageOf(Package) },
      },
    },
    async (request) => {
      const { rows, totalCount } = await pageOf(packagesQuery(store.read), pageRequest(request));
      return pageResponse(selectFields(request, await viewPackages(store, rows)), {
        totalCount,
        cursorOf: (_item, index) => encodeCursor(rows[index]?.id ?? ''),
      });
    },
  );

  app.delete(
    '/registry/packages',
    {
      config,
      schema: {
        operationId: 'removeRegistryPackage',
        tags: ['components', 'addition'],
        summary: 'Remove a package, or one version of it; only for the admin of the instance',
        description: 'Sources and workflows that use components of it run on.',
        querystring: Type.Object({
          name: Name,
          version: Type.Optional(Type.String({ maxLength: 200, description: 'Exact; default all versions' })),
        }),
        response: { 204: NoContent },
      },
    },
    async (request, reply) => {
      const { userId } = callerOf(request);
      const { name, version } = request.query;
      const removed = await removePackages({ store }, name, version);
      const versions = removed.map((row) => row.version);
      logger.info({ name, versions, user: userId }, 'registry.package-removed');
      return reply.code(204).send(null);
    },
  );
}
