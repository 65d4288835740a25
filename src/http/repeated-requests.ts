import type { FastifyReply, FastifyRequest } from 'fastify';
import type { ApiRequests } from '#idempotency/api-requests.ts';
import type { TakenKey } from '#idempotency/kept-answers.ts';
import { beginDigest, readKeyId } from '#idempotency/request-key.ts';
import { encodeRights, hasStill, rightsOf } from '#identity/kept-rights.ts';
import { homeOf } from '#identity/permissions.ts';
import { idempotencyConflict, inProgress, replayedHeader, sendNotKept } from '#ingress/endpoint-answer.ts';
import { CallerError } from '#lib/errors.ts';
import type { HttpReply } from '#runner/call-outcome.ts';
import type { Store } from '#storage/store.ts';
import { errorAnswer } from './error-response.ts';
import type { App } from './route-support.ts';

/** A request that is the first one with its `Idempotency-Key`. */
interface KeyedRequest {
  taken: TakenKey;
  /** Headers that every answer has. */
  commonHeaders: ReadonlySet<string>;
  /** It failed, and nothing says that nothing was done. */
  isOutcomeUnknown: boolean;
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Set for a POST with an `Idempotency-Key` that is carried out. */
    keyed: KeyedRequest | undefined;
  }
}

export interface RepeatedRequestOptions {
  store: Store;
  apiRequests: ApiRequests;
}

/**
 * Every POST of the API accepts an `Idempotency-Key`: the request is carried out once, and a repeated request is answered as the
 * first one. Keys belong to the user or OAuth client. Requests are authenticated and validated before. An operation that asks for no
 * API key has no caller who could own a key: it ignores the header.
 */
export function acceptRepeatedRequests(api: App, options: RepeatedRequestOptions): void {
  api.decorateRequest('keyed', undefined);
  api.addHook('preHandler', async (request, reply) => {
    if (request.headers['idempotency-key'] === undefined) return;
    if (request.method !== 'POST' || request.caller === null) return;
    return takeOnce(options, request, reply);
  });
  api.addHook('onError', async ({ keyed, id }, _reply, error) => {
    if (keyed === undefined) return;
    // Any other 503 says that nothing was stored; a fault of the service says nothing.
    const { status, body } = errorAnswer(error, id);
    keyed.isOutcomeUnknown = status === 500 || body.code === 'outcome_unknown';
  });
  api.addHook('onSend', async (request, reply, payload) => {
    const { keyed } = request;
    if (keyed !== undefined) {
      // A reply is sent once, but a failed send is answered too.
      request.keyed = undefined;
      await finish(options.apiRequests, keyed, { reply, payload });
    }
    return payload;
  });
}

/** Answers a repeated request; returns nothing when the request is the first one. */
async function takeOnce(
  { store, apiRequests }: RepeatedRequestOptions,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply | undefined> {
  const { caller, body } = request;
  if (caller === null) return undefined;
  const id = readKeyId(`api ${caller.userId}`, request.headers['idempotency-key']);
  if (id === undefined) return undefined;
  const rights = await rightsOf(store.read, caller);
  const outcome = await apiRequests.take({
    id,
    ownerId: homeOf(caller),
    subjectId: caller.userId,
    requestDigest: digestOf(request, body),
    requestId: request.id,
    rights: encodeRights(rights),
  });
  if ('taken' in outcome) {
    const commonHeaders = new Set(Object.keys(reply.getHeaders()));
    request.keyed = { taken: outcome.taken, commonHeaders, isOutcomeUnknown: false };
    return undefined;
  }
  const { earlier } = outcome;
  if (earlier.state === 'conflict') throw idempotencyConflict();
  if (earlier.state === 'in_progress') throw inProgress(reply);
  if (earlier.state === 'unknown') return sendUnknown(reply);
  if (earlier.rights !== null && !hasStill(rights, earlier.rights)) {
    throw new CallerError(
      'forbidden',
      'you have fewer rights than when the first request with this Idempotency-Key was answered: its answer is not repeated',
    );
  }
  const { answer } = earlier;
  if (answer.kind === 'responded') return sendAgain(reply, answer.reply);
  return answer.kind === 'not_kept' ? sendNotKept(reply, answer.status) : sendUnknown(reply);
}

/** The path as it was sent: an alias is another path. Bodies were read as JSON, so their spaces do not count. */
function digestOf({ method, originalUrl }: FastifyRequest, body: unknown): string {
  const at = originalUrl.indexOf('?');
  const path = at === -1 ? originalUrl : originalUrl.slice(0, at);
  const queryString = at === -1 ? '' : originalUrl.slice(at + 1);
  const bytes = Buffer.isBuffer(body) ? body : JSON.stringify(body ?? {});
  return beginDigest({ method, path, queryString }).update(bytes).digest('base64url');
}

/** Keeps an answer before it is sent. A request that was refused leaves no key: corrected, it can be sent with the same one. */
async function finish(
  apiRequests: ApiRequests,
  { taken, commonHeaders, isOutcomeUnknown }: KeyedRequest,
  { reply, payload }: { reply: FastifyReply; payload: unknown },
): Promise<void> {
  const { statusCode: status } = reply;
  if (isOutcomeUnknown) return apiRequests.abandon(taken);
  if (status >= 400) return apiRequests.free(taken);
  const headers: HttpReply['headers'] = {};
  for (const [name, value] of Object.entries(reply.getHeaders()))
    if (!commonHeaders.has(name) && value !== undefined)
      headers[name] = Array.isArray(value) ? value : String(value);
  const body = Buffer.isBuffer(payload) ? payload : Buffer.from(typeof payload === 'string' ? payload : '');
  return apiRequests.keep(taken, { status, headers, body });
}

function sendAgain(reply: FastifyReply, { status, headers, body }: HttpReply): FastifyReply {
  reply.code(status).headers(headers).header(replayedHeader, 'true');
  return body.length === 0 ? reply.send() : reply.send(body);
}

/** 409, not the 503 of a store that was lost: to send the request again is of no use. */
function sendUnknown(reply: FastifyReply): FastifyReply {
  return reply.code(409).send({
    error:
      'the service stopped, or failed, while it carried out the first request with this Idempotency-Key: check whether it was done, and use a new key to do it again',
    code: 'outcome_unknown',
    details: {},
  });
}
