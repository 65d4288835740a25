import assert from 'node:assert/strict';
import { chmod, mkdir, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { UnavailableError } from '#lib/errors.ts';
import { silentLogger } from '#lib/logger.ts';
import type { Bundle } from '#runner/runner.ts';
import { type FakePackage, startNpmRegistry } from '../../test/support/npm-registry.ts';
import { type RunnerFixture, startRunnerFixture } from '../../test/support/runner-fixture.ts';
import { wallsOfTests } from '../../test/support/sandbox-level.ts';
import { createTempFolder, type TempFolder } from '../../test/support/temp-folder.ts';
import { type ComponentBuilder, createComponentBuilder } from './build-component.ts';
import { defaultBuildLimits } from './build-limits.ts';
import { PackageFolders } from './package-folders.ts';

const font =
  "const fs = require('fs'); const path = require('path'); exports.glyphs = () => fs.readFileSync(path.join(__dirname, 'data', 'font.afm'), 'utf8');";
const published: FakePackage[] = [
  { name: 'font', version: '1.0.0', files: { 'index.js': font, 'data/font.afm': 'A B C' } },
  {
    name: 'modern',
    version: '1.0.0',
    manifest: { type: 'module', exports: { '.': './m.js', './more': './more.js' } },
    files: {
      'm.js': "export default 'modern'; export const named = 1;",
      'more.js': 'export const more = 2;',
    },
  },
  {
    name: 'compiled',
    version: '1.0.0',
    files: {
      'index.js': "Object.defineProperty(exports, '__esModule', { value: true }); exports.default = 'inner';",
    },
  },
  {
    name: 'tool',
    version: '1.0.0',
    files: { 'index.js': 'exports.v = 1', 'deep/get.js': "module.exports = 'got'" },
  },
  { name: 'tool', version: '2.0.0', files: { 'index.js': 'exports.v = 2' } },
  {
    name: 'follows',
    version: '1.0.0',
    manifest: { dependencies: { part: 'latest' } },
    files: { 'index.js': "exports.v = require('part').v" },
  },
  { name: 'part', version: '1.0.0', files: { 'index.js': 'exports.v = 11' } },
  {
    name: 'picky',
    version: '1.0.0',
    files: {
      'index.js': "exports.load = (name) => require('./' + String(name))",
      'late.js': 'exports.l = 3',
    },
  },
];

let folder: TempFolder;
let registry: Awaited<ReturnType<typeof startNpmRegistry>>;
let packages: PackageFolders;
let builder: ComponentBuilder;
let fixture: RunnerFixture;
let calls = 0;

before(async () => {
  folder = await createTempFolder('packages');
  // As root, processes run as other users, who must be able to pass through.
  await chmod(folder.path, 0o711);
  registry = await startNpmRegistry(() => published);
  packages = foldersAt('packages');
  builder = builderWith(packages);
  fixture = await startRunnerFixture({ packages });
});

after(async () => {
  await fixture.close();
  await builder.close();
  await packages.close();
  await registry.close();
  await folder.remove();
});

function foldersAt(name: string, options: { cache?: string; bytesMax?: number; url?: string } = {}) {
  return new PackageFolders({
    folder: join(folder.path, name),
    cache: join(folder.path, options.cache ?? 'cache', 'npm'),
    npm: { registry: options.url ?? registry.url, credentials: {}, ca: [] },
    limits: defaultBuildLimits,
    logger: silentLogger,
    walls: wallsOfTests(folder.path),
    ...(options.bytesMax === undefined ? {} : { bytesMax: options.bytesMax }),
  });
}

function builderWith(kept: PackageFolders, bundleBytesMax = defaultBuildLimits.bundleBytesMax) {
  return createComponentBuilder({
    cacheFolder: join(folder.path, 'cache'),
    registry: registry.url,
    packages: kept,
    fetchText: () => Promise.reject(new Error('nothing is fetched in this test')),
    logger: silentLogger,
    walls: wallsOfTests(folder.path),
    limits: { bundleBytesMax },
  });
}

async function bundleFor(code: string, form?: 'inline' | 'tree', ownerId = 'u_1'): Promise<Bundle> {
  const source = { kind: 'code', code } as const;
  return (await builder.build(source, { ownerId, ...(form === undefined ? {} : { form }) })).bundle;
}

async function run(bundle: Bundle, runner = fixture.runner) {
  calls += 1;
  const outcome = await runner.call({
    ...{ deploymentId: `dc_${calls}`, ownerId: 'u_1', bundle, revision: 1 },
    ...{ call: { kind: 'run', event: '{}' } as const, props: {}, db: {}, deadlineMs: 30_000 },
  });
  return outcome;
}

async function result(bundle: Bundle): Promise<unknown> {
  const outcome = await run(bundle);
  assert.equal(outcome.status, 'finished', `${outcome.error?.message}\n${outcome.error?.stack}`);
  return JSON.parse(outcome.result ?? 'null');
}

const usesFont = "import { glyphs } from 'font'; export default { run: () => glyphs() };";

describe('packages that stay files', () => {
  test('are those that read something beside themselves; all others are a part of the text', async () => {
    const bundle = await bundleFor(usesFont);
    assert.ok(bundle.packages !== undefined);
    assert.doesNotMatch(bundle.code, /readFileSync/);
    assert.equal(await result(bundle), 'A B C');
    assert.equal((await bundleFor("import { v } from 'tool@1'; export default { v }")).packages, undefined);
  });

  test('are used where the text would be too large', async () => {
    const small = builderWith(packages, 600);
    const code =
      "import { v } from 'tool@1'; import * as m from 'modern'; export default { run: () => [v, m.named] };";
    const { bundle } = await small.build({ kind: 'code', code }, { ownerId: 'u_1' });
    assert.ok(bundle.packages !== undefined);
    assert.deepEqual(await result(bundle), [1, 1]);
    await small.close();
  });

  test('are imported as Node does it, and as leniently as bundlers do', async () => {
    const code = `
      import compiled from 'compiled';
      import modern, { named } from 'modern';
      import { more } from 'modern/more';
      import { v as one } from 'tool@1.0.0';
      import { v as two } from 'tool@2.0.0';
      import got from 'tool@1.0.0/deep/get';
      import { load } from 'picky';
      import { axios } from '@pipedream/platform';
      import { createRequire } from 'node:module';
      import path from 'path';
      export default { async run() {
        const late = await import('tool@2.0.0');
        const own = createRequire(import.meta.url)('picky');
        return [compiled.default, modern, named, more, one, two, got, load('late').l, typeof axios.create, late.v, own === undefined, path.sep];
      } };`;
    const expected = ['inner', 'modern', 1, 2, 1, 2, 'got', 3, 'function', 2, false, '/'];
    assert.deepEqual(await result(await bundleFor(code, 'tree')), expected);
  });

  test('have the default import that Node gives, in both forms; CommonJS code has what it requires', async () => {
    const imports = "import compiled, * as all from 'compiled'; import modern from 'modern';";
    const answer = '[compiled.default, modern, Object.keys(all).includes("default")]';
    for (const form of ['inline', 'tree'] as const) {
      const js = `${imports} export default { run: () => ${answer} };`;
      assert.deepEqual(await result(await bundleFor(js, form)), ['inner', 'modern', true], form);
      const ts = `${imports} const answer = (): unknown[] => ${answer}; export default { run: answer };`;
      assert.deepEqual(await result(await bundleFor(ts, form)), ['inner', 'modern', true], form);
      const cjs = "const c = require('compiled'); module.exports = { run: () => c.default };";
      assert.equal(await result(await bundleFor(cjs, form)), 'inner', form);
    }
  });

  test('are required by CommonJS components', async () => {
    const code =
      "const { v } = require('tool@1.0.0'); const os = require('os'); module.exports = { run: () => [v, require('modern').named, os.EOL] };";
    assert.deepEqual(await result(await bundleFor(code, 'tree')), [1, 1, '\n']);
  });

  test('have a message that names what is missing and shows no folder of this machine', async () => {
    const code = "import { load } from 'picky'; export default { run: () => load('nothing') };";
    const outcome = await run(await bundleFor(code, 'tree'));
    assert.equal(outcome.status, 'threw');
    const { message, stack } = outcome.error ?? { message: '', stack: '' };
    assert.match(message, /Cannot find module '\.\/nothing'/);
    assert.match(stack, /node_modules\/picky\/index\.js/);
    assert.ok(!`${message}${stack}`.includes(folder.path), stack);
    assert.doesNotMatch(`${message}${stack}`, /\/tmp\//);
  });

  test('can be read by code, and neither written nor left', async () => {
    const code = `import { glyphs } from 'font'; import fs from 'fs'; import { createRequire } from 'module';
      const place = createRequire(import.meta.url).resolve('font');
      const attempt = (work) => { try { work(); return 'done'; } catch (error) { return error.code; } };
      export default { run: () => [glyphs(),
        attempt(() => fs.writeFileSync(place, 'x')), attempt(() => fs.chmodSync(place, 0o777)),
        attempt(() => fs.rmSync(place)), attempt(() => fs.readdirSync(place + '/../../../../../..')),
        attempt(() => fs.readFileSync('/etc/hostname')), attempt(() => fs.writeFileSync('/tmp/mine', 'x'))] };`;
    const [read, ...refused] = (await result(await bundleFor(code, 'tree'))) as string[];
    assert.deepEqual([read, refused.pop()], ['A B C', 'done']);
    assert.equal(refused.length, 5);
    // Which code it is depends on what stands in the way: no right, a file system that is read-only, or nothing being there.
    for (const why of refused) assert.match(why, /^(?:ERR_ACCESS_DENIED|EROFS|ENOTDIR|ENOENT)$/);
  });

  test('serve one step of a run while another has them in its text, and both have the same /tmp', async () => {
    const writes = await bundleFor(
      "import { v } from 'tool@1.0.0'; import fs from 'fs'; export default { run: () => fs.writeFileSync('/tmp/note', String(v)) };",
    );
    const reads = await bundleFor(
      "import { glyphs } from 'font'; import fs from 'fs'; export default { run: () => glyphs() + fs.readFileSync('/tmp/note', 'utf8') };",
    );
    const step = {
      kind: 'step',
      steps: '{}',
      context: '{}',
      resumeUrl: '',
      cancelUrl: '',
      scratch: 'r_1',
    } as const;
    const request = {
      ...{
        deploymentId: 'd_steps',
        ownerId: 'u_1',
        packages: [reads.packages ?? assert.fail('no packages')],
        revision: 1,
      },
      ...{ call: step, props: {}, db: {}, deadlineMs: 30_000 },
    };
    const first = await fixture.runner.call({ ...request, bundle: writes, module: 'c_1' });
    assert.equal(first.status, 'finished', first.error?.stack ?? '');
    const second = await fixture.runner.call({ ...request, bundle: reads, module: 'c_2' });
    assert.equal(second.status, 'finished', second.error?.stack ?? '');
    assert.equal(JSON.parse(second.step?.exports ?? '{}').$return_value, 'A B C1');
  });
});

describe('the folder of packages', () => {
  test('is installed again from its lockfile, the very same versions, when it is gone', async () => {
    // One by the name alone, one behind an alias, one of a package that names no version either.
    const code = `import { v } from 'tool'; import { v as one } from 'tool@1.0.0'; import { v as inner } from 'follows';
      import { glyphs } from 'font'; export default { run: () => [v, one, inner, glyphs()] };`;
    const bundle = await bundleFor(code);
    registry.publish([
      { name: 'tool', version: '3.0.0', files: { 'index.js': 'exports.v = 3' } },
      { name: 'part', version: '2.0.0', files: { 'index.js': 'exports.v = 12' } },
    ]);
    const elsewhere = foldersAt('elsewhere', { cache: 'other-cache' });
    const other = await startRunnerFixture({ packages: elsewhere });
    try {
      const outcome = await run(bundle, other.runner);
      assert.equal(outcome.result, '[2,1,11,"A B C"]', outcome.error?.stack ?? '');
    } finally {
      await other.close();
      await elsewhere.close();
    }
  });

  test('that cannot be had now lets the call be tried again; a version that is gone does not', async () => {
    const bundle = await bundleFor(usesFont);
    const without = await startNpmRegistry(() => []);
    for (const [name, url, status] of [
      ['down', 'http://127.0.0.1:9/', 'cancelled'],
      ['without', without.url, 'load_failed'],
    ] as const) {
      const source = foldersAt(name, { cache: name, url });
      const other = await startRunnerFixture({ packages: source });
      const outcome = await run(bundle, other.runner);
      assert.equal(outcome.status, status, outcome.error?.message ?? '');
      assert.match(outcome.error?.message ?? '', /npm packages of the code could not be installed: /);
      await other.close();
      await source.close();
    }
    await without.close();
  });

  test('that a crash left half done is not used', async () => {
    const { packages: wanted } = await bundleFor(usesFont);
    assert.ok(wanted !== undefined);
    const crashed = foldersAt('crashed');
    const { folder: whole, release } = await crashed.open(wanted);
    release();
    // The note comes last: without it the folder is whatever was there at the moment of the crash.
    await rm(`${whole}.json`);
    await rm(join(whole, 'node_modules'), { recursive: true });
    const again = await crashed.open(wanted);
    assert.ok((await stat(join(again.folder, 'node_modules', 'font', 'data', 'font.afm'))).isFile());
    again.release();
    await crashed.close();
  });

  test('is each owner’s own, and nothing in it can be written by others', async () => {
    const one = await bundleFor(usesFont, undefined, 'u_1');
    const two = await bundleFor(usesFont, undefined, 'u_2');
    assert.equal(one.packages?.lockfile, two.packages?.lockfile);
    assert.ok(one.packages !== undefined && two.packages !== undefined);
    const [first, second] = [await packages.open(one.packages), await packages.open(two.packages)];
    assert.notEqual(first.folder, second.folder);
    for (const entry of await readdir(first.folder, { recursive: true, withFileTypes: true })) {
      assert.ok(entry.isFile() || entry.isDirectory(), `${entry.name} is a link`);
      const { mode } = await stat(join(entry.parentPath, entry.name));
      assert.equal(mode & 0o022, 0, `${entry.name} can be written`);
      assert.notEqual(mode & 0o004, 0, `${entry.name} cannot be read`);
    }
    first.release();
    second.release();
  });

  test('makes room for others when it was not used for longest, never while a process reads it', async () => {
    const sources = ['tool@1.0.0', 'tool@2.0.0', 'modern'].map(
      (name) => `import m from '${name}'; export default { m };`,
    );
    const bundles = await Promise.all(sources.map((code) => bundleFor(code, 'tree')));
    const wanted = bundles.map((bundle) => bundle.packages ?? assert.fail('no packages'));
    const [first, second, third] = wanted;
    assert.ok(first && second && third);
    const tight = foldersAt('tight', { bytesMax: 1 });
    const held = await tight.open(first);
    const gone = await tight.open(second);
    gone.release();
    const last = await tight.open(third);
    const isThere = (at: string) =>
      stat(at).then(
        () => true,
        () => false,
      );
    assert.deepEqual(await Promise.all([held, gone, last].map((it) => isThere(it.folder))), [
      true,
      false,
      true,
    ]);
    held.release();
    last.release();
    await tight.close();
  });

  test('ends up whole when many ask for it at once, and waits for none when the service stops', async () => {
    const { packages: wanted } = await bundleFor(usesFont);
    assert.ok(wanted !== undefined);
    const busy = foldersAt('busy');
    const opened = await Promise.all(Array.from({ length: 20 }, () => busy.open(wanted)));
    assert.equal(new Set(opened.map((it) => it.folder)).size, 1);
    for (const it of opened) it.release();
    await busy.close();
    await assert.rejects(busy.open(wanted), UnavailableError);
  });

  test('clears what an install left behind', async () => {
    await mkdir(join(folder.path, 'left', 'parts', 'half'), { recursive: true });
    await writeFile(join(folder.path, 'left', 'parts', 'half', 'file'), 'x');
    const left = foldersAt('left');
    await mkdir(join(folder.path, 'left', 'parts', '4194300-1'));
    await left.folderOf({ ownerId: 'u_1', lockfile: '' });
    const parts = await readdir(join(folder.path, 'left', 'parts'));
    assert.deepEqual(
      parts.filter((name) => !name.startsWith(`${process.pid}-`)),
      [],
    );
    await left.close();
  });
});
