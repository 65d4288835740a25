import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { type ComponentBuilder, createComponentBuilder } from '#components/build-component.ts';
import type { BuildLimits } from '#components/build-limits.ts';
import { silentLogger } from '#lib/logger.ts';
import { HttpReceiver } from '../support/http-receiver.ts';
import { type FakePackage, startNpmRegistry } from '../support/npm-registry.ts';
import { createTempFolder, type TempFolder } from '../support/temp-folder.ts';
import { addResult } from './attack-results.ts';

/** A package that attacks while a component is built: no code of it runs then, so that builds are the same at both levels. */
interface PackageAttack {
  name: string;
  /** Fields of the package, made from the URL of a server that no package may reach, a folder of the machine, and a marker in it. */
  make: (target: { url: string; port: number; folder: string; marker: string }) => Partial<FakePackage>;
  /** The code of the error, or `harmless`: it is built, and the attack has had no effect. */
  ending: string;
  /** It fetches nothing but what the registry holds. */
  limits?: Partial<BuildLimits>;
}

const index = { 'index.js': 'module.exports = 1' };
const dependsOn = (name: string, spec: (target: { url: string; port: number }) => string): PackageAttack => ({
  ...{ name: `a dependency on ${name}`, ending: 'unsupported_specifier' },
  make: (target) => ({ manifest: { dependencies: { evil: spec(target) } } }),
});
const runs = (script: string): PackageAttack => ({
  ...{ name: `a script at ${script}`, ending: 'harmless' },
  make: ({ marker }) => ({ manifest: { scripts: { [script]: `touch ${marker}` } }, files: index }),
});
const reaches = (
  name: string,
  ending: string,
  files: (secret: string) => Record<string, string>,
): PackageAttack => ({
  ...{ name, ending },
  make: ({ folder }) => ({ files: files(join(folder, 'secret.json')) }),
});

const attacks: readonly PackageAttack[] = [
  dependsOn('a tarball at a URL', ({ url }) => `${url}/x.tgz`),
  dependsOn('a repository of git', ({ port }) => `git+http://127.0.0.1:${port}/x.git`),
  dependsOn('a repository by SSH', () => 'git+ssh://git@127.0.0.1/x.git'),
  dependsOn('a folder', () => 'file:../../etc'),
  dependsOn('a link', () => 'link:../../etc'),
  dependsOn('a path', () => '../..'),
  dependsOn('an alias of a path', () => 'npm:../..'),
  {
    ...{ name: 'a dependency on a folder and one on a link', ending: 'unsupported_specifier' },
    make: ({ folder: place }) => ({
      manifest: { dependencies: { evil: `file:${place}`, worse: `link:${place}` } },
    }),
  },
  {
    name: 'a tarball on another server',
    ending: 'package_refused',
    make: ({ url }) => ({ tarball: `${url}/x.tgz` }),
  },
  {
    name: 'a shrinkwrap of its own on another server',
    ending: 'package_refused',
    make: ({ url }) => ({ tarball: `${url}/x.tgz`, manifest: { _hasShrinkwrap: true } }),
  },
  { name: 'no integrity', ending: 'package_refused', make: () => ({ hasIntegrity: false }) },
  {
    name: 'a gzip bomb',
    ending: 'package_refused',
    make: () => ({ files: { 'index.js': ' '.repeat(20 * 2 ** 20) } }),
  },
  ...['preinstall', 'install', 'postinstall', 'prepare'].map(runs),
  reaches('a symbolic link', 'harmless', (secret) => ({
    ...{ 'index.js': 'module.exports = require("./link.json")', 'link.json': `-> ${secret}` },
  })),
  reaches('an import of a path', 'invalid_component_code', (secret) => ({
    'index.js': `import x from ${JSON.stringify(secret)}; export default x`,
  })),
  reaches('an import of a path as text', 'invalid_component_code', (secret) => ({
    'index.js': `import x from ${JSON.stringify(secret)} with { type: "text" }; export default x`,
  })),
  reaches('exports that lead out', 'invalid_component_code', (secret) => ({
    'index.js': `export { default } from "./${'../'.repeat(20)}${secret.slice(1)}"`,
  })),
  reaches('a path of the tarball that leads out', 'harmless', () => ({
    ...{ '../../../../../escaped.js': 'module.exports = 1', ...index },
  })),
  reaches('a link to a folder, and a file in it', 'harmless', (secret) => ({
    ...{ out: `-> ${join(secret, '..')}`, 'out/escaped.js': 'module.exports = 1', ...index },
  })),
  {
    name: 'too many files',
    ending: 'component_too_large',
    limits: { packageFilesMax: 20 },
    make: () => ({
      files: { ...index, ...Object.fromEntries(Array.from({ length: 30 }, (_, i) => [`${i}.js`, ''])) },
    }),
  },
  {
    name: 'too many bytes',
    ending: 'component_too_large',
    limits: { packageBytesMax: 200_000 },
    make: () => ({ files: { 'index.js': '1;'.padEnd(300_000) } }),
  },
];

