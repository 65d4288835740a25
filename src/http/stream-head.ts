import type { FastifyReply } from 'fastify';
import { streamHeaders } from '#streams/stream-connection.ts';

/** Answers a HEAD request for a stream: at once, and without one of the places that streams have. */
export function sendStreamHead(
  reply: FastifyReply,
  headers: Readonly<Record<string, string>> = {},
): FastifyReply {
  return reply.headers({ ...streamHeaders, ...headers }).send('');
}
