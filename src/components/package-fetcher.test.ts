import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { pino } from 'pino';
import { silentLogger } from '#lib/logger.ts';
import { HttpReceiver } from '../../test/support/http-receiver.ts';
import { startNpmRegistry } from '../../test/support/npm-registry.ts';
import { wallsOfTests } from '../../test/support/sandbox-level.ts';
import { createTempFolder, type TempFolder } from '../../test/support/temp-folder.ts';
import { BuildBudget } from './build-budget.ts';
import { InstallerProcess } from './installer-process.ts';
import { npmConfigWith } from './npm-config.ts';
import { PackageFetcher, packageFilesMax } from './package-fetcher.ts';

const files = { 'actions/a/a.mjs': 'export default { key: "a", type: "action" }' };

let folder: TempFolder;
let registry: Awaited<ReturnType<typeof startNpmRegistry>>;

before(async () => {
  folder = await createTempFolder('fetcher');
  const many = Array.from({ length: packageFilesMax }, (_, n) => [`${n}.txt`, ''] as const);
  registry = await startNpmRegistry(() => [
    { name: 'one', version: '1.0.0', files },
    { name: 'two', version: '1.0.0', files },
    { name: 'unsigned', version: '1.0.0', hasIntegrity: false },
    { name: 'many', version: '1.0.0', moreFiles: many },
  ]);
});

after(async () => {
  await registry.close();
  await folder.remove();
});

/** A fetcher, and the processes it started. */
function watchedFetcher(options: { registry?: string; deadlineMs?: number } = {}) {
  const pids: Record<string, number[]> = { installer: [], scanner: [] };
  const write = (line: string): void => {
    const { program, child } = JSON.parse(line) as { program?: string; child?: number };
    if (program !== undefined && child !== undefined) pids[program]?.push(child);
  };
  const fetcher = new PackageFetcher({
    walls: wallsOfTests(folder.path),
    cacheFolder: join(folder.path, 'cache'),
    registry: registry.url,
    logger: pino({ level: 'debug' }, { write }),
    ...options,
  });
  const started = (program: 'installer' | 'scanner'): number[] => pids[program] ?? [];
  return { fetcher, started };
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

test('packages are fetched in one process and read in another, which stay until the fetcher is closed', async () => {
  const { fetcher, started } = watchedFetcher();
  for (const name of ['one', 'two', 'one']) {
    const { files: fetched } = await fetcher.download(name);
    assert.deepEqual(fetched.map(({ path }) => path).sort(), ['actions/a/a.mjs', 'package.json']);
    const readings = await fetcher.scan(fetched);
    assert.ok(readings.some(({ head }) => head?.key === 'a'));
  }
  const pids = [...started('installer'), ...started('scanner')];
  assert.deepEqual(pids.map(isAlive), [true, true]);
  await fetcher.close();
  assert.deepEqual(pids.map(isAlive), [false, false]);
  await assert.rejects(fetcher.download('one'), { code: 'build_cancelled' });
  assert.equal(started('installer').length, 1);
});

test('a process whose package was refused fetches no other, and the next package comes whole', async () => {
  const { fetcher, started } = watchedFetcher();
  const refused = {
    unsigned: 'package_refused',
    many: 'component_too_large',
    'not-there': 'package_not_found',
  };
  for (const [name, code] of Object.entries(refused)) {
    await assert.rejects(fetcher.download(name), { code });
    assert.deepEqual(started('installer').filter(isAlive), [], name);
    assert.equal((await fetcher.download('one')).files.length, 2);
  }
  // Only the first was refused in a process of its own: each of the others ended that of the package before it.
  assert.equal(started('installer').length, 4);
  await fetcher.close();
  assert.deepEqual(started('installer').filter(isAlive), []);
});

test('a process whose package takes too long is killed, and the next package comes whole', async () => {
  // The registry under an address that gives no answer at first.
  await using slow = await HttpReceiver.start();
  slow.answerOnce(() => undefined);
  slow.answerAlways(async ({ url }) => {
    const body = Buffer.from(await (await fetch(new URL(url, registry.url))).arrayBuffer());
    return { body: url.endsWith('.tgz') ? body : body.toString().replaceAll(registry.url, `${slow.url}/`) };
  });
  // The next package has the same time, which a busy machine needs for the start of a process.
  const { fetcher, started } = watchedFetcher({ registry: slow.url, deadlineMs: 20_000 });
  const [late, next] = await Promise.allSettled(['one', 'two'].map((name) => fetcher.download(name)));
  assert.equal(late?.status === 'rejected' && late.reason.code, 'build_timeout');
  assert.equal(next?.status === 'fulfilled' && next.value.files.length, 2);
  assert.deepEqual(started('installer').map(isAlive), [false, true]);
  await fetcher.close();
  assert.deepEqual(started('installer').filter(isAlive), []);
});

test('closing ends the download that is under way, and those that wait for it start nothing', async () => {
  await using silent = await HttpReceiver.start({ answer: () => undefined });
  const { fetcher, started } = watchedFetcher({ registry: silent.url });
  const all = ['one', 'two', 'three'].map((name) => fetcher.download(name));
  const outcomes = Promise.allSettled(all);
  await silent.waitForRequest(1);
  await fetcher.close();
  for (const outcome of await outcomes)
    assert.equal(outcome.status === 'rejected' && outcome.reason.code, 'build_cancelled');
  assert.deepEqual(started('installer').map(isAlive), [false]);
});

test('a scanner whose parser was ended by a text reads no other package', async () => {
  const { fetcher, started } = watchedFetcher();
  const deep = 500_000;
  const text = `const x = ${'['.repeat(deep)}${']'.repeat(deep)}`;
  const [reading] = await fetcher.scan([{ path: 'deep.mjs', text }]);
  assert.ok(reading?.problem !== undefined);
  assert.deepEqual(started('scanner').map(isAlive), [false]);
  // One that does not parse is no harm.
  for (const broken of ['export default {', files['actions/a/a.mjs']])
    await fetcher.scan([{ path: 'a.mjs', text: broken }]);
  assert.deepEqual(started('scanner').map(isAlive), [false, true]);
  await fetcher.close();
  assert.deepEqual(started('scanner').filter(isAlive), []);
});

test('a process that fetched from one registry connects to no other', async () => {
  await using other = await HttpReceiver.start();
  const cache = join(folder.path, 'one-registry');
  const installer = await InstallerProcess.forFetching(cache, {
    ...{ logger: silentLogger, walls: wallsOfTests(folder.path) },
  });
  const budget = new BuildBudget({
    what: 'fetching',
    limits: { cpuMs: 60_000, deadlineMs: 60_000 },
    signal: new AbortController().signal,
  });
  const fetchFrom = (url: string) =>
    installer.fetchPackage(
      {
        ...{ type: 'fetch', cache, npm: npmConfigWith(undefined, url), specifiers: ['one@latest'] },
        ...{ filesMax: 100, bytesMax: 1_000_000 },
      },
      budget,
    );
  try {
    assert.equal((await fetchFrom(registry.url)).version, '1.0.0');
    await assert.rejects(fetchFrom(other.url), { code: 'package_refused' });
    assert.equal(other.requests.length, 0);
  } finally {
    budget.end();
    await installer.stop();
  }
});
