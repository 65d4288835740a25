/**
 * The container image: built, run without rights on a root file system that cannot be written, stopped and started again; and the manifest of
 * one node, played by Podman.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { parseAllDocuments, stringify } from 'yaml';
import { debianBase } from './support/debian-base.ts';
import { hasEvent, makeEvent, until } from './support/event-of-a-person.ts';
import { requirePrograms, run } from './support/programs.ts';

const root = join(import.meta.dirname, '..');
const image = 'localhost/millrace:latest';
const port = 18_080;
const url = `http://127.0.0.1:${port}`;
const apiKey = randomBytes(24).toString('hex');
const limits = ['--ulimit', 'nofile=1024:1024', '--ulimit', 'nproc=4096:4096'];
const wallsAllowed = ['seccomp=unconfined', 'apparmor=unconfined', 'systempaths=unconfined'];

let folder: string;
/** Storage of the drill's own: that of the machine may be of another kind. The plain driver works in every file system. */
const storage = () => [
  ...['--root', join(folder, 'storage'), '--runroot', join(folder, 'running'), '--storage-driver', 'vfs'],
];
const podman = (...args: string[]) => run('podman', [...storage(), ...args]);

before(async () => {
  requirePrograms({ podman: 'podman', buildah: 'buildah', runc: 'runc', debootstrap: 'debootstrap' });
  if (!existsSync('/usr/libexec/podman/catatonit') && !existsSync('/usr/bin/catatonit'))
    throw new Error('this drill needs a program: apt-get install --no-install-recommends catatonit');
  // Several GB, which a temporary folder in memory may not hold.
  folder = await mkdtemp('/var/tmp/millrace-image-');
  await writeFile(join(folder, 'api-key'), `${apiKey}\n`, { mode: 0o444 });
  // For what has no option: limits of containers that `play kube` makes, and health checks without systemd.
  const settings = join(folder, 'containers.conf');
  await writeFile(
    settings,
    '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]\n[engine]\nruntime = "runc"\n',
  );
  Object.assign(process.env, { CONTAINERS_CONF: settings, DISABLE_HC_SYSTEMD: 'true' });
});
after(async () => {
  await podman('rm', '--force', '--ignore', 'millrace-drill');
  await podman('volume', 'rm', '--force', 'millrace-drill');
  await rm(folder, { recursive: true, force: true });
});

test('the image is built from the Containerfile', async (t) => {
  const base = await debianBase();
  const tar = join(folder, 'base.tar');
  await run('tar', ['-C', base, '-cf', tar, '.']);
  await podman('import', '--quiet', tar, 'localhost/millrace-drill-base');
  // The image to build in: the same with the Node and npm of this machine, as there is no image of Node to be had.
  await copyNode(join(folder, 'node'));
  // Only what is new: an image cannot be made of an archive that has a folder twice.
  const added = ['bin/node', 'bin/npm', 'lib/node_modules'].map((path) => join('usr', 'local', path));
  await run('tar', ['-rf', tar, '-C', join(folder, 'node'), ...added]);
  await podman('import', '--quiet', tar, 'localhost/millrace-drill-node');
  await rm(tar);
  const context = join(folder, 'context');
  await run('sh', ['-c', `mkdir ${context} && git archive HEAD | tar -x -C ${context}`], { cwd: root });
  // The build goes through the same mirrors, and trusts the same authorities, as this machine.
  const authorities = '/etc/ssl/certs/ca-certificates.crt';
  const trusted = existsSync(authorities)
    ? ['--volume', `${authorities}:${authorities}:ro`, '--build-arg', `NPM_CONFIG_CAFILE=${authorities}`]
    : [];
  await run('buildah', [
    ...storage(),
    // The other format has no health check.
    ...['build', '--isolation', 'chroot', '--format', 'docker'],
    ...['--build-arg', 'BUILD_IMAGE=localhost/millrace-drill-node'],
    ...['--build-arg', 'BASE_IMAGE=localhost/millrace-drill-base'],
    ...['--build-arg', `NPM_CONFIG_REGISTRY=${await npmConfig('registry')}`],
    ...trusted,
    ...['--tag', image, '--file', join(context, 'Containerfile'), context],
  ]);
  const parts = JSON.parse(
    await podman(
      'run',
      '--rm',
      '--runtime',
      'runc',
      ...limits,
      '--entrypoint',
      'cat',
      image,
      '/opt/millrace/sbom.cdx.json',
    ),
  );
  assert.equal(parts.bomFormat, 'CycloneDX');
  const named = new Map<string, string>(
    parts.components.map(({ name, purl }: Record<'name' | 'purl', string>) => [name, purl]),
  );
  assert.match(named.get('fastify') ?? '', /^pkg:npm\/fastify@/);
  assert.match(named.get('bubblewrap') ?? '', /^pkg:deb\/debian\/bubblewrap@.*distro=debian-/);
  t.diagnostic(
    `parts: ${[...named.values()].filter((purl) => purl?.startsWith('pkg:deb/')).length} Debian packages of ${parts.components.length}`,
  );
  const [{ Size: size }] = JSON.parse(await podman('image', 'inspect', image));
  t.diagnostic(`size of the image: ${Math.round(size / 1e6)} MB`);
});

