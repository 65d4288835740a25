import type { FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import { encodeCursor, pageRequest, pageResponse } from '#http/pagination.ts';
import {
  type App,
  callerOf,
  DataOf,
  IdParams,
  NoContent,
  ownerForCreate,
  PageOf,
  PageQuery,
} from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import { notFound, readable, requireWorkspace, writable } from '#identity/permissions.ts';
import { type Clock, epochSeconds } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import { JsonText } from '#lib/write-json.ts';
import type { Store } from '#storage/store.ts';
import type { DataStoreTable } from '#storage/tables/workflow-tables.ts';
import type { DataStoreEntries } from '#user-data/data-stores/data-store-entries.ts';
import { checkKey, checkValue, expiryOf } from '#user-data/data-stores/data-store-limits.ts';
import { findDataStore, pageOfDataStores } from '#user-data/data-stores/data-store-store.ts';
import { countEntries, listEntries, readEntry } from '#user-data/data-stores/entry-store.ts';
import { createDataStore, removeDataStore } from '#user-data/data-stores/manage-data-stores.ts';

export interface DataStoreRouteOptions {
  store: Store;
  clock: Clock;
  dataStores: DataStoreEntries;
}

/** Values with more bytes of JSON are left out of lists, as in event summaries. */
const valueInListBytesMax = 1024;

const DataStore = Type.Object({
  id: Type.String({ description: 'ds_…' }),
  name: Type.String(),
  owner_id: Type.String({ description: 'u_… or o_…' }),
  user_id: Type.Union([Type.String(), Type.Null()], {
    description: 'The user who made it; null: it was made when a step first used it',
  }),
  entries: Type.Integer({ description: 'Expired ones count until they are removed, soon after' }),
  bytes: Type.Integer({ description: 'Size of keys and values' }),
  created_at: Type.Integer({ description: 'Epoch seconds' }),
  updated_at: Type.Integer({ description: 'Epoch seconds' }),
});

const Entry = Type.Object({
  key: Type.String(),
  value: Type.Optional(
    Type.Unknown({ description: 'Any JSON. In lists left out where it is over 1 KB; `truncated` says so' }),
  ),
  truncated: Type.Optional(Type.Boolean()),
  expires_at: Type.Union([Type.Integer(), Type.Null()], { description: 'Epoch seconds; null: never' }),
  created_at: Type.Integer({ description: 'Epoch seconds' }),
  updated_at: Type.Integer({ description: 'Epoch seconds' }),
});

const EntryParams = Type.Object({
  id: Type.String({ description: 'ds_…' }),
  key: Type.String({ description: 'Percent-encoded; 1 to 512 characters' }),
});

/** Additions: data stores, which steps of workflows share, seen from outside. */
export function dataStoreRoutes(app: App, options: DataStoreRouteOptions): void {
  const support = dataStoreSupport(options);
  wholeDataStoreRoutes(app, support);
  entryRoutes(app, support);
}

type DataStoreSupport = ReturnType<typeof dataStoreSupport>;

/** What the handlers of these routes share. */
function dataStoreSupport(options: DataStoreRouteOptions) {
  const { store, clock } = options;
  const listOf = async (request: Parameters<typeof pageRequest>[0], ownerId: string) => {
    const { rows, totalCount } = await pageOfDataStores(store.read, ownerId, pageRequest(request));
    return pageResponse(selectFields(request, rows.map(dataStoreShape)), {
      totalCount,
      cursorOf: (_, index) => encodeCursor(rows[index]?.id ?? ''),
    });
  };
  const dataStoreFor = async (request: FastifyRequest, right: 'read' | 'write') => {
    const { id } = request.params as { id: string };
    const row = await findDataStore(store.read, id);
    const check = right === 'read' ? readable : writable;
    return check(store.read, callerOf(request), row, { what: 'data store', id });
  };
  async function entryOf(storeId: string, key: string): Promise<Static<typeof Entry>> {
    const row = await readEntry(store.read, storeId, key, clock.now());
    if (row === undefined) throw notFound('entry', key, 'key');
    return entryShape(row);
  }

  return { listOf, dataStoreFor, entryOf, store, clock, options };
}

function wholeDataStoreRoutes(app: App, { listOf, dataStoreFor, store, clock }: DataStoreSupport): void {
  app.post(
    '/data_stores',
    {
      schema: {
        operationId: 'createDataStore',
        summary: 'Creates a data store',
        tags: ['data stores', 'addition'],
        body: Type.Object({ name: Type.String({ minLength: 1, maxLength: 100 }) }),
        response: { 200: DataOf(DataStore) },
      },
    },
    async (request) => {
      const ownerId = await ownerForCreate(store.read, request);
      const { userId } = callerOf(request);
      const row = await createDataStore(store, { ownerId, userId, name: request.body.name }, clock);
      return { data: selectFields(request, dataStoreShape(row)) };
    },
  );

  app.get(
    '/users/me/data_stores',
    {
      schema: {
        operationId: 'listMyDataStores',
        summary: 'Your own data stores, newest first',
        tags: ['data stores', 'addition'],
        querystring: PageQuery,
        response: { 200: PageOf(DataStore) },
      },
    },
    (request) => listOf(request, callerOf(request).userId),
  );

  app.get(
    '/workspaces/:id/data_stores',
    {
      schema: {
        operationId: 'listWorkspaceDataStores',
        summary: 'Data stores of a workspace, newest first',
        tags: ['data stores', 'addition'],
        params: IdParams('o_…'),
        querystring: PageQuery,
        response: { 200: PageOf(DataStore) },
      },
    },
    async (request) => {
      await requireWorkspace(store.read, callerOf(request), request.params.id, 'read');
      return listOf(request, request.params.id);
    },
  );

  app.get(
    '/data_stores/:id',
    {
      schema: {
        operationId: 'getDataStore',
        summary: 'A data store',
        tags: ['data stores', 'addition'],
        params: IdParams('ds_…'),
        response: { 200: DataOf(DataStore) },
      },
    },
    async (request) => ({
      data: selectFields(request, dataStoreShape(await dataStoreFor(request, 'read'))),
    }),
  );

  app.delete(
    '/data_stores/:id',
    {
      schema: {
        operationId: 'deleteDataStore',
        summary: 'Removes a data store and all that is in it',
        tags: ['data stores', 'addition'],
        params: IdParams('ds_…'),
        response: { 204: NoContent },
      },
    },
    async (request, reply) => {
      const { id } = await dataStoreFor(request, 'write');
      await removeDataStore(store, id, clock);
      return reply.code(204).send(null);
    },
  );
}

function entryRoutes(app: App, { dataStoreFor, entryOf, store, clock, options }: DataStoreSupport): void {
  app.get(
    '/data_stores/:id/entries',
    {
      schema: {
        operationId: 'listDataStoreEntries',
        summary: 'What is in a data store, in the order of the keys',
        tags: ['data stores', 'addition'],
        params: IdParams('ds_…'),
        querystring: PageQuery,
        response: { 200: PageOf(Entry) },
      },
    },
    async (request) => {
      const { id } = await dataStoreFor(request, 'read');
      const nowMs = clock.now();
      const [totalCount, rows] = await Promise.all([
        countEntries(store.read, id, nowMs),
        listEntries(store.read, id, { ...pageRequest(request), nowMs, valueBytesMax: valueInListBytesMax }),
      ]);
      return pageResponse(selectFields(request, rows.map(entryShape)), {
        totalCount,
        cursorOf: (_, index) => encodeCursor(rows[index]?.key ?? ''),
      });
    },
  );

  app.get(
    '/data_stores/:id/entries/:key',
    {
      schema: {
        operationId: 'getDataStoreEntry',
        summary: 'An entry of a data store with its whole value',
        tags: ['data stores', 'addition'],
        params: EntryParams,
        response: { 200: DataOf(Entry) },
      },
    },
    async (request) => {
      const { id } = await dataStoreFor(request, 'read');
      return { data: selectFields(request, await entryOf(id, checkKey(request.params.key))) };
    },
  );

  app.put(
    '/data_stores/:id/entries/:key',
    {
      schema: {
        operationId: 'putDataStoreEntry',
        summary: 'Sets an entry of a data store',
        tags: ['data stores', 'addition'],
        params: EntryParams,
        body: Type.Object({
          value: Type.Unknown({ description: 'Any JSON of at most 1,000,000 bytes' }),
          ttl: Type.Optional(
            Type.Union([Type.Number(), Type.Null()], {
              description: 'Seconds after which it is gone; null or absent: it stays',
            }),
          ),
        }),
        response: { 200: DataOf(Entry) },
      },
    },
    async (request) => {
      const { id, owner_id: ownerId } = await dataStoreFor(request, 'write');
      const key = checkKey(request.params.key);
      if (request.body.value === undefined)
        throw new CallerError('missing_parameter', 'value: required', { parameter: 'value' });
      const value = checkValue(JSON.stringify(request.body.value));
      const expiresAtMs = expiryOf(request.body.ttl, clock.now());
      await options.dataStores.set({ storeId: id, ownerId, key }, { value, expiresAtMs });
      return { data: selectFields(request, await entryOf(id, key)) };
    },
  );

  app.delete(
    '/data_stores/:id/entries/:key',
    {
      schema: {
        operationId: 'deleteDataStoreEntry',
        summary: 'Removes an entry of a data store',
        tags: ['data stores', 'addition'],
        params: EntryParams,
        response: { 204: NoContent },
      },
    },
    async (request, reply) => {
      const { id: storeId, owner_id: ownerId } = await dataStoreFor(request, 'write');
      const key = checkKey(request.params.key);
      if (!(await options.dataStores.delete({ storeId, ownerId, key }))) throw notFound('entry', key, 'key');
      return reply.code(204).send(null);
    },
  );
}

function dataStoreShape(row: DataStoreTable): Static<typeof DataStore> {
  return {
    id: row.id,
    name: row.name,
    owner_id: row.owner_id,
    user_id: row.user_id === '' ? null : row.user_id,
    entries: row.entries,
    bytes: row.bytes,
    created_at: epochSeconds(row.created_at_ms),
    updated_at: epochSeconds(row.updated_at_ms),
  };
}

function entryShape(row: {
  key: string;
  value: string | null;
  expires_at_ms: number | null;
  created_at_ms: number;
  updated_at_ms: number;
}): Static<typeof Entry> {
  return {
    key: row.key,
    ...(row.value === null ? { truncated: true } : { value: new JsonText(row.value) }),
    expires_at: row.expires_at_ms === null ? null : epochSeconds(row.expires_at_ms),
    created_at: epochSeconds(row.created_at_ms),
    updated_at: epochSeconds(row.updated_at_ms),
  };
}
