import { Readable } from 'node:stream';
import type { FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import { type AuditFilter, auditRecordsAfter, selectAuditRecords } from '#audit/audit-store.ts';
import { encodeCursor, pageRequest, pageResponse } from '#http/pagination.ts';
import { type App, callerOf, namedWorkspace, OneOf, PageOf, pageParameters } from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import { homeOf, requireWorkspace } from '#identity/permissions.ts';
import { CallerError } from '#lib/errors.ts';
import type { Db, Store } from '#storage/store.ts';
import { type AuditRecordTable, auditActorKinds } from '#storage/tables/audit-tables.ts';

export interface AuditRouteOptions {
  store: Store;
}

const Text = Type.Union([Type.String(), Type.Null()]);
const Fields = (description: string) =>
  Type.Union([Type.Record(Type.String(), Type.Unknown()), Type.Null()], { description });
const AuditRecord = Type.Object({
  id: Type.String({ description: 'aud_…' }),
  owner_id: Type.Union([Type.String(), Type.Null()], {
    description: 'u_… or o_… that the changed object belongs to; null: the instance',
  }),
  actor: Type.Object({
    kind: OneOf(auditActorKinds, { description: '`operator`: a command on the data folder' }),
    user_id: Type.Union([Type.String(), Type.Null()], { description: 'u_…, or oac_… of an OAuth client' }),
    key_id: Type.Union([Type.String(), Type.Null()], { description: 'key_… or tok_…' }),
    session: Type.Union([Type.String(), Type.Null()], { description: 'ses_…' }),
    address: Text,
  }),
  operation: Type.String({
    description: 'The operationId; `GET /oidc/callback`: a sign-in with the provider',
  }),
  object_kind: Text,
  object_id: Text,
  status: Type.Union([Type.Integer(), Type.Null()], {
    description: 'HTTP status of the answer; null: the service stopped before it answered',
  }),
  before: Fields('The fields that changed, before; secrets are `(hidden)`, URLs are cut after the host'),
  after: Fields('The same fields, after; null: the object is gone'),
  parameters: Type.Record(Type.String(), Type.Unknown(), {
    description: 'Parameters of the request; values that may be secret are `(hidden)`',
  }),
  request_id: Type.Union([Type.String(), Type.Null()], { description: 'x-request-id of the answer' }),
  created_at: Type.String({ description: 'ISO 8601' }),
});

const instant = (description: string) => Type.Optional(Type.Integer({ minimum: 0, description }));
const filterParameters = {
  operation: Type.Optional(Type.String({ description: 'Only this operationId' })),
  object_id: Type.Optional(Type.String({ description: 'Only changes of this object' })),
  user_id: Type.Optional(Type.String({ description: 'Only changes by this user or OAuth client' })),
  key_id: Type.Optional(Type.String({ description: 'Only changes with this API key or access token' })),
  from: instant('Epoch seconds: only from then on'),
  to: instant('Epoch seconds: only before'),
  instance: Type.Optional(
    Type.Boolean({
      description:
        'Changes of users, of the registry and of the instance; only for the admin of the instance',
    }),
  ),
};
type Filters = { [K in keyof typeof filterParameters]?: Static<(typeof filterParameters)[K]> };
/** Records that an export reads at a time. */
const exportedAtOnce = 500;

/** Additions: the audit of all changes. */
export function auditRoutes(app: App, { store }: AuditRouteOptions): void {
  const tags = ['audit', 'addition'];
  const about =
    'Every change through the API, and by commands on the data folder: who made it, what changed, when, and from which address. Of a ' +
    'workspace (org_id) for its admins, else of what belongs to you personally. Kept for MILLRACE_AUDIT_DAYS.';

  app.get(
    '/audit',
    {
      schema: {
        operationId: 'listAudit',
        tags,
        summary: 'The audit of all changes, newest first',
        description: about,
        querystring: Type.Object({ ...pageParameters, ...filterParameters }),
        response: { 200: PageOf(AuditRecord) },
      },
    },
    async (request) => {
      const filter = await filterOf(store.read, request, request.query);
      const { rows, totalCount } = await selectAuditRecords(store.read, filter, pageRequest(request));
      const cursors = rows.map(({ id }) => encodeCursor(id));
      return pageResponse(selectFields(request, rows.map(viewRecord)), {
        totalCount,
        cursorOf: (_record, index) => cursors[index] ?? '',
      });
    },
  );

  app.get(
    '/audit/export',
    {
      schema: {
        operationId: 'exportAudit',
        tags,
        summary: 'The audit of all changes as JSON lines, oldest first',
        description: `${about} One record on each line, all that match the filter.`,
        querystring: Type.Object(filterParameters),
        produces: ['application/x-ndjson'],
        response: { 200: Type.String() },
      },
    },
    async (request, reply) => {
      const filter = await filterOf(store.read, request, request.query);
      const lines = Readable.from(exportLines(store.read, filter));
      return reply.type('application/x-ndjson; charset=utf-8').send(lines as unknown as string);
    },
  );
}

async function* exportLines(db: Db, filter: AuditFilter): AsyncGenerator<string> {
  for (let after: AuditRecordTable | undefined; ; ) {
    const records = await auditRecordsAfter(db, filter, { after, limit: exportedAtOnce });
    for (const record of records) yield `${JSON.stringify(viewRecord(record))}\n`;
    after = records.at(-1);
    if (records.length < exportedAtOnce) return;
  }
}

/** The records that a request asks for. Throws CallerError `not_found`, `forbidden` or `invalid_parameter`. */
async function filterOf(db: Db, request: FastifyRequest, query: Filters): Promise<AuditFilter> {
  const caller = callerOf(request);
  const named = namedWorkspace(request);
  const { operation, object_id: objectId, user_id: userId, key_id: keyId, from, to } = query;
  let ownerId: string | null = named?.id ?? homeOf(caller);
  if (query.instance === true) {
    if (!caller.isAdmin) {
      throw new CallerError(
        'forbidden',
        'only the admin of this instance may see the changes of the instance',
      );
    }
    if (named !== undefined) {
      throw new CallerError('invalid_parameter', 'instance: found beside a workspace, expected one of both', {
        parameter: 'instance',
      });
    }
    ownerId = null;
  } else if (ownerId !== caller.userId) {
    await requireWorkspace(db, caller, ownerId, 'administer', named?.parameter);
  }
  return {
    ownerId,
    ...(operation === undefined ? {} : { operation }),
    ...(objectId === undefined ? {} : { objectId }),
    ...(userId === undefined ? {} : { userId }),
    ...(keyId === undefined ? {} : { keyId }),
    ...(from === undefined ? {} : { fromMs: from * 1000 }),
    ...(to === undefined ? {} : { toMs: to * 1000 }),
  };
}

function viewRecord(row: AuditRecordTable): Static<typeof AuditRecord> {
  const parsed = (text: string | null) =>
    text === null ? null : (JSON.parse(text) as Record<string, unknown>);
  return {
    id: row.id,
    owner_id: row.owner_id,
    actor: {
      kind: row.actor_kind,
      user_id: row.user_id,
      key_id: row.key_id,
      session: row.session,
      address: row.address,
    },
    operation: row.operation,
    object_kind: row.object_kind,
    object_id: row.object_id,
    status: row.status,
    before: parsed(row.before),
    after: parsed(row.after),
    parameters: parsed(row.parameters) ?? {},
    request_id: row.request_id,
    created_at: new Date(row.created_at_ms).toISOString(),
  };
}
