import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parse } from 'yaml';
import { readSettings } from '#config/read-settings.ts';
import { fileVariables } from '#config/setting-files.ts';
import { settingDefinitions } from '#config/settings.ts';
import { readProjectFile } from './support/project-files.ts';

interface ComposeService {
  environment?: Record<string, string>;
  secrets?: string[];
  read_only?: boolean;
  tmpfs?: string[];
  volumes?: string[];
  ports?: string[];
  security_opt?: string[];
  stop_grace_period?: string;
  image: string;
}
interface Compose {
  services: Record<string, ComposeService>;
  volumes: Record<string, unknown>;
  secrets?: Record<string, { file: string }>;
}

const read = (name: string) => parse(readProjectFile(`ops/compose/${name}`), { merge: true }) as Compose;
const settingNames = new Set<string>([
  ...Object.values(settingDefinitions).map(({ env }) => env),
  ...fileVariables(),
]);
const files = ['compose.yaml', 'compose.postgres.yaml'] as const;
const secondsOf = (text: string | undefined) => Number(/^(\d+)s?$/.exec(text ?? '')?.[1]);

describe('the files for Compose', () => {
  for (const name of files) {
    test(`${name}: nodes have a root that is read-only, their walls, and settings that there are`, () => {
      const { services, volumes } = read(name);
      const nodes = Object.values(services).filter(({ image }) => image === 'millrace');
      assert.ok(nodes.length > 0);
      for (const node of nodes) {
        assert.deepEqual([node.read_only, node.tmpfs], [true, ['/tmp']]);
        assert.deepEqual(node.security_opt, [
          'seccomp=unconfined',
          'apparmor=unconfined',
          'systempaths=unconfined',
        ]);
        for (const setting of Object.keys(node.environment ?? {}))
          assert.ok(settingNames.has(setting), setting);
        const [volume, place] = node.volumes?.[0]?.split(':') ?? [];
        assert.ok(volume !== undefined && Object.hasOwn(volumes, volume));
        assert.match(readProjectFile('Containerfile'), new RegExp(`^VOLUME ${place}$`, 'm'));
        const drain = Number(node.environment?.MILLRACE_DRAIN_SECONDS ?? 0);
        assert.ok(secondsOf(node.stop_grace_period) >= drain + 10, 'the stop has its ten seconds');
      }
    });

    test(`${name}: nothing listens on other addresses than the loopback`, () => {
      for (const { ports = [] } of Object.values(read(name).services))
        for (const port of ports) assert.match(port, /^127\.0\.0\.1:8080:8080$/);
    });
  }

  test('the secrets are in no commit and in no image, whichever program builds it', () => {
    const ignored = readProjectFile('.containerignore');
    assert.equal(readProjectFile('Containerfile.dockerignore'), ignored);
    for (const text of [ignored, readProjectFile('.gitignore')])
      for (const name of ['ops/compose/secrets', 'ops/compose/.env', '*.key'])
        assert.ok(
          text.split('\n').some((line) => line.replace(/^\*\*\/|\/$/g, '') === name),
          name,
        );
  });

  test('secrets are files, and in no environment', () => {
    const { services, secrets = {} } = read('compose.postgres.yaml');
    for (const [name, { environment = {}, secrets: used = [] }] of Object.entries(services)) {
      for (const secret of used) assert.ok(Object.hasOwn(secrets, secret), `${name}: ${secret}`);
      const fromFiles = Object.entries(environment).filter(([key]) => key.endsWith('_FILE'));
      assert.deepEqual(
        fromFiles.map(([, file]) => file).sort(),
        used.map((secret) => `/run/secrets/${secret}`).sort(),
        name,
      );
      const plain = Object.entries(environment).filter(
        ([key]) => /KEY|PASSWORD|URL/.test(key) && !key.endsWith('_FILE'),
      );
      assert.deepEqual(
        plain.map(([key]) => key).filter((key) => key !== 'MILLRACE_PUBLIC_URL'),
        [],
        name,
      );
    }
    // The comment at the top makes each of them.
    const text = readProjectFile('ops/compose/compose.postgres.yaml');
    for (const { file } of Object.values(secrets))
      assert.ok(text.includes(`> ${file.replace('./', '')}`), file);
  });

  test('the proxy knows every node, and notices that one stops before it refuses connections', () => {
    const { services } = read('compose.postgres.yaml');
    const proxy = readProjectFile('ops/compose/haproxy.cfg');
    const nodes = Object.entries(services).filter(([, { image }]) => image === 'millrace');
    const servers = [...proxy.matchAll(/^ {2}server (\w+) (\w+):8080$/gm)].map(([, name, host]) => [
      name,
      host,
    ]);
    // In the backend of endpoints, and in that of everything else.
    const named = nodes.map(([name]) => [name, name]);
    assert.deepEqual(servers, named);
    const tracking = [...proxy.matchAll(/^ {2}server (\w+) (\w+):8080 track nodes\/(\w+)$/gm)];
    assert.deepEqual(
      tracking.map(([, name, host, tracked]) => [name, host, tracked]),
      nodes.map(([name]) => [name, name, name]),
    );
    assert.match(proxy, /use_backend endpoints if \{ path_beg \/in\/ \} !/);
    assert.match(proxy, /option httpchk GET \/readyz/);
    const [, inter, fall] = /inter (\d+)s fall (\d+)/.exec(proxy) ?? [];
    for (const [name, { environment = {} }] of nodes) {
      assert.ok(Number(environment.MILLRACE_DRAIN_SECONDS) > Number(inter) * Number(fall), name);
      const settings = Object.entries(environment).filter(
        ([key]) => !key.endsWith('_FILE') && key !== 'MILLRACE_PUBLIC_URL',
      );
      readSettings(Object.fromEntries(settings));
    }
  });
});
