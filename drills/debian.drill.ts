/** The Debian package: made, installed in a Debian of its own, run, upgraded, removed. Its data stay. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFile, cp, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { makeDebianPackage } from '../scripts/package/make-debian-package.ts';
import { debianBase } from './support/debian-base.ts';
import { hasEvent, makeEvent, until } from './support/event-of-a-person.ts';
import { requirePrograms, run } from './support/programs.ts';

const port = 18_081;
const url = `http://127.0.0.1:${port}`;

let folder: string;
let root: string;
let service: ChildProcess | undefined;
const inside = (...args: string[]) => run('chroot', [root, ...args]);

before(async () => {
  requirePrograms({ debootstrap: 'debootstrap', 'dpkg-deb': 'dpkg', 'systemd-analyze': 'systemd' });
  folder = await mkdtemp(join(tmpdir(), 'millrace-debian-'));
  root = join(folder, 'root');
  // Node copies no devices.
  await run('cp', ['--archive', await debianBase(), root]);
  await run('chmod', ['755', folder]);
  await inside('apt-get', 'update', '-qq');
  // The service starts processes, and reads which there are.
  for (const name of ['proc', 'dev', 'sys']) await run('mount', ['--rbind', `/${name}`, join(root, name)]);
});
after(async () => {
  service?.kill('SIGKILL');
  for (const name of ['proc', 'dev', 'sys'])
    await run('umount', ['--recursive', '--lazy', join(root, name)]).catch(() => undefined);
  await rm(folder, { recursive: true, force: true });
});

let apiKey = '';
let sourceId = '';

test('it is installed with its dependencies, its user, its unit and its settings, and runs', async (t) => {
  const file = await makeDebianPackage(folder, { version: '0.1.0' });
  await cp(file, join(root, 'tmp', 'one.deb'));
  const started = performance.now();
  await inside(
    ...['env', 'DEBIAN_FRONTEND=noninteractive', 'apt-get', 'install', '-y', '-qq'],
    ...['--no-install-recommends', '/tmp/one.deb'],
  );
  assert.match(await inside('getent', 'passwd', 'millrace'), /\/usr\/sbin\/nologin$/);
  await run('systemd-analyze', [
    'verify',
    '--root',
    root,
    join(root, 'lib/systemd/system/millrace.service'),
  ]).catch((error: Error) => {
    // Units of other packages may be missing in this small Debian; what is said of this one counts.
    assert.doesNotMatch(error.message, /millrace\.service:\d+/);
  });
  await appendFile(join(root, 'etc/millrace/millrace.env'), `MILLRACE_PORT=${port}\n`);
  await start();
  apiKey = (await readFile(join(root, 'var/lib/millrace/data/api-key'), 'utf8')).trim();
  sourceId = await makeEvent({ url, apiKey });
  t.diagnostic(`from apt-get install to an event: ${((performance.now() - started) / 1000).toFixed(1)} s`);
});

test('an upgrade keeps settings and data', async () => {
  await stop();
  const file = await makeDebianPackage(folder, { version: '0.1.1' });
  await cp(file, join(root, 'tmp', 'two.deb'));
  await inside('env', 'DEBIAN_FRONTEND=noninteractive', 'dpkg', '-i', '/tmp/two.deb');
  assert.match(await inside('dpkg-query', '-W', 'millrace'), /0\.1\.1$/);
  assert.match(await readFile(join(root, 'etc/millrace/millrace.env'), 'utf8'), /MILLRACE_PORT=18081/);
  await start();
  assert.ok(await hasEvent({ url, apiKey }, sourceId));
});

test('removal takes the programs away, and leaves the data', async () => {
  await stop();
  const said = await inside('env', 'DEBIAN_FRONTEND=noninteractive', 'dpkg', '--purge', 'millrace');
  assert.match(said, /The data of Millrace stays in \/var\/lib\/millrace/);
  await assert.rejects(readFile(join(root, 'usr/bin/millrace')));
  await assert.rejects(readFile(join(root, 'etc/millrace/millrace.env')));
  assert.equal((await readFile(join(root, 'var/lib/millrace/data/api-key'), 'utf8')).trim(), apiKey);
});

/** Starts the command of the unit, as its user and with its settings. There is no systemd in the root file system. */
async function start(): Promise<void> {
  const unit = await readFile(join(root, 'lib/systemd/system/millrace.service'), 'utf8');
  const command = /^ExecStart=(.+)$/m.exec(unit)?.[1] ?? '';
  const environment = [...unit.matchAll(/^Environment=(.+)$/gm)].map(([, pair]) => pair ?? '');
  const settings = await readFile(join(root, 'etc/millrace/millrace.env'), 'utf8');
  const pairs = settings.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  const asUser = ['--reuid=millrace', '--regid=millrace', '--init-groups'];
  service = spawn(
    'chroot',
    [root, 'setpriv', ...asUser, 'env', '-i', ...environment, ...pairs, ...command.split(' ')],
    { stdio: ['ignore', 'ignore', 'inherit'] },
  );
  await until('the service', async () => (await fetch(`${url}/readyz`)).ok);
}

async function stop(): Promise<void> {
  if (service === undefined) return;
  const exited = once(service, 'exit');
  service.kill('SIGTERM');
  const [code] = await exited;
  assert.equal(code, 0);
  service = undefined;
}
