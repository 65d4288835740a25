import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { createTestDatabase, postgresSkip } from '../support/databases.ts';
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
