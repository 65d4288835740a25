import { errorCodes, type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import { ArrivingJob } from '#jobs/arriving-job.ts';
import { insertNewJobs, jobRow, type LeasedJob, type NewJob } from '#jobs/job-store.ts';
import type { WorkerPool } from '#jobs/worker-pool.ts';
import type { Clock } from '#lib/clock.ts';
import { UnavailableError } from '#lib/errors.ts';
import { newTimeOrderedId } from '#lib/ids.ts';
import type { Logger } from '#lib/logger.ts';
import type { HttpReply } from '#runner/call-outcome.ts';
import type { SourceRuns } from '#sources/run-source.ts';
import type { BatchWrite } from '#storage/group-commit.ts';
import type { Store } from '#storage/store.ts';
import { type EndpointRequest, requestEventJson } from './request-event.ts';
import type { Endpoint, EndpointDirectory } from './resolve-endpoint.ts';

export interface IngressParts {
  store: Store;
  pool: WorkerPool;
  runs: SourceRuns;
  directory: EndpointDirectory;
  clock: Clock;
  logger: Logger;
  bodyBytesMax: number;
  /** How long a request waits for the reply of its component: the deadline of a run, and its turn. */
  replyTimeoutMs: number;
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Content-Type as the caller sent it. */
    givenContentType: string | undefined;
  }
}

const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'] as const;

/**
 * What the world sends to sources: `/in/<key>` and every path below it. The request is a job on disk before anything
 * answers 2xx (promise 1). With a custom response the reply is the component's; else it is given at once.
 */
export function httpEndpoints(server: FastifyInstance, parts: IngressParts): void {
  server.removeAllContentTypeParsers();
  server.addContentTypeParser(
    '*',
    { parseAs: 'buffer', bodyLimit: parts.bodyBytesMax },
    (_request, body, done) => done(null, body),
  );
  const write = insertInvocations(parts.store);
  server.decorateRequest('givenContentType', undefined);
  // Endpoints take any bytes, also those whose Content-Type Fastify would not read.
  server.addHook('onRequest', async (request) => {
    const { headers } = request.raw;
    request.givenContentType = headers['content-type'];
    if (request.givenContentType !== undefined) headers['content-type'] = 'application/octet-stream';
  });
  const handle = (request: FastifyRequest, reply: FastifyReply) =>
    answerRequest(parts, write, request, reply);
  for (const url of ['/in/:key', '/in/:key/*']) {
    server.route({
      method: [...methods],
      url,
      bodyLimit: parts.bodyBytesMax,
      config: { public: true, userContent: true },
      handler: handle,
    });
    server.route({
      method: 'OPTIONS',
      url,
      config: { public: true, userContent: true },
      handler: answerPreflight,
    });
  }
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
  parts: IngressParts,
  write: BatchWrite<NewInvocation, void>,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { key } = request.params as { key: string };
  const endpoint = await parts.directory.find(key);
  if (endpoint === undefined) {
    return reply
      .code(404)
      .send({ error: 'there is no active endpoint at this address', code: 'unknown_endpoint', details: {} });
  }
  const body = Buffer.isBuffer(request.body) ? request.body : await bodyOfGet(request, parts.bodyBytesMax);
  const event = await requestEventJson(endpointRequest(request, key, body));
  const invocation = prepareInvocation(parts, write, endpoint, event);
  if (!endpoint.customResponse) {
    await invocation.accept();
    return reply.header('access-control-allow-origin', '*').send({ success: true });
  }
  const answer = await invocation.acceptAndAwait();
  if (answer === undefined) {
    return reply.code(500).send({
      error: 'the component did not respond to this request',
      code: 'no_response',
      details: { source_id: endpoint.sourceId },
    });
  }
  return reply.code(answer.status).headers(withoutFraming(answer.headers)).send(answer.body);
}