let folder: TempFolder;
let target: HttpReceiver;
let registry: Awaited<ReturnType<typeof startNpmRegistry>>;
const builders: ComponentBuilder[] = [];
let builder: ComponentBuilder;
let marker: string;

before(async () => {
  folder = await createTempFolder('package-attacks');
  marker = join(folder.path, 'marker');
  await writeFile(join(folder.path, 'secret.json'), '{"k":"CANARY"}');
  target = await HttpReceiver.start();
  registry = await startNpmRegistry(() => []);
  builder = newBuilder({});
});
after(async () => {
  for (const one of builders) await one.close();
  await registry?.close();
  await target?.close();
  await folder?.remove();
});

function newBuilder(limits: Partial<BuildLimits>): ComponentBuilder {
  const made = createComponentBuilder({
    ...{ cacheFolder: join(folder.path, `cache-${builders.length}`), registry: registry.url, limits },
    npmConfig: { registry: registry.url, credentials: {}, ca: [] },
    fetchText: () => Promise.reject(new Error('nothing is fetched in this test')),
    logger: silentLogger,
  });
  builders.push(made);
  return made;
}

async function build(name: string, by: ComponentBuilder): Promise<{ ending: string; text: string }> {
  try {
    const { bundle } = await by.build(
      { kind: 'code', code: `import t from "${name}"; export default t` },
      { ownerId: 'u_1' },
    );
    return { ending: 'harmless', text: bundle.code };
  } catch (error) {
    const { code, message } = error as { code?: string; message: string };
    return { ending: String(code), text: message };
  }
}

for (const [number, attack] of attacks.entries())
  test(`packages: ${attack.name}`, async () => {
    const { url, port } = target;
    const made = attack.make({ url, port, folder: folder.path, marker });
    const name = `attack-${number}`;
    registry.publish([
      { name, version: '1.0.0', ...made },
      // The same without what attacks: a package of this form is built.
      { name: `plain-${number}`, version: '1.0.0', files: index },
    ]);
    const proved =
      (await wouldWork(name, made)) && (await build(`plain-${number}`, builder)).ending === 'harmless';
    const said = await build(name, attack.limits === undefined ? builder : newBuilder(attack.limits));
    // Below the folder of the package itself it has not left it.
    const escaped = (await readdir(folder.path, { recursive: true })).filter(
      (path) => path.endsWith('escaped.js') && !path.includes('node_modules/attack-'),
    );
    const effects = [
      ...escaped,
      ...(existsSync(marker) ? ['the script ran'] : []),
      ...target.requests.map((request) => request.url),
    ];
    const held = said.ending === attack.ending && !said.text.includes('CANARY') && effects.length === 0;
    addResult({ class: 'packages', level: 'build', held, proved });
    assert.ok(proved, 'the attack is one');
    assert.ok(held, `it ends as ${said.ending}: ${said.text.slice(0, 200)}; ${effects}`);
  });

/** True when the attack of the package works on a careless tool. */
async function wouldWork(name: string, { files = {}, manifest }: Partial<FakePackage>): Promise<boolean> {
  const bytes = gunzipSync(await (await fetch(`${registry.url}${name}/-/1.0.0.tgz`)).arrayBuffer());
  const [script] = Object.values((manifest?.scripts ?? {}) as Record<string, string>);
  if (script !== undefined) {
    spawnSync('/bin/sh', ['-c', script]);
    const ran = existsSync(marker);
    await rm(marker, { force: true });
    return ran;
  }
  return Object.keys(files).every((path) => bytes.includes(path));
}
