import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { FastifyInstance } from 'fastify';
import { Registry } from 'prom-client';
import type { AccountConnector } from '#accounts/connect/connect-account.ts';
import { ConnectRefusal } from '#accounts/connect/connect-flow.ts';
import { reference, routes as tableOfRoutes } from '#http/routes.ts';
import { createServer, type ServerOptions } from '#http/server.ts';
import { httpEndpoints } from '#ingress/http-endpoints.ts';
import { systemClock } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import { silentLogger } from '#lib/logger.ts';
import { openSqliteStore } from '#storage/sqlite-store.ts';
import type { Store } from '#storage/store.ts';
import { readApiOperations } from './support/api-operations.ts';
import { createTempFolder, type TempFolder } from './support/temp-folder.ts';

/** Everything that is answered without an API key. A route that comes to this list is a decision, not an accident. */
const publicRoutes = [
  ...['/healthz', '/readyz', '/metrics', '/openapi.json'],
  // The reference page and what it loads.
  ...['/docs/api', '/docs/api/*'],
  // The manual is the same for all readers.
  ...['/docs', '/docs/*'],
  // Endpoints of sources and workflows: their keys are the secret.
  ...['/in/:key', '/in/:key/*'],
  // Links of waiting runs have a token, URLs of files a signature.
  ...['/in/resume/:run/:wait/:token', '/in/cancel/:run/:wait/:token', '/files/:id'],
  // A request for a signature contains a capability.
  ...['/oauth1/sign/:capability'],
  // The secret is in the link, then in a cookie.
  ...['/connect/:link', '/connect/callback'],
  // What a workflow shows to callers who know its id.
  ...['/pipelines/:id/sse', '/v1/pipelines/:id/sse'],
  // They ask for the credentials of an OAuth client.
  ...['/v1/oauth/token', '/v1/oauth/revoke'],
  // It asks for an API key in its body.
  '/v1/session',
  // How users sign in, the way to the provider, and the way back with a cookie and the answer of the provider.
  ...['/v1/session/methods', '/v1/session/single_sign_on', '/oidc/callback'],
  // The pages of the dashboard, which hold no data of any user.
  ...['/', '/sign-in', '/sign-in/*', '/sources', '/sources/*', '/object', '/object/*'],
  ...['/workflows', '/workflows/*', '/runs', '/runs/*', '/imports', '/imports/*'],
  ...['/webhooks', '/webhooks/*', '/dead-letters', '/dead-letters/*'],
  ...['/workspace', '/workspace/*', '/instance', '/instance/*'],
  ...['/accounts', '/accounts/*', '/apps', '/apps/*'],
  ...['/registry', '/registry/*', '/templates', '/templates/*'],
  ...['/map', '/map/*', '/subscriptions', '/subscriptions/*'],
  ...['/assets/:name', '/favicon.svg', '/theme.js'],
];

interface Route {
  method: string;
  url: string;
}

const rows = [...tableOfRoutes, reference].flatMap((part) => part.rows);

/** A part that no request without a key may reach. */
function untouchable(name: string): never {
  return new Proxy(
    {},
    {
      get: (_target, property) => {
        throw new Error(`${name}.${String(property)} was used without a key`);
      },
    },
  ) as never;
}

