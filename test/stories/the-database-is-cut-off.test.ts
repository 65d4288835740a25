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

test('requests whose commit is cut off are answered by its outcome: each that got 200 ran once, no other ran', {
  skip: postgresSkip(),
}, async () => {
  await using folder = await createTempFolder('cut');
  const database = await createTestDatabase();
  const url = new URL(database.url);
  await using proxy = await TcpProxy.start({ host: url.hostname, port: Number(url.port) });
  url.port = String(proxy.port);
  const service = await Millrace.start({ dataFolder: join(folder.path, 'data'), databaseUrl: String(url) });
  try {
    const source = await service.createSource({ component_code: numbering });
    const acknowledged: number[] = [];
    for (let n = 0; n < 20; n += 1) {
      const cut = proxy.cutAt('commit', n % 2 === 0 ? 'after' : 'before');
      const answer = await fetch(source.configured_props.http.endpoint_url, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ n }),
      });
      if (answer.status === 200) acknowledged.push(n);
      else assert.equal(((await answer.json()) as { code: string }).code, 'store_unavailable');
      await cut;
    }
    const emitted = async () =>
      (await service.events(source.id)).map(({ event }) => event.n as number).sort((a, b) => a - b);
    await waitFor(async () => (await emitted()).length >= acknowledged.length);
    assert.deepEqual(await emitted(), acknowledged);
    assert.ok(acknowledged.length >= 5, `${acknowledged.length} were acknowledged`);
  } finally {
    await service.stop();
    await database.drop();
  }
});

test('runs of a source keep their order when the end of one cannot be stored', {
  skip: postgresSkip(),
}, async () => {
  await using folder = await createTempFolder('cut-order');
  await using receiver = await HttpReceiver.start();
  const database = await createTestDatabase();
  const url = new URL(database.url);
  await using proxy = await TcpProxy.start({ host: url.hostname, port: Number(url.port) });
  url.port = String(proxy.port);
  const service = await Millrace.start({ dataFolder: join(folder.path, 'data'), databaseUrl: String(url) });
  try {
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
    const send = async (n: number) => {
      const { status } = await fetch(source.configured_props.http.endpoint_url, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ n }),
      });
      return status;
    };
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
  } finally {
    await service.stop();
    await database.drop();
  }
});
