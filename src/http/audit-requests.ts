import type { FastifyReply, FastifyRequest } from 'fastify';
import {
  type AuditActor,
  type AuditContext,
  type AuditSubject,
  auditContexts,
} from '#audit/audit-context.ts';
import { isAudited } from '#audit/audited-objects.ts';
import { describeParameters } from '#audit/describe-change.ts';
import { completeRecord } from '#audit/record-change.ts';
import { type Caller, homeOf } from '#identity/permissions.ts';
import type { Clock } from '#lib/clock.ts';
import { toError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import type { Logger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import { type App, namedWorkspace } from './route-support.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The change that this request makes; undefined on routes that change nothing. */
    audit: AuditContext | undefined;
  }
}

export interface AuditRequestOptions {
  store: Store;
  clock: Clock;
  logger: Logger;
}

/**
 * Operations that are not recorded, and why. Every other route with a method other than GET is: a route that is added is recorded without
 * doing anything for it.
 */
const unrecordedOperations: Readonly<Record<string, string>> = {
  outlineExport: 'reads what was sent, and changes nothing',
  configureComponent: 'asks a component for options, and changes nothing',
  reloadComponentProps: 'asks a component for its props, and changes nothing',
  startSingleSignOn: 'changes nothing, and needs no sign-in; the sign-in that follows has a record',
  pushAppEvent: 'hands in an event, which is stored itself',
  'POST /oauth1/sign/:capability': 'signs a request of a running step, which has its own record',
};

/** Addresses to which another service sends the browser back, and whose GET changes something: a session begins, or an account is connected. */
const changedByGet: ReadonlySet<string> = new Set(['/oidc/callback', '/connect/callback']);

/** True for routes whose requests leave a record. */
export function isRecorded(method: string, path: string, operationId: string | null): boolean {
  if (method === 'GET') return changedByGet.has(path);
  return method !== 'HEAD' && !((operationId ?? `${method} ${path}`) in unrecordedOperations);
}

/** Registered before what ends a request in other ways, so that their writes are not taken for the change. */
export function completeAudit(api: App, { store, logger }: AuditRequestOptions): void {
  api.decorateRequest('audit', undefined);
  api.addHook('onSend', async (request, reply, payload) => {
    const { audit } = request;
    if (audit !== undefined) {
      // An answer is sent once, but a failed send is answered too.
      request.audit = undefined;
      try {
        await completeRecord(store, audit, reply.statusCode);
      } catch (error) {
        // What was changed is stored, so the answer stays what it is.
        const { operation, recordId } = audit;
        logger.error(
          { operation, record: recordId, error: toError(error).message },
          'audit.record-not-completed',
        );
      }
    }
    return payload;
  });
}

/** Registered after what answers a request without carrying it out. */
export function beginAudit(api: App, { clock }: AuditRequestOptions): void {
  api.addHook('preHandler', (request: FastifyRequest, _reply: FastifyReply, done: () => void) => {
    const operationId = operationOf(request);
    const { method } = request;
    const path = request.routeOptions.url ?? '';
    if (!isRecorded(method, path, operationId)) return done();
    request.audit = contextOf(request, operationId ?? `${method} ${path}`, clock);
    auditContexts.run(request.audit, done);
  });
}

function operationOf({ routeOptions }: FastifyRequest): string | null {
  const { operationId } = (routeOptions.schema ?? {}) as { operationId?: string };
  return operationId ?? null;
}

function contextOf(request: FastifyRequest, operation: string, clock: Clock): AuditContext {
  const { caller, id, ip } = request;
  const path = (request.params ?? {}) as Record<string, string>;
  return {
    recordId: newId('aud'),
    operation,
    requestId: id,
    address: ip,
    parameters: { ...describeParameters(request.query, request.body), ...describePath(request, path) },
    subject: subjectOf(request, path),
    ownerId: ownerOf(request, path),
    actor: caller === null ? publicActor : actorOf(caller),
    createdAtMs: clock.now(),
    isRecorded: false,
    before: undefined,
    further: [],
    answer: undefined,
    isOver: false,
  };
}

/** Secrets in paths: the link of a form, and tokens of capabilities. */
const secretParameters: ReadonlySet<string> = new Set(['link', 'capability', 'token']);

function describePath(request: FastifyRequest, path: Record<string, string>): Record<string, string> {
  if (request.caller === null) return {};
  return Object.fromEntries(Object.entries(path).filter(([name]) => !secretParameters.has(name)));
}

/**
 * The object that a path names last, of those whose state is recorded: of `/v1/workflows/:id/test_events/:name` the workflow. What is
 * added to a collection has its id in the answer.
 */
function subjectOf(
  { method, routeOptions }: FastifyRequest,
  path: Record<string, string>,
): AuditSubject | undefined {
  const segments = (routeOptions.url ?? '')
    .split('/')
    .filter((segment) => segment !== '' && segment !== 'v1');
  const last = segments.at(-1) ?? '';
  if (method === 'POST' && madeIn.has(last) && isAudited(last)) return { kind: last, id: null, path };
  const named = segments.flatMap((segment, at) => {
    const kind = segments[at - 1];
    const name = segment.slice(1);
    const isNamed = segment.startsWith(':') && kind !== undefined && !secretParameters.has(name);
    return isNamed ? [{ kind, id: path[name] ?? null, path }] : [];
  });
  return named.findLast(({ kind }) => isAudited(kind)) ?? named.at(-1);
}

/** Collections to which a POST adds an object. */
const madeIn: ReadonlySet<string> = new Set([
  ...['users', 'workspaces', 'projects', 'members', 'oauth_clients', 'api_keys', 'service_accounts', 'keys'],
  ...['data_stores', 'apps', 'accounts', 'subscriptions', 'auto_subscriptions', 'webhooks', 'sources'],
  ...['workflows', 'deployments', 'templates', 'imports', 'components', 'repositories', 'packages'],
]);

function ownerOf(request: FastifyRequest, path: Record<string, string>): string | null {
  const { caller, routeOptions } = request;
  const url = routeOptions.url ?? '';
  if (url.startsWith('/v1/workspaces/:id')) return path.id ?? null;
  if (/^\/v1\/(?:users(?:\/:id|\/?$)|registry)/.test(url) || caller === null) return null;
  return namedWorkspace(request)?.id ?? homeOf(caller);
}

const publicActor: AuditActor = { kind: 'public', userId: null, keyId: null, sessionId: null };

/** The caller of a request, as it is recorded. */
export function actorOf(caller: Caller): AuditActor {
  const kind =
    caller.workspaceId !== undefined
      ? 'oauth_client'
      : caller.homeId !== undefined
        ? 'service_account'
        : 'user';
  return { kind, userId: caller.userId, keyId: caller.keyId, sessionId: caller.sessionId ?? null };
}
