import assert from 'node:assert/strict';
import { once } from 'node:events';
import { open, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { RunningCommand } from '../support/command-line.ts';
import { freePort } from '../support/free-port.ts';
import { Millrace } from '../support/millrace.ts';
import { testApiKey } from '../support/service-client.ts';
import { createTempFolder } from '../support/temp-folder.ts';

const numbering = `
export default {
  name: 'Numbering', props: { http: '$.interface.http' },
  run(event) { this.$emit({ n: event.body.n }, { summary: String(event.body.n) }); },
};`;

async function readiness(service: Millrace): Promise<string> {
  const answer = await fetch(`${service.url}/readyz`);
  const { status = '', error = '' } = (await answer.json()) as { status?: string; error?: string };
  return `${answer.status} ${status}${error}`;
}

/** What a start that fails says, to its last line. */
async function failedStart(dataFolder: string): Promise<string> {
  const child = Millrace.spawn({ dataFolder });
  const [said, [code]] = await Promise.all([
    text(child.stderr as NodeJS.ReadableStream),
    once(child, 'exit'),
  ]);
  assert.equal(code, 1);
  return said.trim();
}

test('a data folder that goes away is answered with 503, and is not ready, until it is back; damage is reported at the next start', async () => {
  await using folder = await createTempFolder('damaged');
  const dataFolder = join(folder.path, 'data');
  const service = await Millrace.start({ dataFolder });
  const acknowledged: number[] = [];
  try {
    const source = await service.createSource({ component_code: numbering });
    let n = 0;
    const send = async (): Promise<number> => {
      n += 1;
      const { status } = await fetch(source.configured_props.http.endpoint_url, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ n }),
      });
      if (status === 200) acknowledged.push(n);
      return status;
    };
    assert.equal(await send(), 200);
    assert.equal(await readiness(service), '200 ready');

    await rename(dataFolder, `${dataFolder}-away`);
    assert.deepEqual(await Promise.all([send(), send(), send(), send()]), [503, 503, 503, 503]);
    assert.equal(await readiness(service), '503 the store cannot be reached or written');
    await rename(`${dataFolder}-away`, dataFolder);
    assert.equal(await readiness(service), '200 ready');
    assert.equal(await send(), 200);
  } finally {
    await service.stop();
  }

  const file = join(dataFolder, 'millrace.sqlite');
  const check = () => {
    const environment = { MILLRACE_DATA: dataFolder, MILLRACE_API_KEY: testApiKey };
    return new RunningCommand({ folder: folder.path, environment }, ['store', 'check']).ended();
  };
  assert.equal((await check()).code, 0);
  await using handle = await open(file, 'r+');
  await handle.write(Buffer.alloc(3, 0x77), 0, 3, 33);
  const said = await failedStart(dataFolder);
  assert.match(said, /^the database .*millrace\.sqlite is damaged \(.+\): .*millrace restore .*$/);
  const checked = await check();
  assert.equal(checked.code, 1);
  assert.match(checked.stderr, /is damaged: Freelist/);
  const environment = {
    ...{ MILLRACE_DATA: dataFolder, MILLRACE_API_KEY: testApiKey },
    // The service does not start, so only the folder can be looked at.
    MILLRACE_URL: `http://127.0.0.1:${await freePort()}`,
  };
  const verified = await new RunningCommand({ folder: folder.path, environment }, ['verify']).ended();
  assert.equal(verified.code, 1);
  assert.match(verified.stdout, /^database +failed +.*is damaged: Freelist/m);

  await writeFile(file, Buffer.alloc(10_000, 0x2a));
  assert.match(await failedStart(dataFolder), /^the database .* is damaged \(file is not a database\): .*$/);
});
