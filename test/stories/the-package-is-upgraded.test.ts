/** `millrace upgrade` and back, with two versions of the npm package in a registry of their own. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { Millrace } from '../support/millrace.ts';
import { type FakePackage, startNpmRegistry } from '../support/npm-registry.ts';
import { packageFolder } from '../support/packed-service.ts';
import { createTempFolder, type TempFolder } from '../support/temp-folder.ts';

const run = promisify(execFile);
/** Making the package and several installs take minutes on a machine that is busy. */
const patienceMs = 900_000;
const addedMigration = '0999-notes';

describe('an upgrade of the npm package', { timeout: patienceMs }, () => {
  let folder: TempFolder;
  let registry: Awaited<ReturnType<typeof startNpmRegistry>>;
  let environment: Record<string, string>;
  let program: string;

  before(
    async () => {
      folder = await createTempFolder('upgrade');
      const made = await packageFolder();
      const versions = [await published(made, '1.0.0'), await published(made, '1.1.0', addedMigration)];
      // Nothing is built here, and the Node that runs this test runs the service.
      const esbuild = {
        name: 'esbuild',
        version: '0.28.2',
        files: { 'index.js': 'exports.build = undefined;' },
      };
      registry = await startNpmRegistry(() => [esbuild, ...versions]);
      environment = {
        PATH: `${dirname(process.execPath)}:${process.env.PATH}`,
        HOME: folder.path,
        MILLRACE_DATA: join(folder.path, 'data'),
        MILLRACE_BACKUP_PASSPHRASE: 'four words hard to guess',
        npm_config_registry: registry.url,
        npm_config_cache: join(folder.path, 'npm'),
        npm_config_update_notifier: 'false',
      };
      program = await install('prefix', '1.0.0');
    },
    { timeout: patienceMs },
  );
  after(async () => {
    await registry?.close();
    await folder?.remove();
  });

  async function install(prefix: string, version: string): Promise<string> {
    const place = join(folder.path, prefix);
    await run('npm', ['install', '--global', '--prefix', place, `millrace@${version}`], { env: environment });
    return join(place, 'bin', 'millrace');
  }

  const millrace = async (...words: string[]) => (await run(program, words, { env: environment })).stdout;
  const start = (started = program) =>
    Millrace.start({
      dataFolder: join(folder.path, 'data'),
      program: [started],
      environment: { PATH: environment.PATH ?? '' },
    });
  const workspaces = async (service: Millrace) => {
    const { body } = await service.api('GET', '/v1/workspaces');
    return body.data
      .map(({ name }: { name: string }) => name)
      .filter((name: string) => /^(Before|After)$/.test(name));
  };

  test('says what it would do, makes a backup, installs, migrates, and goes back', {
    timeout: patienceMs,
  }, async () => {
    let service = await start();
    await service.api('POST', '/v1/workspaces', { name: 'Before' });
    const plan = await millrace('upgrade');
    assert.match(plan, /Installed +1\.0\.0/);
    assert.match(plan, /Available +1\.1\.0/);
    assert.match(plan, new RegExp(`Migrations +${addedMigration}\\n`));
    assert.match(plan, /Way back +a backup in .*backups/);
    await assert.rejects(
      millrace('upgrade', '--yes'),
      /the service is running on the data folder.*stop it first/,
    );
    assert.equal(await service.stop(), 0);
    assert.equal(await millrace('--version'), '1.0.0\n');

    const done = await millrace('upgrade', '--yes');
    assert.match(done, /Millrace 1\.1\.0 is installed, and the tables are as it needs them/);
    assert.equal(await millrace('--version'), '1.1.0\n');
    assert.match(await millrace('upgrade'), /1\.1\.0 is installed, and nothing is to be done/);

    const old = await install('old', '1.0.0');
    await assert.rejects(
      start(old),
      /written by Millrace 1\.1\.0, and this is 1\.0\.0 .*start Millrace 1\.1\.0 or newer/,
    );

    service = await start();
    await service.api('POST', '/v1/workspaces', { name: 'After' });
    assert.deepEqual((await workspaces(service)).sort(), ['After', 'Before']);
    assert.equal(await service.stop(), 0);

    assert.match(await millrace('upgrade', '--back'), new RegExp(`does not know ${addedMigration}`));
    assert.equal(await millrace('--version'), '1.1.0\n');
    environment.MILLRACE_BACKUP_PASSPHRASE = 'four words that are wrong';
    await assert.rejects(millrace('upgrade', '--back', '--yes'));
    environment.MILLRACE_BACKUP_PASSPHRASE = 'four words hard to guess';
    assert.equal(await millrace('--version'), '1.1.0\n');
    const back = await millrace('upgrade', '--back', '--yes');
    assert.match(back, /Millrace 1\.0\.0 is installed again.*\n.*is restored/);
    assert.equal(await millrace('--version'), '1.0.0\n');
    service = await start();
    assert.deepEqual(await workspaces(service), ['Before']);
    assert.equal(await service.stop(), 0);
  });
});

/** What the registry has of a version: the programs, and what they read at a start. */
async function published(made: string, version: string, migration?: string): Promise<FakePackage> {
  const { bin, millrace } = JSON.parse(await readFile(join(made, 'package.json'), 'utf8'));
  const files: Record<string, Buffer> = {};
  let changed = 0;
  for (const entry of await readdir(made, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name).slice(made.length + 1);
    if (!entry.isFile() || !/^(bin|apps|components|lib\/(?!dashboard|files)|src)/.test(path)) continue;
    const text = await readFile(join(made, path));
    files[path] = text;
    if (migration === undefined || !/^lib\/[^/]+\.mjs$/.test(path)) continue;
    const added = `{name:${JSON.stringify(migration)},statements:["create table notes (text text)"]}`;
    const withMigration = text.toString('utf8').replace(/(\w+Migration)(\s*\])/, (_found, last, end) => {
      changed += 1;
      return `${last},${added}${end}`;
    });
    files[path] = Buffer.from(withMigration);
  }
  assert.equal(changed, migration === undefined ? 0 : 1);
  return {
    ...{ name: 'millrace', version, files, mode: '0000755' },
    manifest: {
      ...{ type: 'module', bin, dependencies: { esbuild: '0.28.2' } },
      millrace: { migrations: [...millrace.migrations, ...(migration === undefined ? [] : [migration])] },
    },
  };
}
