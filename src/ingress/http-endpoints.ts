import type { Hash } from 'node:crypto';
import { errorCodes, type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import type { EndpointAnswer } from '#idempotency/kept-answer.ts';
import type { KeptAnswers } from '#idempotency/kept-answers.ts';
import { beginDigest, type RequestKey, readKeyId } from '#idempotency/request-key.ts';
import { must } from '#lib/assert.ts';
import { UnavailableError } from '#lib/errors.ts';
import { messagePage, messagePageHeaders, prefersHtml } from '#lib/message-page.ts';
import { endpointRemoved, unknownEndpoint } from '#sources/endpoint-errors.ts';
import type { LinkAction } from '#storage/tables/workflow-tables.ts';
import { readLink } from '#workflows/runs/run-link.ts';
import type { RequestAcceptor } from './accept-request.ts';
import { answerRepeated, inProgress, runIdHeader, sendAnswer } from './endpoint-answer.ts';
import { type BodyTurn, EndpointBodies } from './endpoint-bodies.ts';
import { isControlled } from './request-controls.ts';
import { type EndpointRequest, requestEventJson, requestObject, setAsideEventJson } from './request-event.ts';
import { type Endpoint, type EndpointDirectory, type SourceEndpoint, subjectOf } from './resolve-endpoint.ts';
import { type LinkTarget, sendBrokenLink, sendLinkOutcome } from './run-links.ts';
import { bodyOf, type UnreadBody, type UploadedBodies } from './uploaded-bodies.ts';
import {
  type AccessTokens,
  requireToken,
  takeByWorkflow,
  type WorkflowStarter,
} from './workflow-requests.ts';

export interface IngressOptions {
  acceptor: RequestAcceptor;
  directory: EndpointDirectory;
  starter: WorkflowStarter;
  resumer: LinkTarget;
  uploads: UploadedBodies;
  /** The answers to requests with an `Idempotency-Key`. */
  answers: KeptAnswers;
  accessTokens: AccessTokens;
  bodyBytesMax: number;
  /** Throws CallerError `quota_exceeded` for an owner who may not have another run today. */
  quotas: { check(ownerId: string): void };
  bodies: EndpointBodies;
}

interface KeyedRequest {
  /** Id of its `Idempotency-Key`. */
  keyId: string;
  /** The key in the endpoint URL. */
  address: string;
  request: FastifyRequest;
  reply: FastifyReply;
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Content-Type as the caller sent it. */
    givenContentType: string | undefined;
    /** The body was left unread: the caller wants it set aside (`x-pd-upload-body`). */
    bodyLeftUnread: boolean;
    /** Set when the body had to wait for a turn. */
    bodyTurn: BodyTurn | undefined;
  }
}

const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'] as const;
/** The content types that Fastify sees; only bodies of the second kind are not read into memory. */
const anyType = 'application/octet-stream';
const unreadType = 'application/x-left-unread';

/**
 * What the world sends: to sources and workflows at `/in/<key>` and every path below it, and to waiting runs at
 * `/in/resume/…` and `/in/cancel/…`. The request is a job on disk before anything answers 2xx (promise 1).
 */
export function httpEndpoints(server: FastifyInstance, given: Omit<IngressOptions, 'bodies'>): void {
  const options: IngressOptions = { ...given, bodies: new EndpointBodies() };
  readAnyBody(server, options);
  const handle = (request: FastifyRequest, reply: FastifyReply) => answerRequest(options, request, reply);
  for (const url of ['/in/:key', '/in/:key/*']) addEndpoint(server, url, options.bodyBytesMax, handle);
  for (const action of ['resume', 'cancel'] as const) {
    addEndpoint(server, `/in/${action}/:run/:wait/:token`, options.bodyBytesMax, (request, reply) =>
      answerLink(options, action, request, reply),
    );
  }
}

