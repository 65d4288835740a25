import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { createTestDatabase, postgresSkip } from '../support/databases.ts';
import { Millrace } from '../support/millrace.ts';
import { ReceiverProcess } from '../support/receiver-process.ts';
import { createTempFolder } from '../support/temp-folder.ts';
import { waitFor } from '../support/wait-for.ts';

const component = `export default {
  name: 'Numbers', props: { http: '$.interface.http' },
  run(event) { this.$emit({ n: event.body.n }); },
};`;
const senders = 6;

interface Sent {
  acknowledged: Set<number>;
  last: number;
}

/** Longer than the second wait between attempts of a delivery. */
const patienceMs = 420_000;

/** Sends numbered requests until it is stopped; remembers those that got their 2xx. */
function send(url: string, sent: Sent): { stop(): Promise<void> } {
  let going = true;
  const sending = async () => {
    while (going) {
      sent.last += 1;
      const n = sent.last;
      const headers = { 'content-type': 'application/json' };
      const request = fetch(url, { method: 'POST', headers, body: JSON.stringify({ n }) });
      const status = await request.then(
        async (response) => response.arrayBuffer().then(() => response.status),
        () => 0,
      );
      if (status === 200) sent.acknowledged.add(n);
      else await new Promise((resolve) => setTimeout(resolve, 5));
    }
  };
  const all = Promise.all(Array.from({ length: senders }, sending));
  return {
    async stop() {
      going = false;
      await all;
    },
  };
}

async function killBoth(
  context: TestContext,
  options: { dataFolder: string; databaseUrl?: string },
): Promise<void> {
  // Slower than what comes in: when the service is killed, deliveries wait in its memory.
  await using receiver = new ReceiverProcess({ answerAfterMs: 300 });
  await receiver.start();
  let service = await Millrace.start(options);
  try {
    const source = await service.createSource({ component_code: component });
    const endpoint = new URL(source.configured_props.http.endpoint_url).pathname;
    const paths = ['/one', '/two'];
    for (const path of paths) {
      const webhook = await service.api('POST', '/v1/webhooks', { url: `${receiver.url}${path}` });
      const ends = { emitter_id: source.id, listener_id: webhook.body.data.id };
      assert.equal((await service.api('POST', '/v1/subscriptions', ends)).status, 200);
    }
    const sent: Sent = { acknowledged: new Set(), last: 0 };
    const untilMore = async () => {
      const enough = sent.acknowledged.size + 30 + Math.floor(Math.random() * 120);
      await waitFor(() => sent.acknowledged.size >= enough, { what: 'acknowledgements' });
    };
    // On PostgreSQL each start waits for the lease of the one that was killed.
    const kills =
      options.databaseUrl === undefined
        ? (['service', 'receiver', 'service'] as const)
        : (['receiver', 'service'] as const);
    for (const killed of kills) {
      const sending = send(`${service.url}${endpoint}`, sent);
      await untilMore();
      if (killed === 'service') {
        await service.kill();
        await sending.stop();
        service = await Millrace.start(options);
      } else {
        await receiver.kill();
        await untilMore();
        await receiver.start();
        await untilMore();
        await sending.stop();
      }
    }
    const received = () => new Set(receiver.noted.map(({ path, body }) => `${path} ${JSON.parse(body).n}`));
    const missing = () => {
      const there = received();
      return paths.flatMap((path) =>
        [...sent.acknowledged].map((n) => `${path} ${n}`).filter((wanted) => !there.has(wanted)),
      );
    };
    // What failed once while the receiver was away is tried again after five seconds. On a machine so busy that this failed too, after five
    // minutes.
    await waitFor(() => missing().length === 0, {
      timeoutMs: patienceMs,
      what: 'every acknowledged event at both webhooks',
    }).catch(() => assert.deepEqual(missing(), [], 'lost'));
    const ids = new Map<string, Set<string>>();
    for (const { path, body, webhookId } of receiver.noted) {
      const key = `${path} ${JSON.parse(body).n}`;
      ids.set(key, (ids.get(key) ?? new Set()).add(webhookId));
    }
    const changed = [...ids].filter(([, set]) => set.size > 1).map(([key]) => key);
    assert.deepEqual(changed, [], 'what came twice has the same webhook-id');
    const duplicates = receiver.noted.length - ids.size;
    context.diagnostic(`${sent.acknowledged.size} events at 2 webhooks, ${duplicates} duplicates`);
    assert.deepEqual((await service.api('GET', '/v1/users/me/dead_letters')).body.data, []);
  } finally {
    await service.stop();
  }
}

describe('kill -9 of the service and of the receiver, while events flow', { timeout: 2 * patienceMs }, () => {
  test('on SQLite: every acknowledged event reaches each webhook, duplicates have the same webhook-id', {
    timeout: patienceMs + 180_000,
  }, async (context) => {
    await using folder = await createTempFolder('kill');
    await killBoth(context, { dataFolder: `${folder.path}/data` });
  });

  test('on PostgreSQL: the same', {
    skip: postgresSkip(),
    timeout: patienceMs + 180_000,
  }, async (context) => {
    await using folder = await createTempFolder('kill');
    const database = await createTestDatabase();
    try {
      await killBoth(context, { dataFolder: `${folder.path}/data`, databaseUrl: database.url });
    } finally {
      await database.drop();
    }
  });
});
