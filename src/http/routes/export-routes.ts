import { Readable } from 'node:stream';
import { Type } from 'typebox';
import { type App, callerOf, IdParams } from '#http/route-support.ts';
import { requireWorkspace } from '#identity/permissions.ts';
import { exportOwner } from '#insights/export-store.ts';
import type { Clock } from '#lib/clock.ts';
import type { Store } from '#storage/store.ts';
import type { FileUrls } from '#user-data/files/file-urls.ts';

export interface ExportRouteOptions {
  store: Store;
  clock: Clock;
  fileUrls: Pick<FileUrls, 'urlOf'>;
}

const description =
  'One object on each line, as `{"kind", "data"}`: definitions, then files, events, runs with their steps, deliveries and audits. Secrets, values of ' +
  'variables and credentials are not in it. The content of a file can be read from its `url` for half an hour. The last line is ' +
  '`{"kind":"end"}`: without it the export was cut off.';
const contentType = 'application/x-ndjson; charset=utf-8';
const schema = {
  description,
  produces: ['application/x-ndjson'],
  response: { 200: Type.String() },
};

/** Additions: everything of a workspace, for its admins, and everything of a user personally. */
export function exportRoutes(app: App, { store, clock, fileUrls }: ExportRouteOptions): void {
  app.get(
    '/workspaces/:id/export',
    {
      schema: {
        ...schema,
        operationId: 'exportWorkspace',
        summary: 'Everything of a workspace as JSON lines',
        tags: ['workspaces', 'addition'],
        params: IdParams('o_…'),
      },
    },
    async (request, reply) => {
      const { id } = request.params;
      await requireWorkspace(store.read, callerOf(request), id, 'administer');
      return reply.type(contentType).send(exportOf(id));
    },
  );

  app.get(
    '/users/me/export',
    {
      schema: {
        ...schema,
        operationId: 'exportMe',
        summary: 'Everything that is yours personally as JSON lines',
        tags: ['users', 'addition'],
      },
    },
    async (request, reply) => reply.type(contentType).send(exportOf(callerOf(request).userId)),
  );

  /** A stream; the schema says what the whole is. */
  function exportOf(ownerId: string): string {
    return Readable.from(exportLines(ownerId)) as unknown as string;
  }

  async function* exportLines(ownerId: string): AsyncGenerator<string> {
    const options = { db: store.read, nowMs: clock.now(), urlOf: (id: string) => fileUrls.urlOf(id) };
    for await (const object of exportOwner(options, ownerId)) yield `${JSON.stringify(object)}\n`;
    yield '{"kind":"end"}\n';
  }
}