function readAnyBody(
  server: FastifyInstance,
  {
    bodyBytesMax: bodyLimit,
    bodies,
    directory,
  }: Pick<IngressOptions, 'bodyBytesMax' | 'bodies' | 'directory'>,
): void {
  server.removeAllContentTypeParsers();
  server.addContentTypeParser('*', { parseAs: 'buffer', bodyLimit }, (request, body, done) => {
    bodies.wasRead(request.bodyTurn, body as Buffer, request.givenContentType);
    done(null, body);
  });
  server.addContentTypeParser(unreadType, (_request, _stream, done) => done(null, undefined));
  server.decorateRequest('givenContentType', undefined);
  server.decorateRequest('bodyLeftUnread', false);
  server.decorateRequest('bodyTurn', undefined);
  // Endpoints take any bytes, also those whose Content-Type Fastify would not read.
  server.addHook('onRequest', async (request) => {
    const { headers } = request.raw;
    request.givenContentType = headers['content-type'];
    if (isControlled({ headers, queryString: targetOf(request).queryString }, 'x-pd-upload-body')) {
      request.bodyLeftUnread = true;
      headers['content-type'] = unreadType;
    } else if (request.givenContentType !== undefined) headers['content-type'] = anyType;
  });
  server.addHook('preParsing', async (request) => {
    // Those are read in pieces, which have turns of their own.
    if (request.bodyLeftUnread || !bodies.isLarge(request.raw)) return;
    const { key } = request.params as { key?: string };
    // A link belongs to a run, which is not looked up for a body that may be anything.
    const endpoint = key === undefined ? { ownerId: request.ip } : await directory.find(key);
    if (endpoint === undefined && !isRead(request)) throw unknownEndpoint();
    if (endpoint !== undefined) request.bodyTurn = await bodies.begin(request.raw, endpoint.ownerId);
  });
}

function addEndpoint(
  server: FastifyInstance,
  url: string,
  bodyLimit: number,
  handler: (request: FastifyRequest, reply: FastifyReply) => Promise<FastifyReply>,
): void {
  const config = { public: true, userContent: true };
  server.route({ method: [...methods], url, bodyLimit, config, handler });
  server.route({ method: 'OPTIONS', url, config, handler: answerPreflight });
}

async function answerPreflight(_request: FastifyRequest, reply: FastifyReply): Promise<void> {
  await reply
    .code(204)
    .headers({
      'access-control-allow-origin': '*',
      'access-control-allow-methods': 'GET,HEAD,PUT,PATCH,POST,DELETE',
      'access-control-allow-headers': '*',
    })
    .send();
}

async function answerRequest(
  options: IngressOptions,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { key } = request.params as { key: string };
  const endpoint = await options.directory.find(key);
  if (endpoint === undefined) {
    if (isRead(request) && prefersHtml(request.headers.accept)) return sendMissingEndpoint(key, reply);
    throw unknownEndpoint();
  }
  if (endpoint.kind === 'workflow') {
    reply.header('access-control-allow-origin', '*');
    // Before a large body is read, and before anything about an earlier request is answered.
    await requireToken(endpoint, request.headers.authorization, {
      reply,
      accessTokens: options.accessTokens,
    });
  }
  request.endpointOwnerId = endpoint.ownerId;
  options.bodies.noteRequest(endpoint.ownerId);
  const keyId = readKeyId(key, request.headers['idempotency-key']);
  if (keyId !== undefined) return answerOnce(options, endpoint, { keyId, address: key, request, reply });
  options.quotas.check(endpoint.ownerId);
  const received = await endpointRequest(options, request, `/in/${key}`);
  const event = await eventOf(options, endpoint, { received, request, digest: undefined });
  await requireStillThere(options, key);
  const answer = await take(options, endpoint, { received, event, key: undefined, reply });
  return sendAnswer(reply, endpoint, must(answer, 'a request without a key is the first one'));
}

