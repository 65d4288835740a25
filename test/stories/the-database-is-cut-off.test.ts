import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { createTestDatabase, postgresSkip } from '../support/databases.ts';
import { HttpReceiver } from '../support/http-receiver.ts';
import { Millrace } from '../support/millrace.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';
import { createTempFolder } from '../support/temp-folder.ts';
import { waitFor } from '../support/wait-for.ts';

const numbering = `
export default {
  name: 'Numbering', props: { http: '$.interface.http' },
  run(event) { this.$emit({ n: event.body.n }, { summary: String(event.body.n) }); },
};`;

/** Larger than the number of any event before it. */
const lastNumber = 1_000_000;

/** A service whose database is behind `proxy`, until `use` ends. */
async function withService(use: (service: Millrace, proxy: TcpProxy) => Promise<void>): Promise<void> {
  await using folder = await createTempFolder('cut');
  const database = await createTestDatabase();
  const url = new URL(database.url);
  await using proxy = await TcpProxy.start({ host: url.hostname, port: Number(url.port) });
  url.port = String(proxy.port);
  const service = await Millrace.start({ dataFolder: join(folder.path, 'data'), databaseUrl: String(url) });
  try {
    await use(service, proxy);
  } finally {
    await service.stop();
    await database.drop();
  }
}

/** Sends a number to a source; answers the status, and the code of an error. */
async function sendNumber(
  { configured_props }: { configured_props: { http: { endpoint_url: string } } },
  n: number,
): Promise<{ status: number; code?: string }> {
  const answer = await fetch(configured_props.http.endpoint_url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ n }),
  });
  const { status } = answer;
  return status === 200 ? { status } : { status, code: ((await answer.json()) as { code: string }).code };
}

test('requests whose commit is cut off are answered by its outcome: each that got 200 ran once, no other ran', {
  skip: postgresSkip(),
}, async () => {
  await withService(async (service, proxy) => {
    const source = await service.createSource({ component_code: numbering });
    const acknowledged: number[] = [];
    for (let n = 0; n < 20; n += 1) {
      const cut = proxy.cutAt('commit', n % 2 === 0 ? 'after' : 'before');
      const { status, code } = await sendNumber(source, n);
      if (status === 200) acknowledged.push(n);
      else assert.equal(code, 'store_unavailable');
      await cut;
    }
    const emitted = async () =>
      (await service.events(source.id)).map(({ event }) => event.n as number).sort((a, b) => a - b);
    await waitFor(async () => (await emitted()).length >= acknowledged.length);
    assert.deepEqual(await emitted(), acknowledged);
    assert.ok(acknowledged.length >= 5, `${acknowledged.length} were acknowledged`);
  });
});

test('runs of a source keep their order when the end of one cannot be stored', {
  skip: postgresSkip(),
}, async () => {
  await using receiver = await HttpReceiver.start();
  await withService(async (service, proxy) => {
    const source = await service.createSource({
      component_code: `
export default {
  name: 'Asks', props: { http: '$.interface.http', db: '$.service.db' },
  async run(event) {
    const before = this.db.get('n') ?? 0;
    await fetch('${receiver.url}/' + event.body.n);
    this.db.set('n', event.body.n);
    this.$emit({ n: event.body.n, before });
  },
};`,
    });
    const send = async (n: number) => (await sendNumber(source, n)).status;
    const isAsked = Promise.withResolvers<void>();
    const mayAnswer = Promise.withResolvers<void>();
    receiver.answerOnce(async () => {
      isAsked.resolve();
      await mayAnswer.promise;
      return { status: 200 };
    });
    assert.deepEqual([await send(1), await send(2)], [200, 200]);
    await isAsked.promise;
    proxy.goAway();
    let output = '';
    service.process.stdout?.on('data', (chunk: Buffer) => {
      output += chunk;
    });
    mayAnswer.resolve();
    // The second run, which waited for its turn, fails too: it cannot read what the first has set.
    await waitFor(() => output.split('"job.attempt-failed"').length >= 3);
    proxy.comeBack();
    await waitFor(async () => (await send(3)) === 200);
    const events = await waitFor(async () => {
      const found = await service.events(source.id);
      return found.length >= 3 && found;
    });
    assert.deepEqual(
      events.map(({ event }) => [event.n, event.before]),
      [
        [3, 2],
        [2, 1],
        [1, 0],
      ],
    );
  });
});

test('a listening source gets each event once and in order, however often the database is away', {
  skip: postgresSkip(),
}, async () => {
  await withService(async (service, proxy) => {
    const emitter = await service.createSource({ component_code: numbering });
    const listener = await service.createSource({
      component_code: `
export default {
  name: 'Listening', props: { db: '$.service.db' },
  run({ n }) {
    const { last = -1, count = 0 } = this.db.get('heard') ?? {};
    this.db.set('heard', { last: n, count: count + 1 });
    if (n <= last) this.$emit({ n, after: last });
    if (n === ${lastNumber}) this.$emit({ count: count + 1 });
  },
};`,
    });
    const path = `/v1/subscriptions?emitter_id=${emitter.id}&listener_id=${listener.id}`;
    assert.equal((await service.api('POST', path)).status, 200);
    const send = async (n: number) => (await sendNumber(emitter, n)).status === 200;
    let n = 0;
    let accepted = 0;
    for (let outage = 0; outage < 12; outage += 1) {
      for (const until = accepted + 30; accepted < until; n += 1) if (await send(n)) accepted += 1;
      if (outage % 2 === 0) {
        proxy.goAway();
        // The service has noticed, with whatever it had under way.
        while (await send(n++)) accepted += 1;
        proxy.comeBack();
      } else {
        const cut = proxy.cutAt('commit', outage % 4 === 1 ? 'after' : 'before');
        if (await send(n++)) accepted += 1;
        await cut;
      }
    }
    await waitFor(async () => send(lastNumber));
    const said = await waitFor(async () => {
      const events = await service.events(listener.id).catch(() => []);
      return events.some(({ event }) => 'count' in event) && events.map(({ event }) => event);
    });
    assert.deepEqual(
      said,
      [{ count: accepted + 1 }],
      'events that came after later ones, and the number of all',
    );
  });
});
