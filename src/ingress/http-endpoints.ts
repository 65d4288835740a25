import { errorCodes, type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import type { HttpReply } from '#runner/call-outcome.ts';
import type { RequestAcceptor } from './accept-request.ts';
import { type EndpointRequest, requestEventJson } from './request-event.ts';
import type { EndpointDirectory } from './resolve-endpoint.ts';

export interface IngressParts {
  acceptor: RequestAcceptor;
  directory: EndpointDirectory;
  bodyBytesMax: number;
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
  server.decorateRequest('givenContentType', undefined);
  // Endpoints take any bytes, also those whose Content-Type Fastify would not read.
  server.addHook('onRequest', async (request) => {
    const { headers } = request.raw;
    request.givenContentType = headers['content-type'];
    if (request.givenContentType !== undefined) headers['content-type'] = 'application/octet-stream';
  });
  const handle = (request: FastifyRequest, reply: FastifyReply) => answerRequest(parts, request, reply);
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
  if (!endpoint.customResponse) {
    await parts.acceptor.accept(endpoint, event);
    return reply.header('access-control-allow-origin', '*').send({ success: true });
  }
  const answer = await parts.acceptor.acceptAndAwait(endpoint, event);
  if (answer === undefined) {
    return reply.code(500).send({
      error: 'the component did not respond to this request',
      code: 'no_response',
      // Whoever calls is a stranger to the source: no ids.
      details: {},
    });
  }
  reply.code(answer.status).headers(withoutFraming(answer.headers));
  // An empty body is of no type; given the bytes, fastify would name one.
  return answer.body.length === 0 ? reply.send() : reply.send(answer.body);
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
