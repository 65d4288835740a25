import { randomUUID } from 'node:crypto';
import { type IncomingMessage, maxHeaderSize } from 'node:http';
import type { Socket } from 'node:net';
import { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import {
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  fastify,
} from 'fastify';
import { Histogram, type Registry } from 'prom-client';
import { homeOf } from '#identity/permissions.ts';
import { BodyTurns } from '#lib/body-turns.ts';
import { CallerError } from '#lib/errors.ts';
import { isDeeperThan } from '#lib/json-depth.ts';
import type { Logger } from '#lib/logger.ts';
import { bytesText } from '#lib/units.ts';
import { writeJson } from '#lib/write-json.ts';
import { metricDefinitions } from '#telemetry/metric-definitions.ts';
import { noTracer, type Tracer } from '#telemetry/tracer.ts';
import { AnswerBytes, type AnswerTurn, inParts } from './answer-bytes.ts';
import { AnswerPace } from './answer-pace.ts';
import { beginAudit, completeAudit } from './audit-requests.ts';
import { authenticateEverything } from './authenticate.ts';
import { addCommonParameters } from './common-parameters.ts';
import { type ConnectionLimitOptions, limitConnections } from './connection-limits.ts';
import { sendError } from './error-response.ts';
import { followTable } from './follow-table.ts';
import { numberTooLarge, tooManyMembers, unreadableBody } from './json-faults.ts';
import { describeRoutes } from './openapi.ts';
import { acceptRepeatedRequests, type RepeatedRequestOptions } from './repeated-requests.ts';
import { dropUnreadableAddresses, requestHost, trustedProxyCheck } from './request-host.ts';
import { traceRequests } from './request-span.ts';
import { RequestSummaries } from './request-summary.ts';
import type { App } from './route-support.ts';
import { type RouteOptions, reference, routes, routesOfEveryRole } from './routes.ts';
import { checkScopeParameters } from './scope-parameters.ts';
import { refuseTinyChunks } from './tiny-chunks.ts';
import { refuseUnknownPaths } from './unknown-path.ts';
import { countedBytes, pacedBytesMax, UntakenAnswers } from './untaken-answers.ts';
import { UnwantedBodies } from './unwanted-bodies.ts';
import { compileCheck } from './validation.ts';

/** Component code and props; events come in through the endpoints, which have a limit of their own. */
const apiBodyBytesMax = 6 * 1024 * 1024;
/** Bodies of the API from this size on are read in turns: reading the JSON of one keeps everything else waiting. */
const largeJsonBytes = 8 * 1024;
/** Objects and arrays within one another in such a body. */
const bodyDepthMax = 500;
/** Header fields must have arrived by then. */
const headersTimeoutMs = 15_000;
/** A whole request must have arrived by then, as these checks see it: slow senders do not hold connections. */
const arrivalDefaults = { timeoutMs: 120_000, checkEveryMs: 5_000 };
/** A body in tiny chunks counts as so many bytes of an answer: 15 are refused in a second. */
const tinyChunksBytes = 1024 * 1024;
/** So often the log has a line about the requests since the last one, when there were any. */
const summaryMs = 60_000;
/** Paths contain registry keys and cursors; longer ones match nothing. */
const pathParameterLengthMax = 500;

declare module 'fastify' {
  interface FastifyInstance {
    untakenAnswers: UntakenAnswers;
  }
  interface FastifyRequest {
    /** The service refused it, or failed. */
    isRefused: boolean;
    /** Counts what is sent of the answer; undefined for endpoints and callers without a key. */
    answer: AnswerTurn | undefined;
    /** The owner of the endpoint that answers; undefined for the API. */
    endpointOwnerId: string | undefined;
  }
}

export interface ServerOptions extends RouteOptions, Pick<RepeatedRequestOptions, 'apiRequests'> {
  version: string;
  logger: Logger;
  metrics: Registry;
  /** Default: nothing is traced. */
  tracer?: Tracer;
  /**
   * Turns the address of a request to an endpoint's own host into its path, before routing. Gets the host, as a trusted proxy
   * or the Host header names it, and the path with query; returns the path to route.
   */
  rewritePath?: (host: string, path: string) => string;
  /** Addresses and CIDRs of proxies whose `X-Forwarded-…` headers say who the caller is. Default none. */
  trustedProxies?: readonly string[];
  /** False for a process that has another role: it answers only for its own health. Default true. */
  api?: boolean;
  /** HTTP endpoints of sources: registered beside the API, with parsers of their own. */
  ingress?: (app: FastifyInstance) => void | Promise<void>;
  /** How many connections there may be. Default any number. */
  connections?: Pick<ConnectionLimitOptions, 'perAddressMax' | 'descriptorsMax'>;
  /** How long a whole request may take to arrive, and how often that is checked. Default two minutes. */
  arrival?: { timeoutMs: number; checkEveryMs: number };
}

/**
 * The HTTP server, not listening yet. Order matters: hooks and the document first, then routes. Everything is
 * authenticated unless its row in routes.ts says `anyone`. `close()` stops accepting, ends idle connections and waits for answers
 * under way.
 */
export async function createServer(options: ServerOptions): Promise<App> {
  const { rewritePath, logger, api: hasApi = true, trustedProxies = [], arrival = arrivalDefaults } = options;
  const hostOf = requestHost(trustedProxies);
  const isTrusted = trustedProxyCheck(trustedProxies);
  const unwanted = new UnwantedBodies();
  const pace = new AnswerPace();
  const untaken = new UntakenAnswers();
  const server = fastify({
    bodyLimit: apiBodyBytesMax,
    requestTimeout: arrival.timeoutMs,
    http: {
      headersTimeout: Math.min(headersTimeoutMs, arrival.timeoutMs),
      connectionsCheckingInterval: arrival.checkEveryMs,
    },
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    trustProxy: trustedProxies.length > 0 && [...trustedProxies],
    genReqId: () => randomUUID(),
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: pathParameterLengthMax },
    frameworkErrors: (error, request, reply) => {
      reply.headers({ 'x-request-id': request.id, ...securityHeaders });
      // No hook is called for these.
      void readUnwanted(unwanted, request, reply)
        .then(() => delay(pace.delayMs(request.ip)))
        .then(() => sendError(error, request, reply, logger));
    },
    clientErrorHandler: answerUnreadable,
    rewriteUrl: (request: IncomingMessage) => {
      const path = withDollar(request.url ?? '/');
      return rewritePath === undefined ? path : rewritePath(hostOf(request), path);
    },
  });
  const app: App = server.withTypeProvider<TypeBoxTypeProvider>();
  if (options.connections !== undefined)
    limitConnections(app.server, {
      ...options.connections,
      ...{ logger, metrics: options.metrics, isTrustedProxy: isTrusted },
    });
  refuseTinyChunks(app.server, (address) => pace.delayMs(address, tinyChunksBytes));
  app.setValidatorCompiler(compileCheck);
  // Response schemas describe; what include and exclude leave of an object would not fit them.
  app.setSerializerCompiler(() => writeJson);
  app.setErrorHandler<FastifyError>(async (error, request, reply) =>
    sendError(error, request, reply, logger),
  );
  app.addHook('onRequest', ({ raw }, _reply, done) => {
    if (raw.headers['x-forwarded-for'] !== undefined && isTrusted(raw.socket.remoteAddress ?? ''))
      dropUnreadableAddresses(raw.headers);
    done();
  });
  readUnwantedBodies(app, unwanted);
  paceAnswers(app, pace);
  boundUntakenAnswers(app, untaken);
  paceLargeAnswers(app, untaken);
  traceRequests(app, options.tracer ?? noTracer);
  addResponseHeaders(app);
  observeRequests(app, options);
  refuseUnknownPaths(app);
  authenticateEverything(app, options);
  if (hasApi) await describeRoutes(app, { publicUrl: options.settings.publicUrl, version: options.version });
  await app.register(async (api: App) => {
    readJsonBodies(api);
    checkScopeParameters(api);
    completeAudit(api, options);
    acceptRepeatedRequests(api, options);
    beginAudit(api, options);
    api.addHook('onRoute', followTable);
    api.addHook('onRoute', addCommonParameters);
    for (const { prefix, register } of hasApi ? routes : routesOfEveryRole) {
      await api.register(async (scope: App) => register(scope, options), { prefix });
    }
  });
  if (hasApi) {
    await app.register(async (scope: App) => {
      scope.addHook('onRoute', followTable);
      await reference.register(scope, options);
    });
  }
  if (options.ingress !== undefined) {
    const { ingress } = options;
    await app.register(async (scope) => {
      // These paths belong to users' sources, and are no operations of the API.
      scope.addHook('onRoute', (route) => {
        route.schema = { ...route.schema, hide: true };
      });
      await ingress(scope);
    });
  }
  return app;
}

