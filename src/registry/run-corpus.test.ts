import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { readCorpusRequest } from '#admin/corpus-command.ts';
import { type ComponentBuilder, createComponentBuilder } from '#components/build-component.ts';
import { PackageFetcher } from '#components/package-fetcher.ts';
import { silentLogger } from '#lib/logger.ts';
import type { Runner } from '#runner/runner.ts';
import { signal, signalled } from '../../test/support/code-signals.ts';
import { ManualTimer } from '../../test/support/manual-timer.ts';
import { startNpmRegistry } from '../../test/support/npm-registry.ts';
import { type RunnerFixture, startRunnerFixture } from '../../test/support/runner-fixture.ts';
import { createTempFolder, type TempFolder } from '../../test/support/temp-folder.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { closedPolicy } from './closed-policy.ts';
import { makeReport, reportLines, reportMarkdown, reportValues } from './corpus-report.ts';
import { type CheckedPackage, runCorpus } from './run-corpus.ts';

const app = `export default {
  type: 'app', app: 'shop',
  propDefinitions: {
    order: { type: 'string', label: 'Order', async options() { return (await fetch('https://shop.example.com/orders')).json(); } },
  },
};`;

const component = (key: string, rest: string, head = ''): string =>
  `${head}\nexport default { key: '${key}', type: 'action', version: '0.0.1', name: '${key}', ${rest} };`;

const good = component(
  'shop-good',
  `props: {
     shop, order: { propDefinition: [shop, 'order'] },
     again: { type: 'string', async options() { for (;;) { await fetch('https://shop.example.com/').catch(() => {}); await new Promise((resolve) => setTimeout(resolve, 50)); } } },
     color: { type: 'string', options: () => [dep], reloadProps: true },
     size: { type: 'string', options: ['s', 'm'] },
   },
   async additionalProps() { return { more: { type: 'string' } }; },
   async run() {},`,
  `import shop from '../../shop.app.mjs'; import dep from 'fake-dep';`,
);

const files: Record<string, string> = {
  'shop.app.mjs': app,
  'actions/good/good.mjs': good,
  'actions/throws/throws.mjs': component('shop-throws', 'run() {}', `throw new Error('not today');`),
  'actions/missing/missing.mjs': component('shop-missing', 'run() {}', `import './nowhere.mjs';`),
  'actions/no-package/no-package.mjs': component('shop-no-package', 'run() {}', `import 'not-there';`),
  'actions/odd/odd.mjs': component('shop-odd', `props: { a: { type: 'colour' } }, run() {}`),
  'actions/hangs/hangs.mjs': component(
    'shop-hangs',
    `props: { spins: { type: 'string', options() { ${signal('spins')} for (;;); } },
              waits: { type: 'string', options: () => new Promise(() => { ${signal('waits-for-ever')} }) },
              well: { type: 'string', options: () => [] } }, run() {}`,
  ),
  'actions/ends/ends.mjs': component(
    'shop-ends',
    `props: { a: { type: 'string', options() { process.exit(1); } } }, additionalProps() { throw new Error('no account'); }, run() {}`,
  ),
  'actions/wrong/wrong.mjs': 'export default { key: "shop-wrong" type }',
  'package.json': JSON.stringify({ name: '@pipedream/shop', dependencies: { 'fake-dep': '^1.0.0' } }),
};

let folder: TempFolder;
let registry: Awaited<ReturnType<typeof startNpmRegistry>>;

before(async () => {
  folder = await createTempFolder('corpus');
  registry = await startNpmRegistry(() => [
    { name: '@pipedream/shop', version: '1.2.3', files },
    { name: 'fake-dep', version: '1.0.1', files: { 'index.js': 'module.exports = "red";' } },
  ]);
  for (const [path, text] of Object.entries(files)) {
    const file = join(folder.path, 'shop', path);
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, text);
  }
});

after(async () => {
  await registry.close();
  await folder.remove();
});