for (const walls of [true, false]) {
  const what = walls ? 'with walls around user code' : 'under the default profile, at the seat belt';
  test(`it runs without rights on a read-only root, ${what}, and keeps its data`, async (t) => {
    const started = performance.now();
    await start(walls);
    const id = await makeEvent({ url, apiKey });
    t.diagnostic(
      `from podman run to an event: ${((performance.now() - started) / 1000).toFixed(1)} s ${what}`,
    );
    const level = await podman('logs', 'millrace-drill');
    assert.match(
      level,
      walls ? /"level":"kernel"|sandbox[^\n]*kernel/ : /seat.belt/,
      'the level is in the log',
    );
    assert.equal(await podman('exec', 'millrace-drill', 'id', '-u'), '10001');
    await assert.rejects(podman('exec', 'millrace-drill', 'touch', '/opt/millrace/x'), /Read-only/);
    await until('the health check', async () => {
      await podman('healthcheck', 'run', 'millrace-drill');
      return true;
    });
    assert.ok(
      !(await podman('inspect', 'millrace-drill')).includes(apiKey),
      'the key is not in podman inspect',
    );
    const stopping = performance.now();
    await podman('stop', '--time', '30', 'millrace-drill');
    t.diagnostic(`podman stop: ${((performance.now() - stopping) / 1000).toFixed(1)} s`);
    const [{ State: state }] = JSON.parse(await podman('inspect', 'millrace-drill'));
    assert.equal(state.ExitCode, 0, await podman('logs', '--tail', '5', 'millrace-drill'));
    await podman('rm', 'millrace-drill');
    await start(walls);
    assert.ok(
      await until('the event of before', () => hasEvent({ url, apiKey }, id)),
      'a new container has the data',
    );
    await podman('rm', '--force', 'millrace-drill');
    await podman('volume', 'rm', 'millrace-drill');
  });
}

test('podman play kube makes a node of the manifest of one node', async (t) => {
  const file = join(folder, 'embedded.yaml');
  await writeFile(file, await onThePort(join(root, 'ops/kubernetes/embedded.yaml')));
  const started = performance.now();
  await podman('play', 'kube', '--network', 'host', file);
  try {
    await until('the service', async () => (await fetch(`${url}/readyz`)).ok);
    const name = await podman(
      'ps',
      '--filter',
      'name=millrace-pod',
      '--filter',
      `ancestor=${image}`,
      '--format',
      '{{.Names}}',
    );
    const log = await podman('logs', name);
    const key = /API key (?:\(shown once[^:]*\):)(?:\\n|\s)*([\w-]{20,})/.exec(log)?.[1];
    assert.ok(key !== undefined, `the first start prints the API key: ${log.slice(0, 2_000)}`);
    await makeEvent({ url, apiKey: key });
    t.diagnostic(`from podman play kube to an event: ${((performance.now() - started) / 1000).toFixed(1)} s`);
    t.diagnostic(`level of the sandbox: ${/sandbox[^\n]*?(kernel|seat.belt)/.exec(log)?.[1]}`);
    assert.equal(await podman('exec', name, 'id', '-u'), '10001');
    await assert.rejects(podman('exec', name, 'touch', '/opt/millrace/x'), /Read-only/);
  } finally {
    await podman('play', 'kube', '--down', file);
    await podman('volume', 'rm', '--force', 'millrace');
  }
});

/** The manifest with the port of this drill, on the loopback, as its pod shares the network of this machine. */
async function onThePort(path: string): Promise<string> {
  const documents = parseAllDocuments((await readFile(path, 'utf8')).replaceAll(/\b8080\b/g, `${port}`));
  return documents
    .map((document) => document.toJS())
    .map((object) => {
      if (object.kind !== 'Deployment') return object;
      // A pod with users of its own cannot share the network of the machine.
      delete object.spec.template.spec.hostUsers;
      const [container] = object.spec.template.spec.containers;
      // Podman maps no ports of a pod that shares the network, and then knows none by name.
      delete container.ports;
      for (const probe of [container.livenessProbe, container.readinessProbe, container.startupProbe])
        if (probe?.httpGet !== undefined) probe.httpGet.port = port;
      container.env.push(
        { name: 'MILLRACE_PORT', value: `${port}` },
        { name: 'MILLRACE_HOST', value: '127.0.0.1' },
      );
      return object;
    })
    .map((object) => stringify(object))
    .join('---\n');
}

async function start(walls: boolean): Promise<void> {
  // That of a test that failed.
  await podman('rm', '--force', '--ignore', 'millrace-drill');
  await podman(
    ...['run', '--detach', '--name', 'millrace-drill', '--runtime', 'runc', '--network', 'host', ...limits],
    ...['--read-only', '--tmpfs', '/tmp', '--volume', 'millrace-drill:/var/lib/millrace'],
    ...(walls ? wallsAllowed.flatMap((option) => ['--security-opt', option]) : []),
    ...['--volume', `${join(folder, 'api-key')}:/run/secrets/api-key:ro`],
    ...['--env', 'MILLRACE_API_KEY_FILE=/run/secrets/api-key', '--env', `MILLRACE_PORT=${port}`],
    ...['--env', 'MILLRACE_HOST=127.0.0.1', image],
  );
  await until('the service', async () => (await fetch(`${url}/readyz`)).ok);
}

/** The Node that runs npm here, and that npm, as they are below /usr/local in an image of Node. */
async function copyNode(target: string): Promise<void> {
  const { npm_node_execpath: node = process.execPath, npm_execpath: npm } = process.env;
  if (npm === undefined) throw new Error('start this drill with npm: npm run drill -- image');
  const local = join(target, 'usr', 'local');
  await mkdir(join(local, 'bin'), { recursive: true });
  await cp(node, join(local, 'bin', 'node'));
  await cp(join(npm, '..', '..'), join(local, 'lib', 'node_modules', 'npm'), { recursive: true });
  await symlink('../lib/node_modules/npm/bin/npm-cli.js', join(local, 'bin', 'npm'));
}

function npmConfig(name: string): Promise<string> {
  return run('npm', ['config', 'get', name]);
}
