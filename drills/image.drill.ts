/**
 * The container image: built, run without rights on a root file system that cannot be written, stopped and started again; and the manifest of
 * one node, played by Podman.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { parseAllDocuments, stringify } from 'yaml';
import { Containers, image, limits } from './support/containers.ts';
import { hasEvent, makeEvent, until } from './support/event-of-a-person.ts';

const root = join(import.meta.dirname, '..');
const port = 18_080;
const url = `http://127.0.0.1:${port}`;
const apiKey = randomBytes(24).toString('hex');
const wallsAllowed = ['seccomp=unconfined', 'apparmor=unconfined', 'systempaths=unconfined'];

let containers: Containers;
const podman = (...args: string[]) => containers.podman(...args);

before(async () => {
  containers = await Containers.create();
  await writeFile(join(containers.folder, 'api-key'), `${apiKey}\n`, { mode: 0o444 });
});
after(() => containers?.remove());

test('the image is built from the Containerfile', async (t) => {
  await containers.buildImage();
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
  const file = join(containers.folder, 'embedded.yaml');
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
    ...['--volume', `${join(containers.folder, 'api-key')}:/run/secrets/api-key:ro`],
    ...['--env', 'MILLRACE_API_KEY_FILE=/run/secrets/api-key', '--env', `MILLRACE_PORT=${port}`],
    ...['--env', 'MILLRACE_HOST=127.0.0.1', image],
  );
  await until('the service', async () => (await fetch(`${url}/readyz`)).ok);
}