describe('components of a package and of a folder', () => {
  let builder: ComponentBuilder;
  let fetcher: PackageFetcher;
  let fixture: RunnerFixture;
  let checked: CheckedPackage[];
  const progress: string[] = [];

  before(async () => {
    const shared = {
      cacheFolder: join(folder.path, 'cache'),
      registry: registry.url,
      logger: silentLogger,
    };
    fetcher = new PackageFetcher(shared);
    builder = createComponentBuilder({ ...shared, fetchText: () => assert.fail('nothing is fetched') });
    fixture = await startRunnerFixture({ policy: closedPolicy() });
    const packages = [
      { argument: '@pipedream/shop', wanted: { name: '@pipedream/shop' } },
      { argument: './shop', wanted: { folder: join(folder.path, 'shop') } },
      { argument: 'not-there', wanted: { name: 'not-there' } },
    ];
    checked = await Array.fromAsync(
      runCorpus(partsWith(fixture), packages, {
        concurrency: 2,
        only: /^shop-(?!hangs$)/,
        onProgress: ({ name, done, of }) => progress.push(`${name} ${done}/${of}`),
      }),
    );
  });

  after(async () => {
    await Promise.all([fixture?.close(), builder?.close(), fetcher?.close()]);
  });

  const partsWith = ({ runner }: RunnerFixture) => ({
    ...{ fetcher, builder, runner, ownerId: 'corpus', rebuild: false },
    ...{ callDeadlineMs: 60_000, nowMs: () => performance.now() },
  });

  const find = (key: string) => {
    const found = checked[0]?.components.find((one) => one.key === key);
    assert.ok(found, key);
    return found;
  };

  test('one that does what it should is built, loaded, and every function of its props is called', () => {
    const one = find('shop-good');
    assert.deepEqual(one.failures, []);
    assert.equal(one.version, '0.0.1');
    assert.deepEqual([one.form, one.ownFiles], ['inline', 2]);
    assert.deepEqual([one.isLoaded, one.hasProps], [true, true]);
    assert.deepEqual(
      [one.options, one.optionsCallable],
      [3, 3],
      'also those that may not connect, and the one that tries for ever',
    );
    assert.deepEqual([one.hasAdditionalProps, one.additionalPropsCallable], [true, true]);
    assert.ok(one.bundleBytes > 0 && one.buildMs > 0 && one.loadMs > 0);
  });

  test('what does not build, load or define its props is reported with its reason', () => {
    const reasonOf = (key: string): string => {
      const [failure, ...others] = find(key).failures;
      assert.deepEqual(others, []);
      return `${failure?.stage}: ${failure?.reason}`;
    };
    assert.equal(reasonOf('shop-throws'), 'load: load_failed: Error: not today');
    assert.match(reasonOf('shop-missing'), /^build: .*there is no file for the import "\.\/nowhere\.mjs"/);
    assert.match(reasonOf('shop-no-package'), /^build: there is no npm package "not-there"/);
    assert.match(reasonOf('shop-odd'), /^props: .*colour/);
  });

  test('code that hangs is not callable, the functions beside it are, and the failures come in the order of the props', async () => {
    const timer = new ManualTimer();
    const own = await startRunnerFixture({ policy: closedPolicy(), timer });
    let ended = 0;
    const watched: Runner = {
      ...own.runner,
      describe: (request) => own.runner.describe(request),
      forget: (deploymentId) => own.runner.forget(deploymentId),
      call: (request, options) => own.runner.call(request, options).finally(() => (ended += 1)),
    };
    try {
      const packages = [{ argument: './shop', wanted: { folder: join(folder.path, 'shop') } }];
      const parts = { ...partsWith(own), runner: watched, timer, callDeadlineMs: 2000 };
      const running = Array.fromAsync(runCorpus(parts, packages, { concurrency: 1, only: /^shop-hangs$/ }));
      // Beside each other, the first keeps the process from the others.
      const beside = await signalled('spins');
      ended = 0;
      timer.advance(2000);
      await beside.ended;
      // Alone, each is on its own: the one that works has ended by itself, beside those that were beside each other.
      await waitFor(() => ended === 4);
      await Promise.all(['spins', 'waits-for-ever'].map(signalled));
      timer.advance(2000);
      const [hangs] = (await running)[0]?.components ?? [];
      assert.deepEqual([hangs?.options, hangs?.optionsCallable], [3, 1]);
      assert.deepEqual(
        hangs?.failures.map(({ reason }) => reason.split(':').slice(0, 2).join(':')),
        ['spins: timed_out', 'waits: timed_out'],
      );
    } finally {
      await own.close();
    }
  });

  test('an error of the code is a call that ended; code that ends its process is not callable', () => {
    const ends = find('shop-ends');
    assert.deepEqual([ends.options, ends.optionsCallable], [1, 0]);
    assert.match(ends.failures[0]?.reason ?? '', /^a: exited/);
    assert.deepEqual([ends.hasAdditionalProps, ends.additionalPropsCallable], [true, true]);
  });

  test('a folder gives what the package gives, and a file that cannot be read is listed', () => {
    const [fromPackage, fromFolder] = checked;
    assert.deepEqual(
      fromFolder?.components.map(({ key, failures }) => [key, failures]),
      fromPackage?.components.map(({ key, failures }) => [key, failures]),
    );
    assert.deepEqual(
      fromFolder?.leftOut.map(({ path }) => path),
      ['actions/wrong/wrong.mjs'],
    );
    // The folder begins while the package ends; each reports its own.
    for (const name of ['@pipedream/shop', join(folder.path, 'shop')])
      assert.deepEqual(
        progress.filter((line) => line.startsWith(`${name} `)),
        Array.from({ length: 6 }, (_, at) => `${name} ${at + 1}/6`),
      );
  });

  test('the report has a row for each package, one for all, and every failure', () => {
    const report = makeReport(checked);
    const [first, second, third] = report.packages;
    assert.deepEqual([first?.package, first?.version], ['@pipedream/shop', '1.2.3']);
    assert.deepEqual([first?.found, first?.loaded, first?.props, first?.failed], [6, 3, 2, 5]);
    assert.deepEqual([first?.options, first?.optionsCallable, first?.leftOut], [4, 3, 1]);
    assert.deepEqual([second?.version, third?.found], ['', 0]);
    assert.deepEqual([report.total.found, report.total.inline], [12, 8]);
    assert.deepEqual(report.failures.at(-1), {
      ...{ package: 'not-there', where: '', stage: 'read' },
      reason: 'there is no npm package "not-there@latest"',
    });
    const lines = reportLines(report);
    assert.match(lines[0] ?? '', /^package +found +loaded +props +options/);
    assert.match(lines[1] ?? '', /^@pipedream\/shop@1\.2\.3 +6 +3 +2 +3\/4 +2\/2/);
    assert.ok(lines.includes('  @pipedream/shop@1.2.3 shop-throws (load): load_failed: Error: not today'));
    assert.match(reportMarkdown(report), /\| @pipedream\/shop@1\.2\.3 \| 6 \| 3 \|/);
    const [head, row] = reportValues(report, '\t').split('\n');
    assert.deepEqual([head?.split('\t')[2], row?.split('\t')[2]], ['found', '6']);
    assert.match(reportValues(report, ',').split('\n')[2] ?? '', /,6,3,2,/);
  });
});

