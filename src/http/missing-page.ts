import type { FastifyReply, FastifyRequest } from 'fastify';
import { CallerError } from '#lib/errors.ts';
import { messagePage, messagePageHeaders, prefersHtml } from '#lib/message-page.ts';

const pathShownMax = 300;

/** True when a browser asked for a page that does not exist. Other requests get JSON. */
export function asksForMissingPage(request: FastifyRequest, thrown: unknown): boolean {
  const isRead = request.method === 'GET' || request.method === 'HEAD';
  return isRead && prefersHtml(request.headers.accept) && isMissing(thrown);
}

export function sendMissingPage(request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const path = request.url.split('?', 1)[0] ?? '';
  const shown = path.length > pathShownMax ? `${path.slice(0, pathShownMax)}…` : path;
  return reply
    .code(404)
    .headers(messagePageHeaders)
    .send(
      messagePage({
        title: 'Page not found',
        text: 'This service has no page at this URL. Check the link, or start at Home.',
        detail: shown,
        links: [
          { label: 'Home', path: '/' },
          { label: 'Docs', path: '/docs' },
        ],
      }),
    );
}

function isMissing(thrown: unknown): boolean {
  if (thrown instanceof CallerError) return thrown.code === 'unknown_path';
  return (thrown as { code?: unknown } | null)?.code === 'FST_ERR_MAX_PARAM_LENGTH';
}