/** A request with a key: taken once, and answered the same each time it is sent. */
async function answerOnce(
  options: IngressOptions,
  endpoint: Endpoint,
  { keyId, address, request, reply }: KeyedRequest,
): Promise<FastifyReply> {
  const { answers, quotas, uploads } = options;
  const known = await answers.find(keyId);
  // A request that was taken is answered as it was, whatever was used up since.
  if (known === undefined) quotas.check(endpoint.ownerId);
  const received = await endpointRequest(options, request, `/in/${address}`);
  const digest = beginDigest(received).update(received.body);
  if (known !== undefined) {
    if (request.bodyLeftUnread) await uploads.read(unreadBody(options, request, endpoint.ownerId), digest);
    const requestDigest = digest.digest('base64url');
    return answerRepeated(options, endpoint, { known, requestDigest, reply });
  }
  const event = await eventOf(options, endpoint, { received, request, digest });
  await requireStillThere(options, address);
  const requestDigest = digest.digest('base64url');
  const key = { id: keyId, ownerId: endpoint.ownerId, subjectId: subjectOf(endpoint), requestDigest };
  const answer = await take(options, endpoint, { received, event, key, reply });
  if (answer !== undefined) return sendAnswer(reply, endpoint, answer);
  // The first request with this key came a moment before.
  const first = await answers.find(keyId);
  if (first === undefined) throw inProgress(reply);
  return answerRepeated(options, endpoint, { known: first, requestDigest, reply });
}

/** A body can take long to arrive: what it is for may have been deleted meanwhile, and nothing would ever run. */
async function requireStillThere({ directory }: IngressOptions, key: string): Promise<void> {
  if ((await directory.find(key)) === undefined) throw unknownEndpoint();
}

/**
 * Has a source or workflow take a request. Undefined: a request with its key was taken before. Throws CallerError
 * `endpoint_removed` when a deletion ended the run that was to reply, whatever became of it.
 */
async function take(
  options: IngressOptions,
  endpoint: Endpoint,
  {
    received,
    event,
    key,
    reply,
  }: { received: EndpointRequest; event: string; key: RequestKey | undefined; reply: FastifyReply },
): Promise<EndpointAnswer | undefined> {
  let answer: EndpointAnswer | undefined;
  try {
    answer = await (endpoint.kind === 'source'
      ? takeBySource(options, endpoint, { event, key, isPrivate: isControlled(received, 'x-pd-nostore') })
      : takeByWorkflow(options, endpoint, {
          request: received,
          event,
          key,
          onRun: (runId) => reply.header(runIdHeader, runId),
        }));
  } catch (error) {
    if (error instanceof UnavailableError && (await options.directory.isRemoved(endpoint)))
      throw endpointRemoved(endpoint.kind);
    throw error;
  }
  if (answer?.kind === 'ended' && (await options.directory.isRemoved(endpoint)))
    throw endpointRemoved(endpoint.kind);
  return answer;
}

function isRead({ method }: FastifyRequest): boolean {
  return method === 'GET' || method === 'HEAD';
}

/** For browsers. A resume or cancel link without its end looks like an endpoint of that name. */
function sendMissingEndpoint(key: string, reply: FastifyReply): FastifyReply {
  if (key === 'resume' || key === 'cancel') return sendBrokenLink(reply);
  return reply
    .code(404)
    .headers(messagePageHeaders)
    .send(
      messagePage({
        title: 'Endpoint not found',
        text: 'No active source or workflow receives requests at this URL.',
      }),
    );
}

async function eventOf(
  options: IngressOptions,
  endpoint: Endpoint,
  {
    received,
    request,
    digest,
  }: { received: EndpointRequest; request: FastifyRequest; digest: Hash | undefined },
): Promise<string> {
  const { ownerId } = endpoint;
  const { uploads } = options;
  // The token is for us; in the event it would be a secret in every record of the run.
  if (endpoint.kind === 'workflow' && endpoint.auth !== undefined)
    received.headers = { ...received.headers, authorization: undefined };
  if (request.bodyLeftUnread) {
    const body = unreadBody(options, request, ownerId);
    const url = await uploads.store(ownerId, body, request.givenContentType, digest);
    return setAsideEventJson(received, url);
  }
  return requestEventJson(received, ({ filename, mimetype, content }) =>
    uploads.keep({ ownerId, name: filename, contentType: mimetype }, [content]),
  );
}

