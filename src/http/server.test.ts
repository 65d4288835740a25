import assert from 'node:assert/strict';
import { type AddressInfo, connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { after, before, describe, test } from 'node:test';
import { setImmediate as turnOfLoop } from 'node:timers/promises';
import { Gauge, Registry } from 'prom-client';
import { systemClock } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import { silentLogger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import { postgresSkip } from '../../test/support/databases.ts';
import { createStoreLocation, type StoreLocation } from '../../test/support/stores.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { AnswerPace } from './answer-pace.ts';
import { createServer, type ServerOptions } from './server.ts';

for (const dialect of ['sqlite', 'postgres'] as const)
  describe(`the HTTP server, on ${dialect}`, { skip: dialect === 'postgres' && postgresSkip() }, () => {
    let place: StoreLocation;
    let store: Store;
    let app: Awaited<ReturnType<typeof createServer>>;
    let url: URL;
    const metrics = new Registry();

    before(async () => {
      place = await createStoreLocation(dialect);
      store = await place.open();
      // The options of a process without API, which answers for its own health.
      const options: Partial<ServerOptions> = {
        ...{ store, clock: systemClock, logger: silentLogger, metrics, api: false },
        arrival: { timeoutMs: 100, checkEveryMs: 20 },
        ingress: (ingress) => {
          const config = { public: true, userContent: true };
          ingress.get('/in/answers', { config }, (_request, reply) =>
            reply.code(404).send('user code says so'),
          );
          ingress.get('/in/refused', { config }, () =>
            Promise.reject(new CallerError('unknown_endpoint', 'none')),
          );
        },
      };
      app = await createServer(options as ServerOptions);
      await app.listen({ host: '127.0.0.1', port: 0 });
      const { port } = app.server.address() as AddressInfo;
      url = new URL(`http://127.0.0.1:${port}/readyz`);
    });
    after(async () => {
      await app?.close();
      await store?.close();
      await place?.remove();
    });

    /** What comes back for bytes that no HTTP client would send, until the server closes the connection. */
    async function answerTo(bytes: string) {
      const socket = connect(Number(url.port), '127.0.0.1');
      socket.write(bytes);
      const [head = '', body = ''] = (await text(socket)).split('\r\n\r\n');
      const { error, code } = JSON.parse(body) as { error: string; code: string };
      assert.match(head, /\r\ncontent-type: application\/json; charset=utf-8\r\n/);
      return { status: Number(head.split(' ')[1]), code, error };
    }

    test('header fields beyond 16 KB are answered with 431', async () => {
      const large = 'x'.repeat(16 * 1024);
      assert.deepEqual(await answerTo(`GET /healthz HTTP/1.1\r\nhost: a\r\nx-large: ${large}\r\n\r\n`), {
        status: 431,
        code: 'headers_too_large',
        error: 'the request line and the header fields are larger than 16 KB together',
      });
    });

    test('a request that does not arrive in time is answered with 408', async () => {
      assert.deepEqual(await answerTo('GET /healthz HTTP/1.1\r\nhost: a\r\n'), {
        status: 408,
        code: 'request_timeout',
        error: 'the request did not arrive in time',
      });
    });

    test('what is no HTTP is answered with 400', async () => {
      assert.deepEqual(await answerTo('hello\r\n\r\n'), {
        status: 400,
        code: 'invalid_request',
        error: 'the request is not well-formed HTTP',
      });
    });

    test('refusals and pages are paced, what endpoints answer is not', async (t) => {
      const paced: string[] = [];
      t.mock.method(AnswerPace.prototype, 'delayMs', (caller: string) => {
        paced.push(caller);
        return 1;
      });
      const statusOf = async (path: string) => (await fetch(new URL(path, url))).status;
      for (const [path, status] of [
        ['/healthz', 200],
        ['/nothing', 404],
        ['/in/refused', 404],
        ['/%', 400],
      ] as const) {
        assert.equal(await statusOf(path), status, path);
        assert.deepEqual(paced.splice(0), ['127.0.0.1'], path);
      }
      assert.equal(await statusOf('/in/answers'), 404);
      assert.deepEqual(paced, []);
    });

    test('metrics are gathered once for all who ask at the same time, and again for the next', async () => {
      let gathered = 0;
      const gate = Promise.withResolvers<void>();
      new Gauge({
        ...{ name: 'under_test', help: 'x', registers: [metrics] },
        async collect() {
          gathered += 1;
          this.set(gathered);
          await gate.promise;
        },
      });
      const ask = async () => (await fetch(new URL('/metrics', url))).text();
      const asked = [ask(), ask(), ask()];
      let arrived = 0;
      app.server.on('request', () => {
        arrived += 1;
      });
      await waitFor(() => arrived === 3 && gathered === 1);
      // The hooks of the others wait for nothing but the loop.
      for (let turn = 0; turn < 200; turn += 1) await turnOfLoop();
      gate.resolve();
      for (const answer of await Promise.all(asked)) assert.match(answer, /^under_test 1$/m);
      assert.match(await ask(), /^under_test 2$/m);
      metrics.removeSingleMetric('under_test');
    });

    test('a process that cannot reach its store says that it is not ready, and lives', async () => {
      const ask = async (path: string) => {
        const answer = await fetch(new URL(path, url));
        const retryAfter = answer.headers.get('retry-after');
        return { status: answer.status, retryAfter, body: await answer.json() };
      };
      assert.deepEqual((await ask('/readyz')).body, { status: 'ready' });
      // A database that is gone ends all connections to it.
      await (dialect === 'postgres' ? place.remove() : store.close());
      assert.deepEqual(await ask('/readyz'), {
        status: 503,
        retryAfter: '5',
        body: { error: 'the store cannot be reached or written', code: 'not_ready', details: {} },
      });
      assert.equal((await ask('/healthz')).status, 200);
    });
  });
