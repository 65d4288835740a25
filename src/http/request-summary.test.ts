import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fastify } from 'fastify';
import { pino } from 'pino';
import { Registry } from 'prom-client';
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