/** As `npm run corpus -- …` does it, from `folder`. */
async function corpus(...argv: string[]): Promise<{ code: number; output: string; errors: string }> {
  const child = spawn(process.execPath, [fileURLToPath(new URL('../corpus.ts', import.meta.url)), ...argv], {
    cwd: folder.path,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      PATH: process.env.PATH,
      ...(process.env.NODE_COMPILE_CACHE === undefined
        ? {}
        : { NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE }),
      HOME: folder.path,
      MILLRACE_DATA: join(folder.path, 'data'),
      MILLRACE_NPM_REGISTRY: registry.url,
    },
  });
  const text = { output: '', errors: '' };
  child.stdout.on('data', (chunk: Buffer) => {
    text.output += chunk.toString();
  });
  child.stderr.on('data', (chunk: Buffer) => {
    text.errors += chunk.toString();
  });
  const [code] = await once(child, 'close');
  return { code: code as number, ...text };
}

describe('the command', () => {
  test('ends with 0 when all is well, and writes the table', async () => {
    const { code, output, errors } = await corpus(
      ...['@pipedream/shop@^1.0.0', '--only', '^shop-good$', '--output', 'report.md', '--cache', 'kept'],
    );
    assert.equal(code, 0, errors);
    assert.match(output, /@pipedream\/shop@1\.2\.3 +1 +1 +1 +3\/3 +1\/1/);
    assert.equal(errors.split(':')[0], '@pipedream/shop');
    assert.match(await readFile(join(folder.path, 'report.md'), 'utf8'), /^# Corpus report\n/);
  });

  test('ends with 1 when a component fails, and says all of it as JSON', async () => {
    const { code, output } = await corpus('./shop', '--only', 'good|throws', '--json', '--cache', 'kept');
    assert.equal(code, 1);
    const report = JSON.parse(output);
    assert.deepEqual([report.total.found, report.total.loaded], [2, 1], output);
    assert.equal(report.failures[0].where, 'shop-throws');
    assert.deepEqual(
      report.components[0].components.map(({ key }: { key: string }) => key),
      ['shop-good', 'shop-throws'],
    );
  });

  test('ends with 2 and says how it is used when the command line is wrong', async () => {
    const { code, errors } = await corpus('./shop', '--only', '(');
    assert.equal(code, 2);
    assert.match(errors, /--only: "\(" is no regular expression\n\nusage: npm run corpus/);
    assert.throws(() => readCorpusRequest([]), /say which packages or folders/);
    assert.throws(
      () => readCorpusRequest(['./shop', '--concurrency', '0']),
      /expected a number from 1 to 32/,
    );
    assert.throws(
      () => readCorpusRequest(['./shop', '--output', 'report.pdf']),
      /a name that ends with \.md/,
    );
    assert.throws(() => readCorpusRequest(['./shop', '--wrong']), /--wrong/);
  });
});
