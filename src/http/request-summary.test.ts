import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type FastifyReply, type FastifyRequest, fastify } from 'fastify';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { silentLogger } from '#lib/logger.ts';
import { RequestSummaries } from './request-summary.ts';
import { observeRequests } from './server.ts';

const request = { method: 'GET', route: '/v1/x', status: 200, ms: 1, isStream: false };

test('a summary counts requests and errors by whose they are, and names the slowest route', () => {
  const summaries = new RequestSummaries();
  summaries.count(request);
  summaries.count({ ...request, status: 404, ms: 7, route: '/v1/slow' });
  summaries.count({ ...request, status: 503, ms: 3 });
  summaries.count({ ...request, ms: 60_000, isStream: true });
  assert.deepEqual(summaries.take(), {
    requests: 4,
    callerErrors: 1,
    serverErrors: 1,
    slowest: { ms: 7, method: 'GET', route: '/v1/slow' },
  });
});

test('there is no summary where there were no requests since the last one', () => {
  const summaries = new RequestSummaries();
  assert.equal(summaries.take(), undefined);
  summaries.count(request);
  summaries.take();
  assert.equal(summaries.take(), undefined);
});

test('at info the log has one line a minute for all requests, at debug one more for each', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] });
  for (const [level, lines] of [
    ['info', ['http.requests-counted 2', 'http.requests-counted 1']],
    [
      'debug',
      [
        'http.request-answered',
        'http.request-answered',
        'http.requests-counted 2',
        'http.request-answered',
        'http.requests-counted 1',
      ],
    ],
  ] as const) {
    const logged: string[] = [];
    const write = (line: string) => {
      const { msg, requests } = JSON.parse(line) as { msg: string; requests?: number };
      logged.push(requests === undefined ? msg : `${msg} ${requests}`);
    };
    const app = fastify();
    observeRequests(app, { metrics: new Registry(), logger: pino({ level }, { write }) });
    app.get('/', async () => 'x');
    await app.inject('/');
    await app.inject('/nowhere');
    t.mock.timers.tick(60_000);
    t.mock.timers.tick(60_000);
    await app.inject('/');
    await app.close();
    assert.deepEqual(logged, lines, level);
  }
});

test('statuses that user code picks are counted by their class, because each would be a series for good', async (t) => {
  const metrics = new Registry();
  const app = fastify();
  t.after(() => app.close());
  observeRequests(app, { metrics, logger: silentLogger });
  const answer = (request: FastifyRequest, reply: FastifyReply) =>
    reply.code(Number((request.params as { status: string }).status)).send('');
  app.get('/in/:status', { config: { userContent: true } }, answer);
  app.get('/v1/:status', answer);
  for (const path of ['/in/201', '/in/299', '/in/404', '/in/503', '/v1/201'])
    await app.inject({ method: 'GET', url: path });
  const counted = (await metrics.metrics()).match(/(?<=seconds_count)\{.*/g);
  assert.deepEqual(counted?.toSorted(), [
    '{route="/in/:status",method="GET",status="2xx"} 2',
    '{route="/in/:status",method="GET",status="4xx"} 1',
    '{route="/in/:status",method="GET",status="503"} 1',
    '{route="/v1/:status",method="GET",status="201"} 1',
  ]);
});
