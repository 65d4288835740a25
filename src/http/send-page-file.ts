import { createHash } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { PageFile } from '#web/dashboard/page-files.ts';

/**
 * Sends a file of the dashboard or the manual, compressed where the browser takes that; 304 without it when the browser has
 * the same version. Files that are named by their content are kept for a year, others are revalidated each time.
 */
export function sendPageFile(
  request: FastifyRequest,
  reply: FastifyReply,
  { contentType, immutable, plain, encoded }: PageFile,
) {
  const etag = etagOf(plain);
  reply.headers({
    'content-type': contentType,
    'cache-control': immutable ? 'public, max-age=31536000, immutable' : 'no-cache',
    vary: 'accept-encoding',
    etag,
  });
  if (request.headers['if-none-match']?.includes(etag) === true) return reply.code(304).send();
  const accepted = String(request.headers['accept-encoding'] ?? '');
  for (const encoding of ['br', 'gzip'] as const) {
    const body = encoded[encoding];
    if (body === undefined || !new RegExp(`\\b${encoding}\\b(?!;q=0(?:\\.0*)?(?:,|$))`).test(accepted))
      continue;
    reply.header('content-encoding', encoding);
    return reply.send(body);
  }
  return reply.send(plain);
}

const etags = new WeakMap<Buffer, string>();

/** Computed once: to hash a script of a megabyte for each request takes longer than to send it. */
function etagOf(content: Buffer): string {
  let etag = etags.get(content);
  if (etag === undefined) {
    etag = `"${createHash('sha256').update(content).digest('base64url').slice(0, 22)}"`;
    etags.set(content, etag);
  }
  return etag;
}
