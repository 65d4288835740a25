import type { FastifyReply, FastifyRequest } from 'fastify';
import type { App } from '#http/route-support.ts';
import { sendPageFile } from '#http/send-page-file.ts';
import { CallerError } from '#lib/errors.ts';
import type { Manual } from '#web/manual/manual.ts';
import { movedPages } from '#web/manual/manual-contents.ts';

const manualHeaders = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), geolocation=(), microphone=(), payment=(), usb=()',
};

export interface ManualRouteOptions {
  manual: Pick<Manual, 'find' | 'missing'>;
}

/** The manual. It is the same for all readers and contains no secrets, so it needs no sign-in. */
export function manualRoutes(app: App, { manual }: ManualRouteOptions): void {
  const options = { config: { page: true }, schema: { hide: true } };
  const answer = async (request: FastifyRequest, reply: FastifyReply) => {
    const path = request.url.split('?', 1)[0] ?? '';
    const address = path.replace(/(?<=.)\/+$/, '');
    const found = await manual.find(address);
    reply.headers(manualHeaders);
    if (found !== undefined) return sendPageFile(request, reply, found);
    // Links of the Markdown have its ending.
    const page = address.replace(/(?:\/index)?\.md$/, '');
    if (page !== address && (await manual.find(page)) !== undefined) return reply.redirect(page, 301);
    const moved = movedPages.get(page);
    if (moved !== undefined) return reply.redirect(moved, 301);
    if (!(request.headers.accept ?? '').includes('text/html'))
      throw new CallerError('unknown_path', 'the manual has no such page; /docs has its contents');
    const missing = await manual.missing(address);
    return reply.code(404).type(missing.contentType).send(missing.plain);
  };
  app.get('/docs', options, answer);
  app.get('/docs/*', options, answer);
}