/** Some clients encode the dollar of `$errors`, which the router takes for another path. */
function withDollar(path: string): string {
  return path.startsWith('/v1/workflows/') ? path.replace(/^([^?]*\/)%24(?=errors\/)/, '$1$$') : path;
}

/** JSON and nothing else, in the scope of the API only: endpoints take any bytes. */
function readJsonBodies(api: App): void {
  api.removeAllContentTypeParsers();
  // Refuses `__proto__`, which only attacks use.
  const parse = api.getDefaultJsonParser('error', 'error');
  const turns = new BodyTurns({ largeBytes: largeJsonBytes, callersAtOnce: 4 });
  api.addContentTypeParser('application/json', { parseAs: 'string' }, (request, body, done) => {
    const json = body as string;
    if (json === '') return done(null, undefined);
    const startedMs = performance.now();
    const end = (error: Error | undefined, value?: unknown): void => {
      turns.wasRead({
        ...{ caller: sender(request), given: turns.bytesOf(request) ?? 0 },
        ...{ bytes: json.length, ms: performance.now() - startedMs },
      });
      done(error ?? null, value);
    };
    if (isDeeperThan(json, bodyDepthMax))
      return end(new CallerError('invalid_json', `the body is nested more than ${bodyDepthMax} levels deep`));
    const excess = tooManyMembers(json);
    if (excess !== undefined) return end(excess);
    return parse(request, json, (error: Error | null, value?: unknown) => {
      if (error !== null) return end(unreadableBody(json));
      return end(numberTooLarge(json, value), value);
    });
  });
  // Nothing is decompressed: a small body could become a large one.
  api.addHook('preParsing', async (request) => {
    const encoding = request.headers['content-encoding'] ?? 'identity';
    if (encoding.toLowerCase() === 'identity') return;
    throw new CallerError(
      'unsupported_media_type',
      `content-encoding: found ${JSON.stringify(encoding.slice(0, 100))}, expected none: send the JSON as it is`,
    );
  });
  api.addHook('preParsing', async (request) => {
    const bytes = turns.bytesOf(request);
    if (bytes === undefined) return;
    const isGone = () => request.raw.destroyed;
    await turns.begin({ caller: sender(request), bytes, isGone });
  });
  // No body at all is an empty one: then a missing parameter is named, instead of the body.
  api.addHook('preValidation', async (request) => {
    if (request.body === undefined && request.routeOptions.schema?.body !== undefined) request.body = {};
  });
}

