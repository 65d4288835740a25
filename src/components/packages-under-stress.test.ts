import assert from 'node:assert/strict';
import { chmod, mkdir, readdir, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { UnavailableError } from '#lib/errors.ts';
import { silentLogger } from '#lib/logger.ts';
import { buildAndEvaluate } from '#registry/evaluated-component.ts';
import type { Bundle, BundlePackages, PackageSource, Runner } from '#runner/runner.ts';
import { startTimeOf } from '#runner/runner-folders.ts';
import { type FakePackage, startNpmRegistry } from '../../test/support/npm-registry.ts';
import { type RunnerFixture, startRunnerFixture } from '../../test/support/runner-fixture.ts';
import { createTempFolder, type TempFolder } from '../../test/support/temp-folder.ts';
import { type ComponentBuilder, createComponentBuilder } from './build-component.ts';
import { defaultBuildLimits } from './build-limits.ts';
import { PackageFolders } from './package-folders.ts';

const published: FakePackage[] = [
  { name: 'data', version: '1.0.0', files: { 'index.js': 'exports.d = 1', 'secret.txt': 'theirs' } },
  { name: 'other', version: '1.0.0', files: { 'index.js': 'exports.o = 1' } },
  { name: 'rooted', version: '1.0.0', mode: '0006777', files: { 'tool.sh': '#!/bin/sh\n', 'index.js': '' } },
  {
    name: 'optional',
    version: '1.0.0',
    files: {
      'index.js':
        "let fast; try { fast = require('faster-part'); } catch (error) { fast = error.code; } exports.fast = fast;",
    },
  },
  { name: 'base', version: '1.0.0', files: { 'index.js': 'exports.v = 1' } },
  { name: 'base', version: '2.0.0', files: { 'index.js': 'exports.v = 2' } },
  {
    name: 'plugin-a',
    version: '1.0.0',
    manifest: { peerDependencies: { base: '^1.0.0' } },
    files: { 'index.js': "exports.v = require('base').v" },
  },
  {
    name: 'plugin-b',
    version: '1.0.0',
    manifest: { peerDependencies: { base: '^2.0.0' } },
    files: { 'index.js': "exports.v = require('base').v" },
  },
  {
    name: 'eager',
    version: '1.0.0',
    files: {
      'index.js':
        "const path = require('path'); const native = require(path.join(__dirname, 'eager.node')); class Signer extends native.Signer {} exports.Signer = Signer; exports.sum = native.math.sum;",
      'eager.node': Buffer.from([0]),
    },
  },
  {
    name: 'careful',
    version: '1.0.0',
    files: {
      'index.js': "try { exports.fast = require('./careful.node').fast; } catch { exports.fast = 'slow'; }",
      'careful.node': Buffer.from([0]),
    },
  },
  {
    name: 'calls-at-once',
    version: '1.0.0',
    files: {
      'index.js':
        "try { exports.v = require('./late.node').start(); } catch { throw new Error('could not start'); }",
      'late.node': Buffer.from([0]),
    },
  },
  {
    name: 'many-files',
    version: '1.0.0',
    files: { 'index.js': 'exports.v = 1', 'a.js': '', 'b.js': '', 'c.js': '', 'd.js': '' },
  },
  { name: 'much-code', version: '1.0.0', files: { 'index.js': `exports.v = 1; // ${'x'.repeat(2000)}` } },
  // A name like any other in a script.
  { name: 'odd-syntax', version: '1.0.0', files: { 'index.js': 'var await = 1; exports.v = await;' } },
  {
    name: 'speaks',
    version: '1.0.0',
    files: { 'index.js': 'exports.hint = "use require(__dirname + \'/themes/x.js\')";' },
  },
  {
    name: 'asks',
    version: '1.0.0',
    files: { 'index.js': "exports.v = require('fs').existsSync('/etc/alpine-release');" },
  },
  {
    name: 'hidden-names',
    version: '1.0.0',
    files: {
      'index.js':
        "exports.place = __dirname; for (const [name, value] of [['made', 4]]) exports[name] = value;",
      'data.bin': 'x',
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
  folder = await createTempFolder('stress');
  // As root, processes run as other users, who must be able to pass through.
  await chmod(folder.path, 0o711);
  registry = await startNpmRegistry(() => published);
  packages = foldersAt('packages');
  builder = createComponentBuilder({
    cacheFolder: join(folder.path, 'cache'),
    registry: registry.url,
    packages,
    fetchText: () => Promise.reject(new Error('nothing is fetched in this test')),
    logger: silentLogger,
  });
  fixture = await startRunnerFixture({ packages });
});

after(async () => {
  await fixture.close();
  await builder.close();
  await packages.close();
  await registry.close();
  await folder.remove();
});

function foldersAt(name: string) {
  return new PackageFolders({
    folder: join(folder.path, name),
    cache: join(folder.path, 'cache', 'npm'),
    npm: { registry: registry.url, credentials: {}, ca: [] },
    limits: defaultBuildLimits,
    logger: silentLogger,
  });
}

async function treeOf(code: string): Promise<Bundle & { packages: BundlePackages }> {
  const { bundle } = await builder.build({ kind: 'code', code }, { ownerId: 'u_1', form: 'tree' });
  return { ...bundle, packages: bundle.packages ?? assert.fail('no packages') };
}

function run(bundle: Bundle, options: { runner?: Runner; alone?: true } = {}) {
  calls += 1;
  return (options.runner ?? fixture.runner).call({
    ...{ deploymentId: `dc_${calls}`, ownerId: 'u_1', bundle, revision: 1 },
    ...(options.alone === undefined ? {} : { alone: options.alone }),
    ...{ call: { kind: 'run', event: '{}' } as const, props: {}, db: {}, deadlineMs: 30_000 },
  });
}

async function result(bundle: Bundle, runner?: Runner): Promise<unknown> {
  const outcome = await run(bundle, runner === undefined ? {} : { runner });
  assert.equal(outcome.status, 'finished', `${outcome.error?.message}\n${outcome.error?.stack}`);
  return JSON.parse(outcome.result ?? 'null');
}

const usesData = "import { d } from 'data'; export default { run: () => d };";

describe('packages as files', () => {
  test('lose the bits that would let a program of theirs run as the service', async () => {
    const { packages: wanted } = await treeOf("import 'rooted'; export default { run: () => 1 };");
    for (const place of ['packages', 'installed-again']) {
      const folders = place === 'packages' ? packages : foldersAt(place);
      const { folder: opened, release } = await folders.open(wanted);
      for (const entry of await readdir(opened, { recursive: true, withFileTypes: true })) {
        const { mode } = await stat(join(entry.parentPath, entry.name));
        assert.equal(mode & 0o7022, 0, `${place}: ${entry.name} has mode ${mode.toString(8)}`);
      }
      release();
      if (folders !== packages) await folders.close();
    }
  });

  test('can be read by the code of their component, not by that of another one of the same owner', async () => {
    const { packages: theirs } = await treeOf(usesData);
    const { folder: place, release } = await packages.open(theirs);
    const file = JSON.stringify(join(place, 'node_modules', 'data', 'secret.txt'));
    const reads = `import { o } from 'other'; import fs from 'fs';
      export default { run() { try { return [o, fs.readFileSync(${file}, 'utf8')]; } catch (error) { return [o, error.code]; } } };`;
    const [o, read] = (await result(await treeOf(reads))) as [number, string];
    assert.equal(o, 1);
    // A path below /tmp is one of the component's own.
    assert.match(read, /^(?:ERR_ACCESS_DENIED|ENOENT)$/);
    release();
  });

  test('do without what is optional and not installed, as they do anywhere', async () => {
    const bundle = await treeOf("import { fast } from 'optional'; export default { run: () => fast };");
    assert.equal(await result(bundle), 'MODULE_NOT_FOUND');
  });

  test('that do not agree on a peer are installed again as they were', async () => {
    const code =
      "import a from 'plugin-a'; import b from 'plugin-b'; import base from 'base'; export default { run: () => [a.v, b.v, base.v] };";
    const bundle = await treeOf(code);
    const first = await result(bundle);
    const elsewhere = foldersAt('peers');
    const other = await startRunnerFixture({ packages: elsewhere });
    assert.deepEqual(await result(bundle, other.runner), first);
    await other.close();
    await elsewhere.close();
  });
});

describe('a folder of packages that cannot be written', () => {
  test('lets calls be tried again, whatever way they take, and is used once it can', async () => {
    const bundle = await treeOf(usesData);
    await writeFile(join(folder.path, 'later'), 'a file where a folder should be');
    const broken = foldersAt('later');
    const other = await startRunnerFixture({ packages: broken });
    for (const alone of [false, true]) {
      const outcome = await run(bundle, { runner: other.runner, ...(alone ? { alone } : {}) });
      assert.equal(outcome.status, 'cancelled', outcome.error?.message ?? '');
      assert.equal(outcome.error?.code, 'packages_unavailable');
    }
    const described = await other.runner.describe({ bundle, ownerId: 'u_1' });
    assert.equal(described.status, 'cancelled');
    await rm(join(folder.path, 'later'));
    assert.equal(await result(bundle, other.runner), 1);
    await other.close();
    await broken.close();
  });

  test('does not use up the turns of installs', async () => {
    const { packages: wanted } = await treeOf(usesData);
    const full = foldersAt('full');
    await full.folderOf(wanted);
    const parts = join(folder.path, 'full', 'parts');
    const [own] = await readdir(parts);
    assert.ok(own !== undefined);
    await rm(join(parts, own), { recursive: true });
    for (let tries = 0; tries < 5; tries += 1) await assert.rejects(full.open(wanted), UnavailableError);
    await mkdir(join(parts, own));
    (await full.open(wanted)).release();
    await full.close();
  });
});

describe('while packages are installed', () => {
  test('no process waits for them, and others run', async () => {
    const bundle = await treeOf(usesData);
    const installing = Promise.withResolvers<void>();
    const slow: PackageSource = {
      folderOf: (wanted) => packages.folderOf(wanted),
      open: async (wanted) => {
        await installing.promise;
        return packages.open(wanted);
      },
    };
    const other = await startRunnerFixture({ packages: slow, limits: { processesMax: 1, prewarmed: 1 } });
    const waiting = run(bundle, { runner: other.runner });
    const outcome = await other.run('return 7');
    assert.equal(outcome.status, 'finished', outcome.error?.message ?? '');
    installing.resolve();
    assert.equal((await waiting).status, 'finished');
    await other.close();
  });

  test('processes that are only ready for others make room for one that needs packages', async () => {
    const bundle = await treeOf(usesData);
    const limits = { processesMax: 2, prewarmed: 2, prewarmedUnused: 2, waitMs: 10_000 };
    const other = await startRunnerFixture({ packages, limits });
    while (other.runner.stats().prewarmed < 2) await new Promise((resolve) => setTimeout(resolve, 10));
    assert.equal((await run(bundle, { runner: other.runner })).status, 'finished');
    await other.close();
  });
});

describe('a package whose native addon is refused', () => {
  const evaluate = (code: string, form?: 'inline' | 'tree') =>
    buildAndEvaluate<never>(form === undefined ? {} : { form }, {
      build: (way) => builder.build({ kind: 'code', code }, { ownerId: 'u_1', ...way }),
      evaluate: ({ bundle }) => fixture.runner.describe({ bundle, ownerId: 'u_1' }),
    });

  test('is deployed all the same, and fails with the reason where it is really used', async () => {
    const code = `import { Signer, sum } from 'eager'; import { fast } from 'careful';
      export default { key: 'k', async run({ attempt }) {
        const said = {};
        for (const [name, work] of Object.entries({ construct: () => new Signer(), call: () => sum(1), fallback: () => fast }))
          try { said[name] = work(); } catch (error) { said[name] = error.code + ' ' + error.message; }
        return said;
      } };`;
    const { built, outcome } = await evaluate(code);
    assert.equal(outcome.status, 'described', JSON.stringify(outcome));
    const said = (await result(built.bundle)) as Record<string, string>;
    assert.match(said.construct ?? '', /^ERR_DLOPEN_DISABLED .*"eager".*MILLRACE_NATIVE_ADDONS=allow$/);
    assert.match(said.call ?? '', /^ERR_DLOPEN_DISABLED .*"eager"/);
    assert.equal(said.fallback, 'slow');
  });

  test('that makes another error of it is reported with both, and nothing stands in where it does not help', async () => {
    const { outcome, built } = await evaluate("import { v } from 'calls-at-once'; export default { v };");
    assert.equal(outcome.status, 'load_failed');
    assert.ok(outcome.status === 'load_failed');
    assert.match(
      outcome.error.message,
      /^could not start \(the package "calls-at-once" needs a native addon/,
    );
    assert.equal(outcome.error.code, 'ERR_DLOPEN_DISABLED');
    assert.doesNotMatch(built.bundle.code, /without addons/);
  });

  test('is not helped where packages are to be in the text', async () => {
    const { outcome } = await evaluate("import { sum } from 'eager'; export default { sum };", 'inline');
    assert.equal(outcome.status, 'load_failed');
  });
});

describe('folders of builds', () => {
  test('may be reached by a link, and those of a process that still runs are left alone', async () => {
    const real = join(folder.path, 'real');
    const [living, dead] = [join(real, 'builds', '1-'), join(real, 'builds', '4194300-1')];
    const start = startTimeOf(process.ppid);
    const theirs = join(real, 'builds', `${process.ppid}-${start}`);
    for (const place of [living, dead, theirs]) await mkdir(place, { recursive: true });
    await symlink(real, join(folder.path, 'link'));
    const linked = createComponentBuilder({
      cacheFolder: join(folder.path, 'link'),
      registry: registry.url,
      fetchText: () => Promise.reject(new Error('nothing is fetched in this test')),
      logger: silentLogger,
    });
    const source = { kind: 'code', code: "import { o } from 'other'; export default { o };" } as const;
    const { bundle } = await linked.build(source, { ownerId: 'u_1' });
    assert.match(bundle.code, /other/);
    await linked.close();
    assert.deepEqual(await readdir(join(real, 'builds')), [`${process.ppid}-${start}`]);
  });
});

describe('packages that cannot be made one text', () => {
  test('stay files: where there are too many of them, and where esbuild does not understand one', async () => {
    const few = createComponentBuilder({
      cacheFolder: join(folder.path, 'few'),
      registry: registry.url,
      packages,
      fetchText: () => Promise.reject(new Error('nothing is fetched in this test')),
      logger: silentLogger,
      limits: { inlineFilesMax: 5, inlineCodeBytesMax: 1000 },
    });
    for (const [name, isTree] of [
      ['other', false],
      ['many-files', true],
      ['much-code', true],
      ['odd-syntax', true],
    ] as const) {
      const code = `import m from '${name}'; export default { run: () => m.v ?? m.o };`;
      const { bundle } = await few.build({ kind: 'code', code }, { ownerId: 'u_1' });
      assert.equal(bundle.packages !== undefined, isTree, name);
      assert.equal(await result(bundle), 1, name);
    }
    await few.close();
  });

  test('are none that only speak of files beside them', async () => {
    const code = "import { hint } from 'speaks'; export default { run: () => hint };";
    const { bundle } = await builder.build({ kind: 'code', code }, { ownerId: 'u_1', form: 'inline' });
    assert.match(String(await result(bundle)), /themes\/x\.js/);
  });

  test('may ask for files that no process may read', async () => {
    const bundle = await treeOf("import { v } from 'asks'; export default { run: () => v };");
    assert.equal(await result(bundle), false);
  });
});

describe('packages that Node cannot import', () => {
  test('are a part of the text where that works', async () => {
    const code = "import { made } from 'hidden-names'; export default { key: 'k', run: () => made };";
    const { built, outcome } = await buildAndEvaluate<never>(
      {},
      {
        build: (way) => builder.build({ kind: 'code', code }, { ownerId: 'u_1', ...way }),
        evaluate: ({ bundle }) => fixture.runner.describe({ bundle, ownerId: 'u_1' }),
      },
    );
    assert.equal(outcome.status, 'described', JSON.stringify(outcome));
    assert.equal(built.bundle.packages, undefined);
    assert.equal(await result(built.bundle), 4);
  });
});

describe('code in a sandbox', () => {
  test('has a home folder and a user, which packages ask for when they are loaded', async () => {
    const outcome = await fixture.run(
      "const os = require('os'); return [os.homedir(), os.userInfo().homedir, typeof os.userInfo().username]",
    );
    assert.equal(outcome.status, 'finished', outcome.error?.message ?? '');
    assert.equal(outcome.result, '["/tmp","/tmp","string"]');
  });
});
