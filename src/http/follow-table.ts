import type { FastifyRequest, RouteOptions } from 'fastify';
import { assert } from '#lib/assert.ts';
import { CallerError } from '#lib/errors.ts';
import { callerOf } from './route-support.ts';
import { type Row, reference, routes } from './routes.ts';

const rowsByRoute = new Map<string, Row>();
for (const { rows } of [...routes, reference])
  for (const row of rows) rowsByRoute.set(`${row[0]} ${row[1]}`, row);

/**
 * Called for each route as it is registered: who is let in is decided by its row in routes.ts, never by the file that answers it. Rights
 * in a workspace are the exception, because the handler has to find first whose the named thing is.
 */
export function followTable(route: RouteOptions): void {
  const [method, ...others] = [route.method].flat();
  assert(
    others.every((other) => other === 'HEAD'),
    `one method a route, at ${route.url}`,
  );
  const row = rowsByRoute.get(`${method === 'HEAD' ? 'GET' : method} ${route.url}`);
  assert(row !== undefined, `a row in http/routes.ts for ${method} ${route.url}`);
  const [, , , right, tokens] = row;
  const { config } = route;
  route.config = { ...config, public: right === 'anyone', refusesTokens: tokens === 'no tokens' };
  if (right !== 'instance admin') return;
  const doing = config?.adminMay;
  assert(doing !== undefined, `config.adminMay of ${method} ${route.url}`);
  // Like a handler: after the body was checked, and after a repeated request was answered.
  route.preHandler = async (request: FastifyRequest) => {
    if (!callerOf(request).isAdmin)
      throw new CallerError('forbidden', `only the admin of this instance may ${doing}`);
  };
}
