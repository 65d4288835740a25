import type { IncomingMessage, ServerResponse } from 'node:http';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyBaseLogger, FastifyInstance, FastifyRequest, RawServerDefault } from 'fastify';
import { type TSchema, Type } from 'typebox';
import type { Caller } from '#identity/permissions.ts';
import { requireWorkspace, resolveOwner } from '#identity/permissions.ts';
import { assert } from '#lib/assert.ts';
import { CallerError } from '#lib/errors.ts';
import type { Db } from '#storage/store.ts';
import type { RouteScope } from './route-scope.ts';

/** Fastify with types that come from the TypeBox schemas of each route. */
export type App = FastifyInstance<
  RawServerDefault,
  IncomingMessage,
  ServerResponse,
  FastifyBaseLogger,
  TypeBoxTypeProvider
>;

declare module 'fastify' {
  interface FastifyRequest {
    /** Set by authenticate.ts; null on public routes. Read it through `callerOf`. */
    caller: Caller | null;
  }
  interface FastifyContextConfig {
    /** Answered without an API key. Everything else is authenticated: deny by default. Set by follow-table.ts for routes of the API. */
    public?: boolean;
    /** Access tokens of OAuth clients are refused. Set by follow-table.ts. */
    refusesTokens?: boolean;
    /** The scope that an API key needs; absent on routes that no key is needed for. Set by follow-table.ts. */
    scope?: RouteScope;
    /** What only the admin of the instance may do, for the error message. Required on routes for the admin of the instance. */
    adminMay?: string;
    /** For a public route: a key that is sent identifies the caller. */
    takesKey?: boolean;
    /** A page of the dashboard: no operation, so a request for its path with another method gets no hint of it. */
    page?: boolean;
    /** Bytes of user code pass through: no common parameters, no security headers of the service, no log line per request. */
    userContent?: boolean;
  }
}

/** The caller of this request. Only for routes that are not public. */
export function callerOf(request: Pick<FastifyRequest, 'caller'>): Caller {
  assert(request.caller !== null, 'a caller on an authenticated route');
  return request.caller;
}

/** `{ data: … }`, the form of every single-object answer. */
export function DataOf<S extends TSchema>(schema: S) {
  return Type.Object({ data: schema });
}

const PageInfo = Type.Object({
  total_count: Type.Optional(Type.Integer({ description: 'Items of the whole list' })),
  count: Type.Integer({ description: 'Items on this page' }),
  start_cursor: Type.Optional(Type.String()),
  end_cursor: Type.Optional(Type.String()),
});

/** `{ page_info, data: [ … ] }`, the form of every paginated answer. */
export function PageOf<S extends TSchema>(schema: S) {
  return Type.Object({ page_info: PageInfo, data: Type.Array(schema) });
}

export const ErrorBody = Type.Object({
  error: Type.String({ description: 'One sentence a person can act on' }),
  code: Type.String(),
  details: Type.Record(Type.String(), Type.Unknown(), {
    description: '`parameter` names the offending parameter of a validation error',
  }),
});

/** One of these texts: a state, a kind or a reason, from the list that is beside its table. */
export function OneOf<const Values extends string[]>(
  values: readonly [...Values],
  options: { description?: string; default?: Values[number] } = {},
) {
  return Type.Enum(values, options);
}

/** The same, or null. */
export function OneOfOrNull<const Values extends string[]>(
  values: readonly [...Values],
  options: { description?: string } = {},
) {
  // An enum with null in it, not a union: answers are written without a search for the branch that fits.
  return Type.Unsafe<Values[number] | null>({ enum: [...values, null], ...options });
}

/** Nothing: the body of a 204. */
export const NoContent = Type.Null({ description: 'Done; empty body' });

/** An id in the path. */
export function IdParams(description: string) {
  return Type.Object({ id: Type.String({ description }) });
}

/** Accepted by every operation, in the query and in a JSON body; added to each route's schema by common-parameters.ts. */
export const commonParameters = {
  include: Type.Optional(
    Type.String({ description: 'Response fields to include, comma-separated; default all' }),
  ),
  exclude: Type.Optional(
    Type.String({ description: 'Response fields to exclude, comma-separated; default none' }),
  ),
  org_id: Type.Optional(Type.String({ description: 'Workspace in which the operation takes effect' })),
  workspace_id: Type.Optional(Type.String({ description: 'The same as org_id' })),
};

export const pageParameters = {
  limit: Type.Optional(
    Type.Integer({ minimum: 1, default: 10, description: 'Items on a page; values above 100 mean 100' }),
  ),
  after: Type.Optional(Type.String({ description: 'Cursor: items after it' })),
  before: Type.Optional(Type.String({ description: 'Cursor: items before it' })),
};
/** Query of a list. Add own parameters with `Type.Object({ ...pageParameters, mine: … })`. */
export const PageQuery = Type.Object(pageParameters);

/** A parameter that may be in the query or in a JSON body; the query wins. */
export function parameterOf(request: Pick<FastifyRequest, 'query' | 'body'>, name: string): unknown {
  const fromQuery = (request.query as Record<string, unknown> | undefined)?.[name];
  if (fromQuery !== undefined) return fromQuery;
  const { body } = request;
  return typeof body === 'object' && body !== null ? (body as Record<string, unknown>)[name] : undefined;
}

/**
 * The workspace that org_id or workspace_id names, in query or body; undefined when none is named. Throws CallerError
 * `invalid_parameter` when the two differ.
 */
export function namedWorkspace(
  request: Pick<FastifyRequest, 'query' | 'body'>,
): { id: string; parameter: string } | undefined {
  const orgId = parameterOf(request, 'org_id');
  const workspaceId = parameterOf(request, 'workspace_id');
  if (orgId !== undefined && workspaceId !== undefined && orgId !== workspaceId) {
    throw new CallerError('invalid_parameter', 'org_id and workspace_id name different workspaces', {
      parameter: 'workspace_id',
    });
  }
  const id = orgId ?? workspaceId;
  if (typeof id !== 'string' || id === '') return undefined;
  return { id, parameter: orgId === undefined ? 'workspace_id' : 'org_id' };
}

/**
 * For what is made where owners follow from something else: a workspace that is named has to be one the caller is in.
 * Throws as `namedWorkspace` does, and CallerError `not_found`.
 */
export async function requireNamedWorkspace(
  db: Db,
  request: Pick<FastifyRequest, 'query' | 'body' | 'caller'>,
): Promise<void> {
  const named = namedWorkspace(request);
  if (named !== undefined) await requireWorkspace(db, callerOf(request), named.id, 'read', named.parameter);
}

/**
 * The owner named by org_id or workspace_id, in query or body; the caller personally when none is named. Throws
 * CallerError `invalid_parameter` when the two differ, `not_found` for a workspace the caller is not in, `forbidden`
 * for a viewer.
 */
export async function ownerForCreate(
  db: Db,
  request: Pick<FastifyRequest, 'query' | 'body' | 'caller'>,
): Promise<string> {
  const named = namedWorkspace(request);
  return resolveOwner(db, callerOf(request), named?.id, named?.parameter);
}
