import type { KeyScope } from '#storage/tables/identity-tables.ts';

/** A row of routes.ts, as far as the scope follows from it. */
type ScopedRow = readonly [
  method: string,
  path: string,
  operationId: string | null,
  right: string,
  ...unknown[],
];

/** The scope that a route needs: `any` accepts a key with whatever scopes. */
export type RouteScope = KeyScope | 'any';

/** The caller and the key itself: every key may ask, so that a program can find out what its key gives. */
const forAnyKey: ReadonlySet<string> = new Set(['getMe', 'getSession', 'endSession']);

/** Code of users runs, or runs and deliveries are changed; what is deployed stays as it is. */
const running: ReadonlySet<string> = new Set([
  ...['runAction', 'testStep', 'runTestEvent', 'pushAppEvent', 'testAccount'],
  ...['configureComponent', 'reloadComponentProps'],
  ...['cancelRun', 'replayRun', 'restartRun', 'cancelRuns', 'replayRuns', 'restartRuns'],
  ...['replaySourceEvents', 'replayWorkflowEvents', 'cancelReplay'],
  ...['redeliverDelivery', 'redeliverToWebhook'],
]);

/** Operations with POST that change nothing. */
const reading: ReadonlySet<string> = new Set(['outlineExport']);

/** Operations about access, where neither the right of the row says it nor the method. */
const administering: ReadonlySet<string> = new Set(['createWorkspace', 'deleteMe', 'exportMe']);
const ofAccess = /^\/v1\/users\/me\/(?:api_keys|sessions|identities)/;

/**
 * The scope that an API key needs for a route; undefined: the route asks for no key. What is for admins needs `admin`, reading included;
 * everything else needs `read` for GET and `write` for other methods, but for the exceptions above.
 */
export function routeScope([method, path, operationId, right]: ScopedRow): RouteScope | undefined {
  if (right === 'anyone') return undefined;
  const operation = operationId ?? '';
  if (forAnyKey.has(operation)) return 'any';
  if (right === 'admin' || right === 'instance admin') return 'admin';
  if (administering.has(operation) || ofAccess.test(path)) return 'admin';
  if (running.has(operation)) return 'run';
  return method === 'GET' || reading.has(operation) ? 'read' : 'write';
}