function unreadBody({ bodies }: IngressOptions, { raw }: FastifyRequest, ownerId: string): UnreadBody {
  return { headers: raw.headers, content: bodies.pieces(raw, ownerId) };
}

/** With a custom response the reply is the component's. Undefined: a request with its key was taken before. */
async function takeBySource(
  { acceptor, answers }: IngressOptions,
  endpoint: SourceEndpoint,
  { event, key, isPrivate }: { event: string; key: RequestKey | undefined; isPrivate: boolean },
): Promise<EndpointAnswer | undefined> {
  if (!endpoint.customResponse)
    return (await acceptor.accept(endpoint, event, key)) ? { kind: 'accepted' } : undefined;
  const given = await acceptor.acceptAndAwait(endpoint, event, key, { isPrivate });
  if (given === undefined) return undefined;
  const { jobId, reply, waits } = given;
  const answer: EndpointAnswer =
    reply === undefined ? { kind: 'ended', waits } : { kind: 'responded', reply };
  if (key !== undefined) await answers.record({ ...key, jobId }, answer, { isPrivate });
  return answer;
}

/** Any method: links in mails are followed with GET, programs post. */
async function answerLink(
  options: IngressOptions,
  action: LinkAction,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  // The token is in the URL, so it must not be sent on as a referrer.
  reply.headers({
    'access-control-allow-origin': '*',
    'referrer-policy': 'no-referrer',
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
  });
  const link = readLink(request.params as { run: string; wait: string; token: string });
  if (link === undefined) return sendLinkOutcome(request, reply, { action, answer: { outcome: 'unknown' } });
  const received = await endpointRequest(options, request, targetOf(request).path);
  const answer = await options.resumer[action]({ ...link, request: await requestObject(received) });
  return sendLinkOutcome(request, reply, { action, answer });
}

/** Fastify leaves the body of GET and HEAD alone; some clients of event sources send one. */
async function bodyOfGet(request: FastifyRequest, bytesMax: number): Promise<Buffer> {
  const { headers } = request.raw;
  if (headers['content-length'] === undefined && headers['transfer-encoding'] === undefined)
    return Buffer.alloc(0);
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of bodyOf(request.raw)) {
    bytes += chunk.length;
    if (bytes > bytesMax) throw new errorCodes.FST_ERR_CTP_BODY_TOO_LARGE();
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function targetOf({ raw }: FastifyRequest): { path: string; queryString: string } {
  const url = raw.url ?? '/';
  const at = url.indexOf('?');
  return at === -1
    ? { path: url, queryString: '' }
    : { path: url.slice(0, at), queryString: url.slice(at + 1) };
}

/** `base` is the part before the path that the event contains. A body that will be set aside is not read. */
async function endpointRequest(
  { bodyBytesMax, bodies }: IngressOptions,
  request: FastifyRequest,
  base: string,
): Promise<EndpointRequest> {
  const { path: fullPath, queryString } = targetOf(request);
  const path = fullPath.slice(base.length);
  const { givenContentType } = request;
  let body: Buffer = Buffer.alloc(0);
  if (Buffer.isBuffer(request.body)) body = request.body;
  else if (!request.bodyLeftUnread) {
    body = await bodyOfGet(request, bodyBytesMax);
    bodies.wasRead(request.bodyTurn, body, givenContentType);
  }
  return {
    method: request.method,
    path: path === '' ? '/' : path,
    queryString,
    url: `${request.host}${request.originalUrl}`,
    headers:
      request.headers['content-type'] === givenContentType
        ? request.headers
        : { ...request.headers, 'content-type': givenContentType },
    body,
    // Connections of user code within this process have no address.
    clientIp: request.ip ?? '127.0.0.1',
  };
}
