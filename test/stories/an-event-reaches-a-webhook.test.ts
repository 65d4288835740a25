import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import packageJson from '../../package.json' with { type: 'json' };
import { createEmittingSource, createListeningWebhook } from '../support/emitting-source.ts';
import { filesBelow } from '../support/files-below.ts';
import { HttpReceiver, type ReceivedRequest } from '../support/http-receiver.ts';
import { forEachSharedService, type ServiceClient } from '../support/millrace.ts';
import { waitFor } from '../support/wait-for.ts';

/** What a receiver does with the public library: gives the event, or throws. */
function verify(secret: string, { body, headers }: ReceivedRequest): unknown {
  return new Webhook(secret).verify(body, headers as Record<string, string>);
}

/** Deliveries to a webhook in a state, newest first, as soon as there are so many. */
async function deliveries(service: ServiceClient, webhookId: string, state: string, count: number) {
  return waitFor(
    async () => {
      const { body } = await service.api(
        'GET',
        `/v1/webhooks/${webhookId}/deliveries?state=${state}&limit=100`,
      );
      return body.data.length >= count && body.data;
    },
    { what: `${count} deliveries to be ${state}` },
  );
}

forEachSharedService((fixture) => {
  test('the request is the emitted event itself, signed so that the public library verifies it', async () => {
    const { service } = fixture;
    await using receiver = await HttpReceiver.start();
    const source = await createEmittingSource(service);
    const url = `${receiver.url}/hook/a%20b?x=1&y=%C3%A9`;
    const webhook = await createListeningWebhook(service, { url, emitterId: source.id });
    const event = { text: 'żółw 💥', list: [1, null, { deep: true }] };
    await source.emit([event]);

    const request = await receiver.waitForRequest();
    assert.equal(request.method, 'POST');
    assert.equal(request.url, '/hook/a%20b?x=1&y=%C3%A9');
    assert.deepEqual(request.json(), event);
    const { headers } = request;
    assert.equal(headers['content-type'], 'application/json');
    assert.equal(headers['user-agent'], `Millrace/${packageJson.version}`);
    assert.equal(headers['x-pd-emitter-id'], source.id);
    assert.equal(headers.authorization, undefined);
    assert.deepEqual(verify(webhook.signing_secret, request), event);

    const [seconds, hex] =
      /^t=(\d+),v1=([0-9a-f]{64})$/.exec(String(headers['x-pd-signature']))?.slice(1) ?? [];
    const expected = createHmac('sha256', webhook.signing_secret).update(`${seconds}.`).update(request.body);
    assert.equal(hex, expected.digest('hex'));
    assert.equal(Math.floor(Date.parse(String(headers['x-pd-timestamp'])) / 1000), Number(seconds));

    const [delivery] = await deliveries(service, webhook.id, 'delivered', 1);
    assert.equal(delivery.id, headers['webhook-id']);
    const [summary] = await service.events(source.id);
    assert.deepEqual(
      [delivery.emitter_id, delivery.event_id, delivery.event_name, delivery.subscription_id],
      [source.id, summary.id, '', webhook.subscription_id],
    );
    assert.equal(headers['x-pd-event-id'], summary.id);
    assert.equal(delivery.status, 200);
    assert.equal(delivery.attempt_count, 1);
    assert.equal(delivery.attempts.length, 1);
    assert.ok(Math.abs(delivery.attempts[0].at_ms - Date.now()) < 60_000);
    assert.ok(Number.isInteger(delivery.ended_at) && delivery.next_attempt_at === null);
    assert.deepEqual((await service.api('GET', `/v1/deliveries/${delivery.id}`)).body.data, delivery);
  });

  test('a changed body, another secret or no secret do not verify', async () => {
    const { service } = fixture;
    await using receiver = await HttpReceiver.start();
    const source = await createEmittingSource(service);
    const webhook = await createListeningWebhook(service, { url: receiver.url, emitterId: source.id });
    const other = await createListeningWebhook(service, { url: 'http://127.0.0.1:9', emitterId: 'dc_*' });
    await service.api('DELETE', `/v1/webhooks/${other.id}`);
    await source.emit([{ n: 1 }]);
    const request = await receiver.waitForRequest();
    verify(webhook.signing_secret, request);
    assert.throws(() => verify(other.signing_secret, request));
    assert.throws(() => verify(webhook.signing_secret, { ...request, body: Buffer.from('{"n":2}') }));
  });

  test('after a rotation both secrets verify, after two the first does not', async () => {
    const { service } = fixture;
    await using receiver = await HttpReceiver.start();
    const source = await createEmittingSource(service);
    const webhook = await createListeningWebhook(service, { url: receiver.url, emitterId: source.id });
    await source.emit([0]);
    verify(webhook.signing_secret, await receiver.waitForRequest(1));

    const rotate = async () => {
      const { status, body } = await service.api('POST', `/v1/webhooks/${webhook.id}/rotate_secret`);
      assert.equal(status, 200);
      assert.ok(Math.abs(body.data.old_secret_valid_until - (Date.now() / 1000 + 86_400)) < 60);
      return body.data.signing_secret as string;
    };
    const second = await rotate();
    assert.notEqual(second, webhook.signing_secret);
    await source.emit([1]);
    const both = await receiver.waitForRequest(2);
    verify(webhook.signing_secret, both);
    verify(second, both);

    const third = await rotate();
    await source.emit([2]);
    const last = await receiver.waitForRequest(3);
    verify(second, last);
    verify(third, last);
    assert.throws(() => verify(webhook.signing_secret, last));
  });

  test('a paused webhook gets nothing; what was emitted meanwhile is held and sent when it is resumed', async () => {
    const { service } = fixture;
    await using receiver = await HttpReceiver.start();
    const source = await createEmittingSource(service);
    const webhook = await createListeningWebhook(service, { url: receiver.url, emitterId: source.id });
    const paused = await service.api('POST', `/v1/webhooks/${webhook.id}/pause`);
    assert.deepEqual([paused.body.data.state, paused.body.data.active], ['paused', false]);
    await source.emit([1, 2, 3]);
    const held = await deliveries(service, webhook.id, 'held', 3);
    assert.deepEqual(
      held.map(({ reason, ended_at }: Record<string, unknown>) => [reason, ended_at]),
      Array(3).fill(['webhook_paused', null]),
    );
    assert.equal(receiver.requests.length, 0);

    const resumed = await service.api('POST', `/v1/webhooks/${webhook.id}/resume`);
    assert.deepEqual([resumed.body.data.state, resumed.body.data.active], ['active', true]);
    await receiver.waitForRequest(3);
    assert.deepEqual(receiver.requests.map((request) => request.json()).sort(), [1, 2, 3]);
    const delivered = await deliveries(service, webhook.id, 'delivered', 3);
    assert.deepEqual(
      delivered.map(({ id }: { id: string }) => id),
      held.map(({ id }: { id: string }) => id),
    );
  });

  test('a receiver that fails is asked again; the attempt records status and answer', async () => {
    const { service } = fixture;
    // On a busy machine the second attempt may begin before the test has looked at what the first one left.
    const looked = Promise.withResolvers<void>();
    await using receiver = await HttpReceiver.start({
      answer: async () => {
        await looked.promise;
        return { status: 204 };
      },
    });
    receiver.answerOnce({ status: 503, body: 'b'.repeat(5000) });
    const source = await createEmittingSource(service);
    const webhook = await createListeningWebhook(service, { url: receiver.url, emitterId: source.id });
    await source.emit(['x']);
    const failed = await waitFor(async () => {
      const [delivery] = await deliveries(service, webhook.id, 'queued', 1);
      return delivery.attempt_count === 1 && delivery;
    });
    assert.equal(failed.attempts[0].status, 503);
    assert.equal(failed.attempts[0].response, 'b'.repeat(1024));
    assert.ok(
      failed.next_attempt_at >= Math.floor(failed.attempts[0].at_ms / 1000) + 5,
      failed.next_attempt_at,
    );
    assert.ok(
      failed.next_attempt_at <= Math.floor(failed.attempts[0].at_ms / 1000) + 8,
      failed.next_attempt_at,
    );
    assert.equal(failed.ended_at, null);
    const { failing_since } = (await service.api('GET', `/v1/webhooks/${webhook.id}`)).body.data;
    assert.ok(Math.abs(failing_since - Date.now() / 1000) < 60);

    looked.resolve();
    const again = await receiver.waitForRequest(2);
    assert.equal(again.headers['webhook-id'], receiver.requests[0]?.headers['webhook-id']);
    const [delivered] = await deliveries(service, webhook.id, 'delivered', 1);
    assert.deepEqual(
      delivered.attempts.map(({ status }: { status: number }) => status),
      [503, 204],
    );
    await waitFor(
      async () => (await service.api('GET', `/v1/webhooks/${webhook.id}`)).body.data.failing_since === null,
      { what: 'the webhook to be no longer failing' },
    );
  });

  test('the log has one line for the failures of a receiver, however many there are', async () => {
    const { service } = fixture;
    await using receiver = await HttpReceiver.start({ answer: async () => ({ status: 500 }) });
    const source = await createEmittingSource(service);
    const webhook = await createListeningWebhook(service, { url: receiver.url, emitterId: source.id });
    await source.emit(['a', 'b', 'c']);
    await receiver.waitForRequest(3);
    await waitFor(async () => {
      const queued = await deliveries(service, webhook.id, 'queued', 3);
      return queued.every(({ attempt_count }: { attempt_count: number }) => attempt_count >= 1);
    });
    const lines = (await fixture.log()).split('\n').filter((line) => line.includes('delivery.attempted'));
    assert.equal(lines.filter((line) => line.includes(webhook.id)).length, 1);
  });

  test('410 disables the webhook, which says why and when; later events are kept as blocked', async () => {
    const { service } = fixture;
    await using receiver = await HttpReceiver.start({ answer: { status: 410 } });
    const source = await createEmittingSource(service);
    const webhook = await createListeningWebhook(service, { url: receiver.url, emitterId: source.id });
    await source.emit(['first']);
    const [failed] = await deliveries(service, webhook.id, 'failed', 1);
    assert.deepEqual([failed.reason, failed.status], ['receiver_gone', 410]);
    const read = async () => (await service.api('GET', `/v1/webhooks/${webhook.id}`)).body.data;
    const disabled = await waitFor(async () => {
      const found = await read();
      return found.state === 'disabled' && found;
    });
    assert.equal(disabled.active, false);
    assert.equal(disabled.disabled_reason, 'receiver_gone');
    assert.ok(Math.abs(disabled.disabled_at - Date.now() / 1000) < 60);
    await source.emit(['second']);
    const [blocked] = await deliveries(service, webhook.id, 'blocked', 1);
    assert.equal(blocked.reason, 'webhook_disabled');
    assert.equal(receiver.requests.length, 1);

    receiver.answerAlways({});
    const resumed = await service.api('POST', `/v1/webhooks/${webhook.id}/resume`);
    assert.deepEqual(
      [resumed.body.data.state, resumed.body.data.disabled_reason, resumed.body.data.disabled_at],
      ['active', null, null],
    );
    const answer = await service.api('POST', `/v1/webhooks/${webhook.id}/redeliver`);
    assert.equal(answer.status, 200);
    assert.deepEqual(answer.body.data, { id: webhook.id, since: null, queued: 2 });
    await receiver.waitForRequest(3);
    const delivered = await deliveries(service, webhook.id, 'delivered', 2);
    assert.deepEqual(
      delivered.map(({ id }: { id: string }) => id),
      [blocked.id, failed.id],
    );
  });

  test('no signing secret is in the data folder or the log', async () => {
    const { service } = fixture;
    await using receiver = await HttpReceiver.start();
    const source = await createEmittingSource(service);
    const webhook = await createListeningWebhook(service, { url: receiver.url, emitterId: source.id });
    const rotated = await service.api('POST', `/v1/webhooks/${webhook.id}/rotate_secret`);
    await source.emit([{ canary: 'in-clear' }]);
    const request = await receiver.waitForRequest();
    const secrets = [webhook.signing_secret, rotated.body.data.signing_secret] as string[];
    for (const secret of secrets) verify(secret, request);
    await deliveries(service, webhook.id, 'delivered', 1);

    const texts = new Map([['the log', await fixture.log()]]);
    for (const file of await filesBelow(fixture.dataFolder)) {
      // Files of other suites may be gone already.
      texts.set(file, await readFile(file, 'latin1').catch(() => ''));
    }
    // What is looked for could be found.
    if (fixture.dialect === 'sqlite')
      assert.ok([...texts.values()].some((text) => text.includes(webhook.id)));
    for (const [name, text] of texts) {
      for (const secret of secrets) assert.ok(!text.includes(secret.slice(6)), name);
      assert.ok(!text.includes('whsec_'), name);
    }
    for (const path of [`/v1/webhooks/${webhook.id}`, '/v1/users/me/webhooks?limit=100']) {
      const { body } = await service.api('GET', path);
      assert.ok(!JSON.stringify(body).includes('whsec_') && !JSON.stringify(body).includes('secret'), path);
    }
  });
});