/** Names of headers that say how a message is framed: ours to write. Components hand on those of another service. */
const framingHeaders = new Set([
  'connection',
  'content-length',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

function withoutFraming(headers: HttpReply['headers']): HttpReply['headers'] {
  return Object.fromEntries(
    Object.entries(headers).filter(([name]) => !framingHeaders.has(name.toLowerCase())),
  );
}

/** Fastify leaves the body of GET and HEAD alone; some clients of event sources send one. */
async function bodyOfGet(request: FastifyRequest, bytesMax: number): Promise<Buffer> {
  const { headers } = request.raw;
  if (headers['content-length'] === undefined && headers['transfer-encoding'] === undefined)
    return Buffer.alloc(0);
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request.raw as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > bytesMax) throw new errorCodes.FST_ERR_CTP_BODY_TOO_LARGE();
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function endpointRequest(request: FastifyRequest, key: string, body: Buffer): EndpointRequest {
  const rawUrl = request.raw.url ?? '/';
  const at = rawUrl.indexOf('?');
  const fullPath = at === -1 ? rawUrl : rawUrl.slice(0, at);
  const path = fullPath.slice(`/in/${key}`.length);
  return {
    method: request.method,
    path: path === '' ? '/' : path,
    queryString: at === -1 ? '' : rawUrl.slice(at + 1),
    url: `${request.host}${request.originalUrl}`,
    headers:
      request.givenContentType === undefined
        ? request.headers
        : { ...request.headers, 'content-type': request.givenContentType },
    body,
    clientIp: request.ip,
  };
}

/** The job of a request; `node` when that node runs it from the start. */
interface NewInvocation {
  job: NewJob<'run_source'>;
  node?: string;
}

/** Inserts run jobs, many in one statement. */
function insertInvocations(store: Store): BatchWrite<NewInvocation, void> {
  return {
    name: 'insert-invocations',
    async run(tx, invocations) {
      await insertNewJobs(
        store,
        tx,
        invocations.map(({ job, node }) => jobRow(job, node)),
      );
      return invocations.map(() => undefined);
    },
  };
}

interface Invocation {
  /** Resolves when the request is on disk. */
  accept(): Promise<void>;
  /** The component's reply; undefined when it ended, or took too long, without one. */
  acceptAndAwait(): Promise<HttpReply | undefined>;
}

function prepareInvocation(
  parts: IngressParts,
  write: BatchWrite<NewInvocation, void>,
  endpoint: Endpoint,
  event: string,
): Invocation {
  const { store, pool, runs, clock } = parts;
  const nowMs = clock.now();
  const id = newTimeOrderedId(nowMs);
  const job: NewJob<'run_source'> = {
    id,
    kind: 'run_source',
    ownerId: endpoint.ownerId,
    lane: endpoint.sourceId,
    payload: { source_id: endpoint.sourceId, trigger: 'http', event, hops: 0 },
    runAtMs: nowMs,
    nowMs,
  };
  const accept = async (): Promise<void> => {
    if (!pool.hasRoom(endpoint.sourceId)) {
      await store.writes.submit(write, { job });
      // A full lane fetches more by itself when it has drained; only if it did so before this was stored, it must be told.
      if (pool.hasRoom(endpoint.sourceId)) pool.poke();
      return;
    }
    // With room, the node that accepts it runs it: the row is leased from birth and no claim is needed.
    const invocation: NewInvocation = { job, node: pool.node };
    if (store.writes.healthy) {
      const arriving = new ArrivingJob(() => store.writes.place(write, invocation));
      pool.run(leased(job, arriving));
      await arriving.onDisk;
    } else {
      // What a store that fails would refuse does not run.
      await store.writes.submit(write, invocation);
      pool.run(leased(job));
    }
  };
  return {
    accept,
    async acceptAndAwait() {
      const answer = Promise.withResolvers<HttpReply | undefined>();
      runs.awaitReply(id, { respond: answer.resolve, ended: () => answer.resolve(undefined) });
      const timer = setTimeout(() => answer.resolve(undefined), parts.replyTimeoutMs);
      try {
        await accept();
        return await answer.promise;
      } catch (error) {
        if (!(error instanceof UnavailableError))
          parts.logger.error({ source: endpoint.sourceId }, 'ingress.failed');
        throw error;
      } finally {
        clearTimeout(timer);
        runs.stopAwaiting(id);
      }
    },
  };
}

function leased(job: NewJob, arriving?: ArrivingJob): LeasedJob {
  return {
    id: job.id,
    kind: job.kind,
    ownerId: job.ownerId,
    lane: job.lane ?? null,
    attempts: 1,
    payload: job.payload,
    createdAtMs: job.nowMs,
    ...(arriving === undefined ? {} : { arriving }),
  };
}
