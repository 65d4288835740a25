import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import { CertificateAuthority } from '../../../test/support/certificates.ts';
import { DeliveryFixture, type DeliveryFixtureOptions } from '../../../test/support/delivery-fixture.ts';
import { HttpReceiver, type ReceiverScript } from '../../../test/support/http-receiver.ts';
import { forEachStore } from '../../../test/support/stores.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { findWebhook, noteFailingSince, setFailingSince } from './webhook-store.ts';

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;

forEachStore((fixture) => {
  /** One emitter, one receiver with scripted answers, and another one that accepts everything. */
  const start = async (answer: ReceiverScript = {}, options: DeliveryFixtureOptions = {}) => {
    const delivery = await DeliveryFixture.start(fixture.store, options);
    const receiver = await HttpReceiver.start({ answer });
    const good = await HttpReceiver.start();
    await delivery.emitter();
    const webhook = await delivery.webhook(`${receiver.url}/hook?x=1`);
    const other = await delivery.webhook(good.url);
    await delivery.subscribe(webhook.id);
    await delivery.subscribe(other.id);
    return {
      delivery,
      receiver,
      good,
      webhook,
      other,
      row: () => findWebhook(fixture.store.read, webhook.id),
      async [Symbol.asyncDispose]() {
        await delivery[Symbol.asyncDispose]();
        await receiver.close();
        await good.close();
      },
    };
  };

  test('the body is the emitted event itself, signed so that the public library verifies it', async () => {
    await using it = await start();
    it.delivery.clock.set(Date.now());
    const [event] = await it.delivery.emit(['{"n": 1,\n "text":"ünï"}']);
    const request = await it.receiver.waitForRequest();
    await it.delivery.idle();
    const [row] = await it.delivery.deliveries(it.webhook.id);
    assert.deepEqual([request.method, request.url], ['POST', '/hook?x=1']);
    assert.equal(request.body.toString(), '{"n": 1,  "text":"ünï"}');
    const { headers } = request;
    assert.equal(headers['content-type'], 'application/json');
    assert.equal(headers['user-agent'], 'Millrace/0.0.0');
    assert.equal(headers['webhook-id'], row?.id);
    assert.equal(headers['x-pd-emitter-id'], 'dc_1');
    assert.equal(headers['x-pd-event-id'], `${event?.ms}-${event?.seq}`);
    const verified = new Webhook(it.webhook.secret).verify(
      request.body.toString(),
      headers as Record<string, string>,
    );
    assert.deepEqual(verified, { n: 1, text: 'ünï' });
    assert.throws(() => new Webhook(it.webhook.secret).verify('{"n":2}', headers as Record<string, string>));
    assert.deepEqual([row?.state, row?.attempts, row?.status], ['delivered', 1, 200]);
    assert.equal(await it.delivery.payloads(), 0);
  });

  test('a receiver that answers 500 for an hour gets the same webhook-id again until it takes it', async () => {
    await using it = await start({ status: 500, body: 'x'.repeat(5000) });
    await it.delivery.emit(['1']);
    await it.delivery.idle();
    const dues: number[] = [];
    for (let attempts = 1; ; attempts += 1) {
      const [row] = await it.delivery.deliveries(it.webhook.id);
      assert.ok(row !== undefined);
      assert.deepEqual(
        [row.state, row.attempts, it.receiver.requests.length],
        ['queued', attempts, attempts],
      );
      assert.equal(row.log.at(-1)?.response, 'x'.repeat(1024));
      const waitMs = row.runAtMs - it.delivery.clock.now();
      dues.push(waitMs);
      if (dues.reduce((sum, ms) => sum + ms, 0) > hourMs) break;
      await it.delivery.pass(waitMs - 1);
      assert.equal(it.receiver.requests.length, attempts);
      await it.delivery.pass(1);
    }
    assert.deepEqual(dues, [5_000, 5 * minuteMs, 30 * minuteMs, 2 * hourMs]);
    it.receiver.answerAlways({});
    await it.delivery.pass(2 * hourMs);
    const [row] = await it.delivery.deliveries(it.webhook.id);
    assert.deepEqual([row?.state, row?.attempts], ['delivered', 5]);
    const ids = it.receiver.requests.map(({ headers }) => headers['webhook-id']);
    assert.deepEqual([...new Set(ids)], [row?.id]);
    assert.equal((await it.row())?.failing_since_ms, null);
    assert.equal(it.good.requests.length, 1);
  });

  test('after its eighth attempt a delivery is a dead letter that says how each attempt went', async () => {
    await using it = await start({ status: 503 });
    await it.delivery.emit(['1']);
    await it.delivery.idle();
    for (const ms of [5_000, 5 * minuteMs, 30 * minuteMs, 2 * hourMs, 5 * hourMs, 10 * hourMs, 14 * hourMs])
      await it.delivery.pass(ms);
    const [row] = await it.delivery.deliveries(it.webhook.id);
    assert.deepEqual([row?.state, row?.reason, row?.attempts], ['failed', 'attempts_exhausted', 8]);
    assert.deepEqual(
      row?.log.map(({ status }) => status),
      Array(8).fill(503),
    );
    await it.delivery.pass(100 * hourMs);
    assert.equal(it.receiver.requests.length, 8);
    // It can be sent again, so its text is kept.
    assert.equal(await it.delivery.payloads(), 1);
  });

  test('429 with Retry-After: nothing is sent to that receiver before, and what waits is not counted as tried', async () => {
    await using it = await start();
    it.receiver.answerOnce({ status: 429, headers: { 'retry-after': '120' } });
    await it.delivery.emit(['1']);
    await it.delivery.idle();
    await it.delivery.emit(['2', '3']);
    await it.delivery.idle();
    assert.equal(it.receiver.requests.length, 1);
    assert.equal(it.good.requests.length, 3);
    await it.delivery.pass(119_999);
    assert.equal(it.receiver.requests.length, 1);
    await it.delivery.pass(1);
    assert.deepEqual(
      (await it.delivery.deliveries(it.webhook.id)).map(({ state, attempts }) => [state, attempts]),
      [
        ['delivered', 2],
        ['delivered', 1],
        ['delivered', 1],
      ],
    );
  });

  test('Retry-After as a date is honoured as well, and a nonsense one is not', async () => {
    await using it = await start();
    const { clock } = it.delivery;
    it.receiver.answerOnce(
      { status: 503, headers: { 'retry-after': new Date(clock.now() + 60_000).toUTCString() } },
      { status: 503, headers: { 'retry-after': 'soon' } },
    );
    await it.delivery.emit(['1']);
    await it.delivery.idle();
    assert.equal((await it.delivery.deliveries(it.webhook.id))[0]?.runAtMs, clock.now() + 60_000);
    await it.delivery.pass(60_000);
    assert.equal((await it.delivery.deliveries(it.webhook.id))[0]?.runAtMs, clock.now() + 5 * minuteMs);
  });

  test('a redirect is not followed: it is a failed attempt', async () => {
    await using it = await start();
    it.receiver.answerAlways({ status: 301, headers: { location: `${it.good.url}/elsewhere` } });
    await it.delivery.emit(['1']);
    await it.delivery.idle();
    const [row] = await it.delivery.deliveries(it.webhook.id);
    assert.deepEqual([row?.state, row?.status], ['queued', 301]);
    assert.deepEqual(
      it.good.requests.map(({ url }) => url),
      ['/'],
    );
  });

  test('410 disables the webhook, which says why and when; what comes then is blocked, with a record', async () => {
    await using it = await start({ status: 410 });
    await it.delivery.emit(['1']);
    await it.delivery.idle();
    const row = await it.row();
    assert.deepEqual(
      [row?.state, row?.disabled_reason, row?.disabled_at_ms],
      ['disabled', 'receiver_gone', it.delivery.clock.now()],
    );
    await it.delivery.emit(['2']);
    await it.delivery.idle();
    assert.deepEqual(
      (await it.delivery.deliveries(it.webhook.id)).map(({ state, reason }) => [state, reason]),
      [
        ['failed', 'receiver_gone'],
        ['blocked', 'webhook_disabled'],
      ],
    );
    assert.equal(it.receiver.requests.length, 1);
    assert.equal(it.good.requests.length, 2);
  });

  test('a webhook whose deliveries all fail for five days is disabled; one success restarts the five days', async () => {
    await using it = await start({ status: 500 });
    const dayMs = 24 * hourMs;
    await it.delivery.emit(['1']);
    await it.delivery.idle();
    assert.equal((await it.row())?.failing_since_ms, it.delivery.clock.now());
    await it.delivery.pass(4 * dayMs);
    it.receiver.answerOnce({});
    await it.delivery.emit(['2']);
    await it.delivery.idle();
    assert.equal((await it.row())?.failing_since_ms, null);
    await it.delivery.emit(['3']);
    await it.delivery.idle();
    await it.delivery.pass(5 * dayMs - 1);
    assert.equal((await it.row())?.state, 'active');
    await it.delivery.emit(['4']);
    await it.delivery.idle();
    await it.delivery.pass(1);
    await it.delivery.emit(['5']);
    await it.delivery.idle();
    const row = await it.row();
    assert.deepEqual([row?.state, row?.disabled_reason], ['disabled', 'only_failures']);
  });

  test('a receiver that hangs is a failed attempt after the time it has, and holds up no other receiver', async () => {
    await using it = await start(() => undefined, { answerTimeoutMs: 100 });
    await it.delivery.emit(['1']);
    await it.good.waitForRequest();
    await it.delivery.idle();
    const [row] = await it.delivery.deliveries(it.webhook.id);
    assert.equal(row?.state, 'queued');
    assert.match(row?.log[0]?.error ?? '', /did not answer within 100 ms/);
  });

  test('a receiver that closes within its answer has answered when its status has come, and not before', async () => {
    await using delivery = await DeliveryFixture.start(fixture.store);
    const heads = ['HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf', 'HTTP/1.1 20'];
    const server = createServer((socket) => {
      socket.on('error', () => {});
      socket.once('data', () => socket.end(heads.shift() ?? ''));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    await using closing = new AsyncDisposableStack();
    closing.defer(() => void server.close());
    const { port } = server.address() as { port: number };
    await delivery.emitter();
    const webhook = await delivery.webhook(`http://127.0.0.1:${port}/`);
    await delivery.subscribe(webhook.id);
    await delivery.emit(['1']);
    await delivery.idle();
    await delivery.emit(['2']);
    await delivery.idle();
    const rows = await delivery.deliveries();
    assert.deepEqual(
      rows.map(({ state }) => state),
      ['delivered', 'queued'],
    );
    assert.equal(rows[0]?.log[0]?.response, 'half');
  });

  test('an answer of a gigabyte is read to its first kilobyte and then left', async () => {
    let written = 0;
    await using it = await start((_request, response) => {
      response.writeHead(200);
      const chunk = Buffer.alloc(64 * 1024, 'x');
      const more = (): void => {
        while (written < 1024 * 1024 * 1024 && !response.destroyed) {
          written += chunk.length;
          if (!response.write(chunk)) break;
        }
      };
      response.on('drain', more);
      more();
      return undefined;
    });
    await it.delivery.emit(['1']);
    await it.delivery.idle();
    const [row] = await it.delivery.deliveries(it.webhook.id);
    assert.deepEqual([row?.state, row?.log[0]?.response?.length], ['delivered', 1024]);
    await waitFor(() => it.receiver.requests.length === 1);
    assert.ok(written < 64 * 1024 * 1024, `${written} bytes were taken`);
  });

  test('a certificate that is expired, or for another name, or of an unknown authority, ends the attempt', async () => {
    const authority = new CertificateAuthority();
    const day = 86_400_000;
    const certificates = {
      good: authority.issue(['127.0.0.1']),
      expired: authority.issue(['127.0.0.1'], {
        notAfterMs: Date.now() - day,
        notBeforeMs: Date.now() - 2 * day,
      }),
      wrong: authority.issue(['elsewhere.example']),
      unknown: new CertificateAuthority().issue(['127.0.0.1']),
    };
    await using delivery = await DeliveryFixture.start(fixture.store, { extraCa: authority.pem });
    await using closing = new AsyncDisposableStack();
    await delivery.emitter();
    const receivers: HttpReceiver[] = [];
    const ids: Record<string, string> = {};
    for (const [name, tls] of Object.entries(certificates)) {
      const receiver = closing.use(await HttpReceiver.start({ tls }));
      receivers.push(receiver);
      const webhook = await delivery.webhook(receiver.url);
      ids[name] = webhook.id;
      await delivery.subscribe(webhook.id);
    }
    await delivery.emit(['1']);
    await delivery.idle();
    const errorOf = async (name: string) => {
      const [row] = await delivery.deliveries(ids[name]);
      return `${row?.state}: ${row?.log[0]?.error}`;
    };
    assert.match(await errorOf('good'), /^delivered: undefined/);
    assert.match(await errorOf('expired'), /^queued: CERT_HAS_EXPIRED/);
    assert.match(await errorOf('wrong'), /^queued: ERR_TLS_CERT_ALTNAME_INVALID/);
    assert.match(await errorOf('unknown'), /^queued: CERT_SIGNATURE_FAILURE/);
    assert.deepEqual(
      receivers.map(({ requests }) => requests.length),
      [1, 0, 0, 0],
    );
  });

  test('a name that leads to a private address at the second look-up is not called a second time', async () => {
    const answers = ['127.0.0.1', '10.0.0.1'];
    let asked = 0;
    const lookup = async () => [{ address: answers[Math.min(asked++, 1)] ?? '' }];
    await using it = await start({ headers: { connection: 'close' } }, { lookup });
    const rebinding = await it.delivery.webhook(`http://rebinding.example:${it.receiver.port}/rebound`);
    await it.delivery.subscribe(rebinding.id, { eventName: 'r' });
    await it.delivery.emit(['1'], { channel: 'r' });
    await it.delivery.idle();
    await it.delivery.emit(['2'], { channel: 'r' });
    await it.delivery.idle();
    const rows = await it.delivery.deliveries(rebinding.id);
    assert.deepEqual(
      rows.map(({ state }) => state),
      ['delivered', 'queued'],
    );
    assert.match(rows[1]?.log[0]?.error ?? '', /EACCES/);
    assert.doesNotMatch(rows[1]?.log[0]?.error ?? '', /10\.0\.0\.1/);
    assert.equal(it.receiver.requests.length, 1);
  });

  test('a receiver that is not there is a failed attempt', async () => {
    await using it = await start();
    const closed = await HttpReceiver.start();
    const gone = await it.delivery.webhook(closed.url);
    await closed.close();
    await it.delivery.subscribe(gone.id);
    await it.delivery.emit(['1']);
    await it.delivery.idle();
    const [row] = await it.delivery.deliveries(gone.id);
    assert.equal(row?.state, 'queued');
    assert.match(row?.log[0]?.error ?? '', /ECONNREFUSED/);
  });

  test('a webhook whose secret cannot be opened gets no unsigned request, and its deliveries end with a record', async () => {
    await using setting = await start();
    const { delivery, receiver, webhook, good } = setting;
    const damaged = { secret: 'sealed elsewhere' };
    await fixture.store.transaction((tx) =>
      tx.updateTable('webhooks').set(damaged).where('id', '=', webhook.id).execute(),
    );
    await delivery.emit(['1']);
    await good.waitForRequest();
    await delivery.idle();
    for (const hours of [0, 1, 1, 3, 6, 12, 17]) await delivery.pass(hours * hourMs + 6_000);
    const [seen] = await delivery.deliveries(webhook.id);
    assert.deepEqual([seen?.state, seen?.reason, seen?.attempts], ['failed', 'attempts_exhausted', 8]);
    assert.deepEqual(
      [...new Set(seen?.log.map(({ error }) => error))],
      ['its signing secret cannot be opened'],
    );
    assert.equal(receiver.requests.length, 0);
    const row = await setting.row();
    assert.deepEqual([row?.state, row?.failing_since_ms], ['active', null]);
  });

  test('a success ends a time of failures also when it is noted together with the next failure', async () => {
    await using setting = await start();
    const { id } = setting.webhook;
    const { store } = fixture;
    await store.transaction((tx) => setFailingSince(tx, id, 1));
    const notes = [null, 7, 8].map((sinceMs) => ({ id, ownerId: 'u_1', sinceMs }));
    await store.transaction((tx) => noteFailingSince.run(tx, notes.slice(1)));
    assert.equal((await setting.row())?.failing_since_ms, 1);
    await store.transaction((tx) => noteFailingSince.run(tx, notes.slice(0, 2)));
    assert.equal((await setting.row())?.failing_since_ms, 7);
    await store.transaction((tx) => noteFailingSince.run(tx, notes.toReversed()));
    assert.equal((await setting.row())?.failing_since_ms, null);
  });
});