describe('every route', () => {
  let folder: TempFolder;
  let store: Store;
  let server: FastifyInstance;
  let serverUrl = '';
  const routes: Route[] = [];

  before(async () => {
    folder = await createTempFolder('routes');
    store = await openSqliteStore({ folder: folder.path });
    const options: ServerOptions = {
      store,
      clock: systemClock,
      logger: silentLogger,
      metrics: new Registry(),
      version: '0.0.0',
      settings: { publicUrl: '', sessionHours: 1 },
      singleSignOn: undefined,
      dashboardPages: { look: () => ({ state: 'building' }), settled: () => Promise.resolve() },
      manual: { find: async () => undefined, missing: untouchable('manual') },
      instanceDays: { events: null, runs: null, deliveries: 30, audit: 365, files: null },
      eventRates: untouchable('eventRates'),
      apiRequests: untouchable('apiRequests'),
      viewInstance: untouchable('viewInstance'),
      viewProcesses: untouchable('viewProcesses'),
      fileBucket: () => undefined,
      egressProxy: () => undefined,
      sandbox: () => ({ level: 'seat-belt', reason: null, cgroups_reason: null }),
      admitPerson: () => undefined,
      endpointUrl: () => undefined,
      quotas: untouchable('quotas'),
      shares: untouchable('shares'),
      dataStores: untouchable('dataStores'),
      imports: untouchable('imports'),
      variables: untouchable('variables'),
      onVariableChange: () => {},
      onAccessEnd: () => {},
      onOwnerDeleted: () => {},
      vault: untouchable('vault'),
      resolver: untouchable('resolver'),
      componentConfigurer: untouchable('componentConfigurer'),
      deployer: untouchable('deployer'),
      runManager: untouchable('runManager'),
      runWaits: untouchable('runWaits'),
      bulkRuns: untouchable('bulkRuns'),
      runStarter: untouchable('runStarter'),
      stepTrier: untouchable('stepTrier'),
      actionRunner: untouchable('actionRunner'),
      workflowDeployer: untouchable('workflowDeployer'),
      templateMaker: untouchable('templateMaker'),
      workflowViews: untouchable('workflowViews'),
      delivery: untouchable('delivery'),
      policy: untouchable('policy'),
      files: untouchable('files'),
      fileUrls: { accepts: () => false, urlOf: untouchable('fileUrls') },
      oauth1Signer: { sign: () => Promise.reject(new CallerError('not_found', 'no such signer')) },
      bus: untouchable('bus'),
      streams: untouchable('streams'),
      builder: untouchable('builder'),
      onJobs: () => {},
      onAccountChange: () => {},
      connector: {
        open: () => Promise.reject(new ConnectRefusal(404, 'no such link')),
        submit: () => Promise.reject(new ConnectRefusal(404, 'no such link')),
        callback: () => Promise.reject(new ConnectRefusal(404, 'no such link')),
      } as unknown as AccountConnector,
      connectByClient: untouchable('connectByClient'),
      publicUrl: () => 'http://127.0.0.1',
      findApp: untouchable('findApp'),
      catalogue: untouchable('catalogue'),
      appEvents: untouchable('appEvents'),
      componentCatalogue: untouchable('componentCatalogue'),
      packageFetcher: untouchable('packageFetcher'),
      repositoryOptions: untouchable('repositoryOptions'),
      redirectUri: () => untouchable('redirectUri'),
      accountCredentials: untouchable('accountCredentials'),
      revokeGrant: untouchable('revokeGrant'),
      accountChecker: untouchable('accountChecker'),
      ingress: (app) =>
        httpEndpoints(app, {
          acceptor: untouchable('acceptor'),
          directory: { find: async () => undefined } as never,
          quotas: untouchable('quotas'),
          starter: untouchable('starter'),
          resumer: untouchable('resumer'),
          uploads: untouchable('uploads'),
          answers: untouchable('answers'),
          accessTokens: untouchable('accessTokens'),
          bodyBytesMax: 1000,
        }),
    };
    server = (await createServer(options)) as unknown as FastifyInstance;
    await server.ready();
    routes.push(...registeredRoutes(server));
    serverUrl = await server.listen({ host: '127.0.0.1', port: 0 });
  });
  after(async () => {
    await server.close();
    await store.close();
    await folder.remove();
  });

  async function ask({ method, url }: Route, key?: string): Promise<number> {
    const path = url.replaceAll(/:\w+/g, 'some-id').replace('*', 'some/path');
    const response = await fetch(serverUrl + path, {
      method,
      headers: key === undefined ? {} : { authorization: `Bearer ${key}` },
    });
    await response.arrayBuffer();
    return response.status;
  }

  test('has one row in the table of routes, and every row has its route', () => {
    const listed = rows.map(([method, path]) => `${method} ${path}`);
    // A GET route also answers HEAD. Endpoints below /in are not part of the API.
    const isListed = ({ method, url }: Route) => method !== 'HEAD' && !/^\/in(\/|$)/.test(url);
    const registered = routes.filter(isListed).map(({ method, url }) => `${method} ${withoutSlash(url)}`);
    assert.ok(listed.length > 180, `${listed.length} rows`);
    assert.deepEqual(listed.sort(), registered.sort());
    for (const url of ['/in/:key', '/docs', '/sources/:id/sse'])
      assert.ok(
        routes.some((route) => route.url === url),
        url,
      );
  });

  test('of the OpenAPI document has the operation that its row names, and rows name no others', async () => {
    const operations = (await readApiOperations(serverUrl)).map(
      ({ method, path, operationId, isPublic }) =>
        `${method} ${path.replaceAll(/\{(\w+)\}/g, ':$1')} ${operationId} ${isPublic ? 'public' : 'by key'}`,
    );
    const named = rows.flatMap(([method, path, operationId, right]) =>
      operationId === null
        ? []
        : [`${method} ${path} ${operationId} ${right === 'anyone' ? 'public' : 'by key'}`],
    );
    assert.ok(named.length > 140, `${named.length} operations`);
    assert.deepEqual(operations.map((text) => text.replace(/(?<=\w)\/(?= )/, '')).sort(), named.sort());
    const names = rows.flatMap(([, , operationId]) => operationId ?? []);
    assert.equal(new Set(names).size, names.length, 'no two rows have one operation');
  });

  test('about a user, and every route that saves or deploys code, refuses access tokens', () => {
    const deploys = [
      'POST /v1/sources',
      'POST /v1/workflows',
      'PUT /v1/workflows/:id',
      'POST /v1/workflows/:id/deployments',
      'POST /v1/imports',
      'POST /v1/imports/:id/answers',
    ];
    const named = rows.map(([method, path]) => `${method} ${path}`);
    const expected = named.filter(
      (row) =>
        / \/v1\/(?:(?:users|components|deletions)(?:\/|$)|workspaces$)/.test(row) || deploys.includes(row),
    );
    const refusing = rows
      .filter((row) => row[4] === 'no tokens')
      .map(([method, path]) => `${method} ${path}`);
    assert.deepEqual(refusing.sort(), expected.sort());
  });

  test('answers 401 without a key and with an unknown one, unless it is on the list of public routes', async () => {
    const open: string[] = [];
    let asked = 0;
    for (const route of routes) {
      for (const key of [undefined, 'no-such-key-0123456789', `mat_${'x'.repeat(32)}`]) {
        const status = await ask(route, key);
        asked += 1;
        if (status !== 401) open.push(`${route.method} ${route.url}: ${status}`);
      }
    }
    assert.ok(asked > 80, `${asked} requests`);
    assert.deepEqual(
      open.filter((line) => !publicRoutes.some((url) => line.includes(` ${url}: `))),
      [],
    );
  });

  test('on the list of public routes is there, and is public', async () => {
    for (const url of publicRoutes) {
      const route = routes.find((it) => it.url === url && ['GET', 'POST'].includes(it.method));
      assert.ok(route !== undefined, `${url} is no longer a route: take it off the list`);
      assert.notEqual(await ask(route), 401, url);
    }
  });
});

/** From Fastify's own list, so that no route can hide from it. */
function registeredRoutes(server: FastifyInstance): Route[] {
  const routes: Route[] = [];
  const path: string[] = [];
  for (const line of server.printRoutes({ commonPrefix: false }).split('\n')) {
    const [, indent = '', text = ''] = /^([\s│├└─]*)(.*)$/.exec(line) ?? [];
    if (text === '') continue;
    const depth = Math.floor(indent.length / 4);
    const [, part = '', methods] = /^(.*?)(?: \(([A-Z, ]+)\))?$/.exec(text) ?? [];
    path.length = Math.max(depth - 1, 0);
    path.push(part);
    // Printed without the slash that stands before it.
    const url = path.join('').replace(/(?<!\/)\*$/, '/*');
    for (const method of methods?.split(', ') ?? []) routes.push({ method, url });
  }
  return routes;
}

/** The router ignores a trailing slash, and prints some paths with one. */
function withoutSlash(url: string): string {
  return url.replace(/(?<=.)\/$/, '');
}
