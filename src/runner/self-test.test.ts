import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { chmod, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { AddressPolicy } from '#egress/address-policy.ts';
import { type Logger, silentLogger } from '#lib/logger.ts';
import { kernelSkip, withOpenFilter } from '../../test/support/sandbox-level.ts';
import { createTempFolder } from '../../test/support/temp-folder.ts';
import { makeAttackTargets } from './attack-targets.ts';
import { findKernelPrograms } from './bubblewrap-command.ts';
import { Launcher } from './launcher.ts';
import { reachableBase, SandboxFolders } from './runner-folders.ts';
import { defaultRunnerLimits } from './runner-limits.ts';
import { systemTimer } from './runner-timer.ts';
import { buildSandboxProgram } from './sandbox-program.ts';
import { findConfinement, mayUseDistinctUsers } from './self-test.ts';

const skip = await kernelSkip();
const attacksUrl = new URL('./sandbox/attacks.ts', import.meta.url);
const attackPrograms = [attacksUrl, new URL('./process-start.ts', attacksUrl)].map(
  ({ pathname }) => pathname,
);

type Options = Partial<Parameters<typeof findConfinement>[0]>;

/** Finds the strongest confinement as a start does, in a data folder of its own or a given one. */
async function find(path: string, overrides: Options = {}) {
  const distinctUsers = mayUseDistinctUsers();
  const folders = new SandboxFolders(reachableBase(path, distinctUsers));
  const launcher = await Launcher.create({
    programs: folders.program,
    streams: folders.run,
    logger: silentLogger,
  });
  try {
    return await findConfinement({
      ...{ level: 'auto', distinctUsers, folders, launcher, resultsFile: join(path, 'results.json') },
      ...{ program: await buildSandboxProgram(folders.program), extraCa: '', addons: false },
      ...{ policy: new AddressPolicy({ allow: ['public'], deny: () => [] }), logger: silentLogger },
      ...{ limits: defaultRunnerLimits, timer: systemTimer },
      ...overrides,
    });
  } finally {
    await launcher.close();
    folders.remove();
  }
}

const race = 'files by a folder that is renamed';
const longestRaceMs = 30_000;

interface Started {
  /** Flags of Node. */
  flags: (scratch: string) => string[];
  /** A program, with its arguments, that starts Node. Absent: none. */
  by?: readonly string[];
  /** What is said of the service. Absent: the truth. */
  servicePid?: number;
}

/** Runs the attacks in a Node process with these flags and returns those that succeed. Tries longer each time when a busy machine loses the race. */
async function attack(folder: string, flags: (scratch: string) => string[]): Promise<string[]> {
  let through: string[] = [];
  for (let renameMs = 50; renameMs < longestRaceMs && !through.includes(race); renameMs *= 2)
    through = await attackOnce(folder, renameMs, { flags });
  return through;
}

async function attackOnce(
  folder: string,
  renameMs: number,
  { flags, by = [], servicePid }: Started,
): Promise<string[]> {
  const scratch = join(folder, 'scratch');
  await rm(scratch, { recursive: true, force: true });
  await mkdir(scratch);
  await using targets = await makeAttackTargets(folder);
  const given = JSON.stringify({
    ...targets,
    ...(servicePid === undefined ? {} : { servicePid }),
    program: targets.canary,
    renameMs,
  });
  const main = join(folder, 'main.ts');
  await writeFile(
    main,
    `import { runAttacks } from ${JSON.stringify(attacksUrl.href)};
     console.log(JSON.stringify(await runAttacks(${given}, ${JSON.stringify(scratch)})));`,
  );
  const [program = '', ...args] = [...by, process.execPath, '--no-warnings', ...flags(scratch), main];
  const { stdout } = await promisify(execFile)(program, args, {
    env: { TZ: 'UTC', SECRET: 'of the service', PATH: process.env.PATH },
  });
  return (JSON.parse(stdout) as { through: string[] }).through;
}

test('without walls every attack of the self-test gets through', async () => {
  await using folder = await createTempFolder('attacks');
  const source = await readFile(attacksUrl, 'utf8');
  const names = [...source.matchAll(/^ {2}'([\w -]+)': /gm)].map(([, name]) => name);
  assert.ok(names.length >= 9);
  assert.deepEqual(await attack(folder.path, () => []), names);
});

test('with a permission for one folder, code reads a file beside it by renaming', async () => {
  await using folder = await createTempFolder('attacks');
  const through = await attack(folder.path, (scratch) => [
    '--permission',
    ...[scratch, join(folder.path, 'main.ts'), ...attackPrograms].map((path) => `--allow-fs-read=${path}`),
    `--allow-fs-write=${scratch}`,
  ]);
  assert.ok(through.includes(race), through.join(', '));
  assert.ok(!through.includes('files by path'));
});

test('a process inside that has the number of the service is not taken for it', { skip }, async () => {
  await using folder = await createTempFolder('attacks');
  const namespace = ['unshare', '--user', '--map-root-user', '--pid', '--fork', '--mount-proc'];
  const through = await attackOnce(folder.path, 50, { flags: () => [], by: namespace, servicePid: 1 });
  assert.ok(through.includes('files by path'), 'the attacks ran');
  assert.deepEqual(
    through.filter((name) => name.endsWith('other processes')),
    [],
  );
});

test('the kernel level is used when no attack succeeds, which is tried once for each kernel and version', {
  skip,
}, async () => {
  await using folder = await createTempFolder('self-test');
  await chmod(folder.path, 0o711);
  const first = await find(folder.path);
  assert.equal(first.level, 'kernel');
  assert.equal(first.notKernel, undefined);
  const results = join(folder.path, 'results.json');
  const [key, ...others] = JSON.parse(await readFile(results, 'utf8')) as string[];
  assert.match(key ?? '', /^[0-9a-f]{64}$/);
  assert.deepEqual(others, []);
  // This result is stored: a weakness that comes without a new version is not looked for.
  assert.equal((await find(folder.path, { findPrograms: openFilter })).level, 'kernel');
});

function openFilter(folder: string): ReturnType<typeof findKernelPrograms> {
  const tools = findKernelPrograms(folder);
  return typeof tools === 'string' ? tools : withOpenFilter(tools, folder);
}

test('at the seat belt the attacks are tried as well, and none succeeds', async () => {
  await using folder = await createTempFolder('self-test');
  await chmod(folder.path, 0o711);
  const found = await find(folder.path, { level: 'seat-belt' });
  assert.deepEqual([found.level, found.notKernel], ['seat-belt', undefined]);
  assert.equal((JSON.parse(await readFile(join(folder.path, 'results.json'), 'utf8')) as string[]).length, 1);
});

test('walls that let one attack through are not used, and the reason is kept', { skip }, async () => {
  await using folder = await createTempFolder('self-test');
  await chmod(folder.path, 0o711);
  const refusals: unknown[] = [];
  const debug = (fields: unknown, event: string): void => {
    if (event === 'runner.confinement-refused') refusals.push(fields);
  };
  const logger = { ...silentLogger, debug } as Logger;
  const findPrograms = openFilter;
  const found = await find(folder.path, { findPrograms, logger });
  assert.equal(found.level, 'seat-belt');
  assert.equal(
    found.notKernel,
    'the sandbox does not hold: a program that outlives the call, connections to loopback',
  );
  assert.deepEqual(refusals, [{ reason: found.notKernel }]);
  await assert.rejects(find(folder.path, { findPrograms, level: 'require' }), {
    name: 'SandboxError',
    message: /MILLRACE_SANDBOX is "require".*the sandbox does not hold.*apt-get install bubblewrap/,
  });
});
