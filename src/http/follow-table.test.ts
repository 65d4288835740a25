import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type FastifyInstance, fastify } from 'fastify';
import { followTable } from './follow-table.ts';

function server(): FastifyInstance {
  const app = fastify();
  app.addHook('onRoute', followTable);
  return app;
}
const handler = async () => ({});

test('a route without a row is refused, and the message names the row that is missing', () => {
  const missing = /a row in http\/routes\.ts for GET \/v1\/no-such-route/;
  assert.throws(() => server().get('/v1/no-such-route', handler), missing);
  // The row is for another method.
  assert.throws(() => server().get('/v1/subscriptions', handler), /for GET \/v1\/subscriptions/);
});

test('the row decides whether a route is public, refuses access tokens and needs a scope, not the route', async () => {
  const app = server();
  const config: Record<string, unknown>[] = [];
  app.addHook('onRoute', (route) => {
    config.push({ method: route.method, ...route.config });
  });
  app.get('/v1/users/me', { config: { public: true, refusesTokens: false } }, handler);
  app.get('/v1/sources/:id', { config: { userContent: true } }, handler);
  app.get('/healthz', { config: { public: false } }, handler);
  await app.close();
  const both = (flags: object) => ['GET', 'HEAD'].map((method) => ({ method, ...flags }));
  assert.deepEqual(config, [
    ...both({ public: false, refusesTokens: true, scope: 'any' }),
    ...both({ userContent: true, public: false, refusesTokens: false, scope: 'read' }),
    ...both({ public: true, refusesTokens: false }),
  ]);
});

test('a route for the admin of the instance must say what only the admin may do', () => {
  assert.throws(() => server().get('/v1/instance', handler), /config\.adminMay of GET \/v1\/instance/);
});
