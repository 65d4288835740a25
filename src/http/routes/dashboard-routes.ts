import type { FastifyReply, FastifyRequest } from 'fastify';
import type { App } from '#http/route-support.ts';
import { sendPageFile } from '#http/send-page-file.ts';
import { waitingPage } from '#http/waiting-page.ts';
import { CallerError } from '#lib/errors.ts';
import type { DashboardPages } from '#web/dashboard/dashboard-pages.ts';

/**
 * Addresses that the pages take over once they are loaded (dashboard/src/app.tsx has the same). Each is one and everything
 * below it. A request for anything but a page there is answered that there is no such operation.
 */
export const pagePaths = [
  'sign-in',
  'sources',
  'workflows',
  'runs',
  'imports',
  'webhooks',
  'dead-letters',
  'accounts',
  'apps',
  'registry',
  'templates',
  'workspace',
  'instance',
  'map',
  'subscriptions',
  'object',
];

const pagePolicy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; " +
  "manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** Headers in addition to those of every answer. A window that connects an account at a provider has to find its way back. */
const pageHeaders = {
  'content-security-policy': pagePolicy,
  'cross-origin-opener-policy': 'same-origin-allow-popups',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), geolocation=(), microphone=(), payment=(), usb=()',
};

/** How long a request for a page waits for its build before it gets a page that says so. */
const patienceMs = 250;

export interface DashboardRouteOptions {
  dashboardPages: Pick<DashboardPages, 'look' | 'settled'>;
}

/** The pages of the dashboard. They need no sign-in: their data comes from the API, which requires a session. */
export function dashboardRoutes(app: App, { dashboardPages }: DashboardRouteOptions): void {
  const options = { config: { page: true }, schema: { hide: true } };

  const page = async (request: FastifyRequest, reply: FastifyReply) => {
    const isHome = request.routeOptions.url === '/';
    if (!isHome && !(request.headers.accept ?? '').includes('text/html')) throw unknownPath();
    let look = dashboardPages.look();
    if (look.state === 'building') {
      await Promise.race([dashboardPages.settled(), afterPatience()]);
      look = dashboardPages.look();
    }
    if (look.state !== 'ready') {
      const { html, policy } = waitingPage(look);
      reply.headers({
        ...pageHeaders,
        'content-security-policy': policy,
        'content-type': 'text/html; charset=utf-8',
      });
      return reply.code(look.state === 'failed' ? 500 : 200).send(html);
    }
    const index = look.files.get('/index.html');
    if (index === undefined) throw unknownPath();
    return sendPageFile(request, reply.headers(pageHeaders), index);
  };

  const file = async (request: FastifyRequest, reply: FastifyReply) => {
    const look = dashboardPages.look();
    const found = look.state === 'ready' ? look.files.get(request.url.split('?', 1)[0] ?? '') : undefined;
    if (found === undefined) throw unknownPath();
    return sendPageFile(request, reply.headers(pageHeaders), found);
  };

  app.get('/', options, page);
  for (const path of pagePaths) {
    app.get(`/${path}`, options, page);
    app.get(`/${path}/*`, options, page);
  }
  app.get('/assets/:name', options, file);
  app.get('/favicon.svg', options, file);
  app.get('/theme.js', options, file);
}

function afterPatience(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, patienceMs).unref());
}

function unknownPath(): CallerError {
  return new CallerError('unknown_path', 'no operation has this path; /openapi.json lists them all');
}
