/**
 * The files for Compose, as they are but for the port on this machine: one node; and two nodes on PostgreSQL behind the proxy, one of which is stopped
 * while events come. Podman Compose runs them, since it needs no daemon.
 */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { cp, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Containers } from './support/containers.ts';
import { hasEvent, makeEvent, request, until } from './support/event-of-a-person.ts';
import { run } from './support/programs.ts';

const root = join(import.meta.dirname, '..');
const port = 18_081;
const url = `http://127.0.0.1:${port}`;
const files = { embedded: 'compose.yaml', postgres: 'compose.postgres.yaml' };

let containers: Containers;
/** A copy of `ops/compose`. */
let folder: string;

/** Runs a command of Compose with one of the files. */
const compose = (file: string, ...args: string[]) =>
  run('podman-compose', ['-p', 'millrace', '-f', file, ...args], { cwd: folder });
const isReady = () => until('the service', async () => (await fetch(`${url}/readyz`)).ok);
const seconds = (since: number) => ((performance.now() - since) / 1000).toFixed(1);

before(async () => {
  containers = await Containers.create({ 'podman-compose': 'podman-compose' });
  if (!existsSync('/usr/lib/cni/dnsname'))
    throw new Error(
      'this drill needs a plugin: apt-get install --no-install-recommends golang-github-containernetworking-plugin-dnsname',
    );
  folder = join(containers.folder, 'compose');
  await cp(join(root, 'ops/compose'), folder, { recursive: true });
  for (const name of Object.values(files)) {
    const path = join(folder, name);
    await writeFile(
      path,
      (await readFile(path, 'utf8')).replace('127.0.0.1:8080:8080', `127.0.0.1:${port}:8080`),
    );
  }
  await containers.buildImage();
  // Stand-ins for the images of HAProxy and PostgreSQL, which come from a registry: Debian's packages, started as those are.
  await standIn('docker.io/library/haproxy:3.0', ['haproxy'], {
    'start.sh': 'exec haproxy -W -db -f /usr/local/etc/haproxy/haproxy.cfg',
  });
  await standIn('docker.io/library/postgres:17', ['postgresql'], { 'start.sh': startPostgres });
});
after(async () => {
  for (const file of Object.values(files)) await compose(file, 'down').catch(() => undefined);
  await containers?.remove();
  await run('podman', ['network', 'rm', '--force', 'millrace_default']).catch(() => undefined);
});

test('one node: from up to an event, and the data stays', async (t) => {
  const started = performance.now();
  await compose(files.embedded, 'up', '--detach');
  await isReady();
  const name = 'millrace_millrace_1';
  const log = await containers.podman('logs', name);
  const apiKey = /API key (?:\(shown once[^:]*\):)(?:\\n|\s)*([\w-]{20,})/.exec(log)?.[1];
  assert.ok(apiKey !== undefined, `the first start prints the API key: ${log.slice(0, 2_000)}`);
  const id = await makeEvent({ url, apiKey });
  t.diagnostic(`from up to an event: ${seconds(started)} s`);
  assert.match(log, /"level":"kernel"|sandbox[^\n]*kernel/, 'with walls around user code');
  assert.equal(await containers.podman('exec', name, 'id', '-u'), '10001');
  await assert.rejects(containers.podman('exec', name, 'touch', '/opt/millrace/x'), /Read-only/);
  await compose(files.embedded, 'down');
  await compose(files.embedded, 'up', '--detach');
  await isReady();
  assert.ok(await until('the event of before', () => hasEvent({ url, apiKey }, id)));
  await compose(files.embedded, 'down', '--volumes');
});

test('two nodes on PostgreSQL: from up to an event, and a node is stopped while events come', async (t) => {
  // As the comment in the file says.
  const secrets = join(folder, 'secrets');
  await mkdir(secrets, { mode: 0o700 });
  const text = await readFile(join(folder, files.postgres), 'utf8');
  const commands = [...text.matchAll(/^# {3}(\S.*?)(?: {3}#.*)?$/gm)].map(([, command]) => command);
  assert.ok(commands.length >= 4, 'the comment makes the secrets');
  await run('sh', ['-ec', commands.join('\n')], { cwd: folder });
  const apiKey = (await readFile(join(secrets, 'api-key'), 'utf8')).trim();
  const service = { url, apiKey };
  const started = performance.now();
  await compose(files.postgres, 'up', '--detach');
  await isReady();
  const id = await makeEvent(service);
  t.diagnostic(`from up to an event: ${seconds(started)} s`);
  for (const node of ['one', 'two'])
    assert.match(
      await until(`node ${node}`, () => containers.podman('logs', `millrace_${node}_1`)),
      /"level":"kernel"|sandbox[^\n]*kernel/,
    );
  const outcomes = { ok: 0, failed: 0 };
  let isOver = false;
  const asking = (async () => {
    while (!isOver) {
      const ok = await request(service, 'GET', `/v1/sources/${id}`).then(
        () => true,
        () => false,
      );
      outcomes[ok ? 'ok' : 'failed'] += 1;
      await delay(20);
    }
  })();
  await compose(files.postgres, 'stop', 'one');
  const other = await makeEvent(service);
  await compose(files.postgres, 'start', 'one');
  await until('the first node', async () =>
    (await containers.podman('ps', '--format', '{{.Names}} {{.Status}}')).includes('millrace_one_1 Up'),
  );
  isOver = true;
  await asking;
  t.diagnostic(`while a node was stopped: ${outcomes.ok} requests answered, ${outcomes.failed} failed`);
  assert.equal(outcomes.failed, 0);
  for (const event of [id, other]) assert.ok(await hasEvent(service, event));
  await compose(files.postgres, 'down', '--volumes');
});

/** An image of Debian with packages and files, which starts `start.sh`. */
async function standIn(
  tag: string,
  packages: readonly string[],
  texts: Record<string, string>,
): Promise<void> {
  const context = join(containers.folder, packages.join('-'));
  await mkdir(context);
  for (const [name, text] of Object.entries(texts))
    await writeFile(join(context, name), `#!/bin/sh\n${text}\n`);
  await writeFile(
    join(context, 'Containerfile'),
    [
      'FROM localhost/millrace-drill-base',
      `RUN apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends ${packages.join(' ')}`,
      'ENV PATH=/usr/lib/postgresql/15/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
      ...Object.keys(texts).map((name) => `COPY ${name} /${name}`),
      'CMD ["sh", "/start.sh"]',
    ].join('\n'),
  );
  await containers.build(tag, context);
}

/** What the image of PostgreSQL does with its variables. */
const startPostgres = `set -e
data=/var/lib/postgresql/data
as() { setpriv --reuid postgres --regid postgres --init-groups "$@"; }
mkdir -p $data /var/run/postgresql
chown postgres:postgres $data /var/run/postgresql
if [ ! -s $data/PG_VERSION ]; then
  as initdb -D $data -U "$POSTGRES_USER" --pwfile "$POSTGRES_PASSWORD_FILE" --auth-host=scram-sha-256 --auth-local=trust
  echo 'host all all all scram-sha-256' >> $data/pg_hba.conf
  echo "CREATE DATABASE $POSTGRES_USER" | as postgres --single -D $data postgres
fi
exec setpriv --reuid postgres --regid postgres --init-groups postgres -D $data -c 'listen_addresses=*'`;