/** Users are callers of their own; the service accounts and OAuth clients of a workspace, of which there can be many, are one. */
const sender = ({ caller, ip }: FastifyRequest): string => (caller === null ? ip : homeOf(caller));

/** What is left of a body when the answer is known is read before the answer is sent. */
function readUnwantedBodies(app: App, unwanted: UnwantedBodies): void {
  app.addHook('onSend', (request, reply, payload, done) => {
    if (request.raw.complete) return done(null, payload);
    void readUnwanted(unwanted, request, reply).then(() => done(null, payload));
  });
}

async function readUnwanted(
  unwanted: UnwantedBodies,
  { raw, ip }: FastifyRequest,
  reply: FastifyReply,
): Promise<void> {
  const isRead = await unwanted.drain(raw, ip);
  if (!isRead) reply.header('connection', 'close');
}

/** Answers that cost their caller nothing; those of endpoints belong to their owners, unless the service refuses the request. */
function paceAnswers(app: App, pace: AnswerPace): void {
  app.decorateRequest('isRefused', false);
  app.addHook('onError', (request, _reply, _error, done) => {
    request.isRefused = true;
    done();
  });
  app.addHook('onSend', (request, _reply, payload, done) => {
    const isPage = request.caller === null && request.routeOptions.config.userContent !== true;
    const delayMs = isPage || request.isRefused ? pace.delayMs(sender(request), bytesOf(payload)) : 0;
    if (delayMs === 0) done(null, payload);
    else setTimeout(done, delayMs, null, payload);
  });
}

/** JSON of the API only: what is downloaded costs no more than its bytes, and streams have a pace of their own. */
function paceLargeAnswers(app: App, untaken: UntakenAnswers): void {
  const bytes = new AnswerBytes();
  app.decorateRequest('answer', undefined);
  app.addHook('preClose', async () => bytes.close());
  app.addHook('preHandler', (request, reply, done) => {
    const { caller, routeOptions } = request;
    if (caller === null || routeOptions.config.userContent === true) return done();
    const who = sender(request);
    const route = `${request.method} ${routeOptions.url}`;
    const answer = bytes.begin(who, route, untaken.begin(who, reply.raw));
    request.answer = answer;
    reply.raw.once('close', answer.end);
    if (answer.turn === undefined) done();
    else void answer.turn.then(() => done());
  });
  app.addHook('onSend', (request, reply, payload, done) => {
    const { answer } = request;
    const isJson = String(reply.getHeader('content-type') ?? '').startsWith('application/json');
    if (answer === undefined || !isJson) return done(null, payload);
    if (payload instanceof Readable) return done(null, inParts(answer, payload));
    const waiting = answer.sends(bytesOf(payload));
    if (waiting === undefined) done(null, payload);
    else void waiting.then(() => done(null, payload));
  });
}

