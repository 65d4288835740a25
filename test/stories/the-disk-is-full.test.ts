import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { runCommand } from '../support/command-line.ts';
import { Millrace, testApiKey } from '../support/millrace.ts';
import { createTempFolder } from '../support/temp-folder.ts';
import { waitFor } from '../support/wait-for.ts';

const mayMount = process.platform === 'linux' && process.getuid?.() === 0;

const numbering = `
export default {
  name: 'Numbering', props: { http: '$.interface.http' },
  run(event) { this.$emit({ n: event.body.n }, { summary: String(event.body.n) }); },
};`;

test('on a full disk what was acknowledged is kept, new writes answer 503, and the service recovers by itself', {
  skip: mayMount ? false : 'only root may mount a small file system',
}, async () => {
  await using folder = await createTempFolder('full');
  await using commandFolder = await createTempFolder('full-command');
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=32m', 'tmpfs', folder.path]);
  let service: Millrace | undefined;
  try {
    service = await Millrace.start({ dataFolder: join(folder.path, 'data') });
    const running = service;
    const source = await running.createSource({ component_code: numbering });
    const endpoint = source.configured_props.http.endpoint_url;
    const acknowledged: number[] = [];
    let n = 0;
    const send = async (): Promise<{
      status: number;
      code: string | undefined;
      retryAfter: string | null;
    }> => {
      n += 1;
      const mine = n;
      const response = await fetch(endpoint, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ n: mine, fill: 'x'.repeat(100_000) }),
      });
      const { code } = (await response.json()) as { code?: string };
      if (response.status === 200) acknowledged.push(mine);
      return { status: response.status, code, retryAfter: response.headers.get('retry-after') };
    };
    for (let count = 0; count < 5; count += 1) assert.equal((await send()).status, 200);

    const filler = join(folder.path, 'filler');
    await writeFile(filler, Buffer.alloc(64 * 1024 * 1024)).catch(() => {});
    // The files of the store have some room inside, so the first few may still be taken.
    const refused = await waitFor(async () => {
      const answer = await send();
      return answer.status !== 200 && answer;
    });
    assert.deepEqual([refused.status, refused.code], [503, 'storage_full']);
    assert.ok(Number(refused.retryAfter) > 0);
    const notReady = await fetch(`${running.url}/readyz`);
    assert.equal(notReady.status, 503);
    assert.equal(((await notReady.json()) as { error: string }).error, 'the disk of the store is full');
    const created = await running.api('POST', '/v1/components', {
      component_code: `export default { name: 'new', run() {} }; // ${'x'.repeat(100_000)}`,
    });
    assert.deepEqual([created.status, created.body.code], [503, 'storage_full']);
    assert.equal((await running.api('GET', `/v1/sources/${source.id}`)).status, 200, 'reads still work');
    assert.equal((await fetch(`${running.url}/healthz`)).status, 200);
    const environment = { MILLRACE_URL: running.url, MILLRACE_API_KEY: testApiKey };
    const { stdout } = await runCommand({ folder: commandFolder.path, environment }, ['verify', '--json']);
    const results = (JSON.parse(stdout) as { name: string; state: string }[]).map(
      ({ name, state }) => `${name} ${state}`,
    );
    assert.ok(results.includes('store failed'), results.join());
    assert.ok(results.includes('sandbox skipped'), results.join());
    assert.ok(results.includes('api key ok'), results.join());

    await rm(filler);
    await waitFor(async () => (await send()).status === 200, { what: 'writes to be taken again' });
    assert.equal((await fetch(`${running.url}/readyz`)).status, 200);
    const numbers = async () => (await running.events(source.id)).map(({ event }) => event.n as number);
    await waitFor(async () => (await numbers()).length >= acknowledged.length, {
      what: `the events of ${acknowledged.length} acknowledged requests`,
    });
    assert.ok(acknowledged.length < 100);
    assert.deepEqual(
      (await numbers()).sort((a, b) => a - b),
      acknowledged,
      'each exactly once, and none that was refused',
    );
    assert.equal(await service.stop(), 0);
    await writeFile(filler, Buffer.alloc(64 * 1024 * 1024)).catch(() => {});
    await assert.rejects(
      Millrace.start({ dataFolder: join(folder.path, 'data') }),
      /has not started, because the disk of \S+ is full: free space there/,
    );
    await rm(filler);
    service = await Millrace.start({ dataFolder: join(folder.path, 'data') });
    assert.equal((await service.events(source.id)).length, acknowledged.length);
  } finally {
    await service?.stop();
    execFileSync('umount', [folder.path]);
  }
});
