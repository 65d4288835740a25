import type { FastifyReply } from 'fastify';
import type { HttpReply } from '#runner/call-outcome.ts';

/** Sends what user code replied. */
export function sendHttpReply(reply: FastifyReply, answer: HttpReply): FastifyReply {
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