/** What is made already is refused when too much of its kind waits to be taken; the refusal itself is small. */
function boundUntakenAnswers(app: App, untaken: UntakenAnswers): void {
  app.decorate('untakenAnswers', untaken);
  app.decorateRequest('endpointOwnerId', undefined);
  app.addHook('preClose', async () => untaken.close());
  app.addHook('onSend', (request, reply, payload, done) => {
    const bytes = bytesOf(payload);
    if (bytes < countedBytes) return done(null, payload);
    const { endpointOwnerId, answer, ip } = request;
    // By address: a stranger who reads nothing leaves room for the other callers of an endpoint.
    const who = endpointOwnerId === undefined ? sender(request) : `${endpointOwnerId} ${ip}`;
    try {
      untaken.requireRoom(who, bytes, answer === undefined ? undefined : pacedBytesMax);
    } catch (error) {
      for (const name of Object.keys(reply.getHeaders()))
        if (name.startsWith('content-')) reply.removeHeader(name);
      return done(error as Error);
    }
    if (answer === undefined) untaken.begin(who, reply.raw).sends(bytes);
    done(null, payload);
  });
}

/** 0 for what is sent in parts. */
function bytesOf(payload: unknown): number {
  return typeof payload === 'string' || Buffer.isBuffer(payload) ? payload.length : 0;
}

const securityHeaders = {
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
};

function addResponseHeaders(app: App): void {
  app.addHook('onRequest', async (request, reply) => {
    reply.header('x-request-id', request.id);
    if (request.routeOptions.config.userContent === true) return;
    reply.headers(securityHeaders);
  });
}

/** Measures each request, and logs it: in a summary each minute, and at debug by itself. */
export function observeRequests(
  app: FastifyInstance,
  { metrics, logger }: Pick<ServerOptions, 'metrics' | 'logger'>,
): void {
  const requestSeconds = metricDefinitions.millrace_http_request_seconds;
  const seconds = new Histogram({
    name: 'millrace_http_request_seconds',
    help: requestSeconds.text,
    labelNames: requestSeconds.labels,
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60],
    registers: [metrics],
  });
  const summaries = new RequestSummaries();
  const logSummary = () => {
    const summary = summaries.take();
    if (summary !== undefined) logger.info(summary, 'http.requests-counted');
  };
  const timer = setInterval(logSummary, summaryMs);
  app.addHook('onClose', async () => {
    clearInterval(timer);
    logSummary();
  });
  app.addHook('onResponse', async (request, reply) => {
    const route = routeOf(request);
    const status = reply.statusCode;
    const ms = Math.round(reply.elapsedTime * 10) / 10;
    const isStream = request.routeOptions.schema?.produces?.includes('text/event-stream') === true;
    summaries.count({ method: request.method, route, status, ms, isStream });
    // User code picks any status, and each one would be a series of its own for as long as the process lives.
    const isUsers = request.routeOptions.config.userContent === true;
    // 503 is that of a service that cannot take the request, for which there is an alert.
    const label = isUsers && status !== 503 ? `${Math.floor(status / 100)}xx` : status;
    seconds.observe({ route, method: request.method, status: label }, reply.elapsedTime / 1000);
    // Endpoints log the outcome of the request themselves.
    if (isUsers) return;
    logger.debug(
      {
        requestId: request.id,
        method: request.method,
        route,
        status,
        ms,
        userId: request.caller?.userId,
      },
      'http.request-answered',
    );
  });
}

/** The pattern, never the path: paths hold ids, and a label per id would grow without bound. */
function routeOf(request: FastifyRequest): string {
  return request.routeOptions.url ?? 'unknown';
}

const headersTooLarge = `the request line and the header fields are larger than ${bytesText(maxHeaderSize)} together`;

/** What Node could not parse has no request; the answer is written by hand, in the same form as all the others. */
function answerUnreadable(this: unknown, error: Error & { code?: string }, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const [status, code, text] =
    error.code === 'HPE_HEADER_OVERFLOW'
      ? ['431 Request Header Fields Too Large', 'headers_too_large', headersTooLarge]
      : error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? ['408 Request Timeout', 'request_timeout', 'the request did not arrive in time']
        : ['400 Bad Request', 'invalid_request', 'the request is not well-formed HTTP'];
  const body = JSON.stringify({ error: text, code, details: {} });
  socket.end(
    `HTTP/1.1 ${status}\r\ncontent-type: application/json; charset=utf-8\r\ncontent-length: ${Buffer.byteLength(body)}\r\n` +
      `connection: close\r\n\r\n${body}`,
  );
}
