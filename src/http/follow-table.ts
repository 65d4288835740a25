import type { FastifyRequest, RouteOptions } from 'fastify';
import { assert } from '#lib/assert.ts';
import { CallerError } from '#lib/errors.ts';
import { routeScope } from './route-scope.ts';
import { callerOf } from './route-support.ts';
import { type Row, reference, routes } from './routes.ts';

const rowsByRoute = new Map<string, Row>();
for (const { rows } of [...routes, reference])
  for (const row of rows) rowsByRoute.set(`${row[0]} ${row[1]}`, row);

/**
 * Called for each route as it is registered. The row in routes.ts decides whether the route needs a key, whether it refuses access
 * tokens, and whether it is for the admin of the instance. Handlers check roles in a workspace, because they look up the owner of the
 * named object first.
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
  const scope = routeScope(row);
  if (scope !== undefined) route.config.scope = scope;
  if (right !== 'instance admin') return;
  const doing = config?.adminMay;
  assert(doing !== undefined, `config.adminMay of ${method} ${route.url}`);
  // After validation and after the Idempotency-Key, as if the handler checked it.
  route.preHandler = async (request: FastifyRequest) => {
    if (!callerOf(request).isAdmin)
      throw new CallerError('forbidden', `only the admin of this instance may ${doing}`);
  };
}
