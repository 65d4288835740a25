import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { pino } from 'pino';
import { startNpmRegistry } from '../../test/support/npm-registry.ts';
import { createTempFolder, type TempFolder } from '../../test/support/temp-folder.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { BuildBudget } from './build-budget.ts';
import { npmConfigWith } from './npm-config.ts';
import { WarmInstallers } from './warm-installers.ts';

let folder: TempFolder;
let registry: Awaited<ReturnType<typeof startNpmRegistry>>;

before(async () => {
  folder = await createTempFolder('warm');
  registry = await startNpmRegistry(() => [
    { name: 'one', version: '1.0.0', files: { 'index.js': 'exports.n = 1' } },
    { name: 'two', version: '1.0.0', files: { 'index.js': 'exports.n = 2' } },
    { name: 'large', version: '1.0.0', files: { 'index.js': ' '.repeat(100_000) } },
  ]);
});

after(async () => {
  await registry.close();
  await folder.remove();
});

test('installs of one owner share a process one after the other, others and those after a failure have their own', async () => {
  const pids: number[] = [];
  const write = (line: string): void => {
    const { program, child } = JSON.parse(line) as { program?: string; child?: number };
    if (program === 'installer' && child !== undefined) pids.push(child);
  };
  const installers = new WarmInstallers({ logger: pino({ level: 'debug' }, { write }) });
  const install = async (owner: string, name: string): Promise<string> => {
    const place = join(folder.path, owner);
    await mkdir(place, { recursive: true });
    const target = await mkdtemp(join(place, 'build-'));
    const request = {
      ...{ type: 'install' as const, folder: target, cache: join(folder.path, 'npm'), nowMs: Date.now() },
      ...{ npm: npmConfigWith(undefined, registry.url), specifiers: [name], declared: {} },
      ...{ packagesMax: 10, filesMax: 100, bytesMax: 50_000 },
    };
    const limits = { cpuMs: 60_000, deadlineMs: 60_000 };
    const budget = new BuildBudget({ what: 'installing', limits, signal: new AbortController().signal });
    try {
      await installers.install(place, request, budget);
    } finally {
      budget.end();
    }
    return readFile(join(target, 'node_modules', name, 'index.js'), 'utf8');
  };
  assert.equal(await install('mine', 'one'), 'exports.n = 1');
  assert.equal(await install('mine', 'two'), 'exports.n = 2');
  assert.equal(pids.length, 1);
  assert.equal(await install('theirs', 'one'), 'exports.n = 1');
  assert.equal(pids.length, 2);
  await assert.rejects(install('mine', 'large'), { code: 'component_too_large' });
  assert.equal(pids.length, 2);
  assert.deepEqual(pids.map(isAlive), [false, true]);
  await Promise.all([install('mine', 'one'), install('mine', 'two')]);
  assert.equal(pids.length, 4);
  // The waiting installer that was used longest ago has ended.
  await waitFor(() => !isAlive(pids[1] ?? 0));
  await installers.close();
  assert.deepEqual(pids.filter(isAlive), []);
});

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
