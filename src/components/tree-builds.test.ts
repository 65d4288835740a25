import assert from 'node:assert/strict';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { silentLogger } from '#lib/logger.ts';
import { type FakePackage, startNpmRegistry } from '../../test/support/npm-registry.ts';
import { createTempFolder, type TempFolder } from '../../test/support/temp-folder.ts';
import { type BuildOptions, type ComponentBuilder, createComponentBuilder } from './build-component.ts';
import { defaultBuildLimits } from './build-limits.ts';
import type { BuiltBundle } from './built-bundle.ts';
import { npmConfigWith } from './npm-config.ts';
import { PackageFolders } from './package-folders.ts';

const published: FakePackage[] = ['one', 'two', 'three'].map((name) => ({
  ...{ name, version: '1.0.0' },
  files: { 'index.js': `exports.name = '${name}'` },
}));

let folder: TempFolder;
let registry: Awaited<ReturnType<typeof startNpmRegistry>>;
let packages: PackageFolders;
let builder: ComponentBuilder;

before(async () => {
  folder = await createTempFolder('tree-builds');
  registry = await startNpmRegistry(() => published);
  packages = new PackageFolders({
    folder: join(folder.path, 'packages'),
    cache: join(folder.path, 'npm'),
    npm: npmConfigWith(undefined, registry.url),
    limits: defaultBuildLimits,
    logger: silentLogger,
  });
  builder = newBuilder(registry.url);
});

function newBuilder(registryUrl: string): ComponentBuilder {
  return createComponentBuilder({
    cacheFolder: join(folder.path, 'cache'),
    registry: registryUrl,
    npmConfig: { registry: registryUrl, credentials: {}, ca: [] },
    packages,
    fetchText: () => assert.fail('nothing is fetched'),
    logger: silentLogger,
  });
}

after(async () => {
  await builder?.close();
  await packages?.close();
  await registry?.close();
  await folder?.remove();
});

/** A component of a package whose package.json declares these. */
function build(
  code: string,
  options: Partial<BuildOptions> & { declared?: string[]; by?: ComponentBuilder } = {},
): Promise<BuiltBundle> {
  const { declared = [], by = builder, ...given } = options;
  const files: Record<string, string> = {
    'actions/a/a.mjs': code,
    'package.json': JSON.stringify({
      dependencies: Object.fromEntries(declared.map((name) => [name, '^1.0.0'])),
    }),
  };
  const read = async (path: string) => (files[path] === undefined ? null : { text: files[path] });
  const source = { kind: 'stored', packageId: `p ${code}`, path: 'actions/a/a.mjs', read } as const;
  return by.build(source, { ownerId: 'u_1', form: 'tree', ...given });
}

const importing = (name: string, value = 1) =>
  `import x from '${name}'; export default { value: ${value}, run: () => x.name };`;

const installedIn = ({ lock }: BuiltBundle): string[] =>
  Object.values((JSON.parse(lock) as { packages: Record<string, { name: string }> }).packages)
    .map(({ name }) => name)
    .sort();

test('what packages resolved to a while ago is enough to build another component as files', async () => {
  await build(importing('one'));
  const by = newBuilder('http://127.0.0.1:1/');
  try {
    assert.deepEqual(installedIn(await build(importing('one', 2), { by })), ['one']);
    await assert.rejects(build(importing('two'), { by }), { code: 'registry_unreachable' });
  } finally {
    await by.close();
  }
});

test('a rebuild takes no bundle of an earlier build, and gives the same', async () => {
  const bundles = join(folder.path, 'cache', 'bundles');
  /** A file that is written again is another file. */
  const kept = async (): Promise<number[]> => {
    const names = (await readdir(bundles, { recursive: true })).filter((name) => name.endsWith('.json'));
    return Promise.all(names.sort().map(async (name) => (await stat(join(bundles, name))).ino));
  };
  const first = await build(importing('one', 3));
  const files = await kept();
  assert.deepEqual(await build(importing('one', 3)), first);
  assert.deepEqual(await kept(), files);
  assert.deepEqual(await build(importing('one', 3), { rebuild: true }), first);
  assert.notDeepEqual(await kept(), files);
});

test('with all that is declared, components of a package share their packages', async () => {
  const options = { allDeclared: true, declared: ['one', 'two', '@pipedream/platform'] };
  const [first, second] = [await build(importing('one', 4), options), await build(importing('two'), options)];
  assert.deepEqual(installedIn(first), ['one', 'two']);
  assert.equal(first.bundle.packages?.lockfile, second.bundle.packages?.lockfile);
});

test('a declared package that cannot be had does not disturb a component that does not need it', async () => {
  const options = { allDeclared: true, declared: ['three', 'not-there'] };
  assert.deepEqual(installedIn(await build(importing('three'), options)), ['three']);
  await assert.rejects(build(importing('not-there'), options), { code: 'package_not_found' });
});
