import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { build, stop as stopEsbuild } from 'esbuild';
import { createComponentBuilder } from '../src/components/build-component.ts';
import { PackageFetcher } from '../src/components/package-fetcher.ts';
import { systemClock } from '../src/lib/clock.ts';
import { silentLogger } from '../src/lib/logger.ts';
import { closedPolicy } from '../src/registry/closed-policy.ts';
import { type CheckedPackage, runCorpus } from '../src/registry/run-corpus.ts';
import { createProcessRunner } from '../src/runner/process-runner.ts';
import { type FakePackage, startNpmRegistry } from '../test/support/npm-registry.ts';
import { failuresOf, type LoadResult, runLoad } from './support/load.ts';
import { treeUsage } from './support/process-tree.ts';
import { type Service, startService } from './support/service.ts';

/**
 * Packages of components, from a registry on this machine whose packages are made up: each component imports its app, a
 * helper, and packages of npm that are as large as those of real ones.
 *
 * - `speed`: how many components per second are built and loaded when npm's cache is warm and nothing was built before;
 *   beside it, in the same run, what bare esbuild takes to parse and print the same code, and a bare node to start.
 * - `service`: how long the API and an HTTP source take to answer while a running service adds the packages, builds every
 *   component and deploys sources of known ones, beside what they take when it does nothing; how long such a deploy
 *   takes; and the memory of the service.
 */
const { values: options } = parseArgs({
  options: {
    cases: { type: 'string', default: 'speed,service' },
    packages: { type: 'string', default: '4' },
    components: { type: 'string', default: '15' },
    /** Code of the packages that a component imports, in kB. */
    dependencies: { type: 'string', default: '500' },
    concurrency: { type: 'string', default: '2' },
    seconds: { type: 'string', default: '5' },
  },
});
const packages = Number(options.packages);
const components = Number(options.components);
const concurrency = Number(options.concurrency);

const names = Array.from({ length: packages }, (_, at) => `@corpus/app-${at}`);
const registry = await startNpmRegistry(() => [
  ...names.map((name, at) => componentPackage(name, `app-${at}`)),
  ...dependencyPackages(Number(options.dependencies)),
]);
const folder = await mkdtemp(join(tmpdir(), 'millrace-bench-'));
try {
  const cases = options.cases.split(',');
  if (cases.includes('speed')) await measureSpeed();
  if (cases.includes('service')) await measureService();
} finally {
  await registry.close();
  await rm(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 });
}

function componentPackage(name: string, app: string): FakePackage {
  const files: Record<string, string> = {
    'package.json': JSON.stringify({ name, version: '1.0.0', dependencies: { 'fake-http': '^1.0.0' } }),
    [`${app}.app.mjs`]: `import http from 'fake-http';
      export default { type: 'app', app: '${app}', propDefinitions: { item: { type: 'string', async options() { return []; } } },
      methods: { http() { return http; } } };`,
    'common/help.mjs': `export const help = ${JSON.stringify('x'.repeat(3000))};`,
  };
  for (let at = 0; at < components; at += 1) {
    const isSource = at % 3 === 0;
    const key = `${app}-do-${at}`;
    const path = `${isSource ? 'sources' : 'actions'}/do-${at}/do-${at}.mjs`;
    const own = isSource
      ? `http: '$.interface.http', note: { type: 'string', optional: true }`
      : `item: { propDefinition: [app, 'item'] }, note: { type: 'string', optional: true }`;
    files[path] = `import app from '../../${app}.app.mjs'; import { help } from '../../common/help.mjs';
      export default { key: '${key}', name: 'Do ${at}', version: '0.0.1', type: '${isSource ? 'source' : 'action'}',
      props: { ${own} }, methods: { help() { return [app, help]; } }, async run(event) { ${isSource ? 'this.$emit(event);' : 'return 1;'} } };`;
  }
  return { name, version: '1.0.0', files };
}

/** One that is imported, which has others: files of 5 kB, as libraries have. */
function dependencyPackages(kb: number): FakePackage[] {
  const others = 10;
  const filesEach = Math.max(1, Math.round(kb / 5 / others));
  const text = Array.from(
    { length: 40 },
    (_, at) =>
      `exports.f${at} = function (value) { if (value > ${at}) { return { at: ${at}, value: value, text: 'a text of some length' }; } };`,
  ).join('\n');
  const parts = Array.from({ length: others }, (_, at) => `fake-part-${at}`);
  return [
    {
      ...{ name: 'fake-http', version: '1.0.0' },
      manifest: { dependencies: Object.fromEntries(parts.map((name) => [name, '^1.0.0'])) },
      files: { 'index.js': `module.exports = [${parts.map((name) => `require('${name}')`).join(', ')}];` },
    },
    ...parts.map((name) => ({
      ...{ name, version: '1.0.0' },
      files: {
        'index.js': Array.from(
          { length: filesEach },
          (_, at) => `exports.m${at} = require('./m${at}.js');`,
        ).join('\n'),
        ...Object.fromEntries(Array.from({ length: filesEach }, (_, at) => [`m${at}.js`, text])),
      },
    })),
  ];
}

async function measureSpeed(): Promise<void> {
  const shared = { cacheFolder: join(folder, 'cache'), registry: registry.url, logger: silentLogger };
  const fetcher = new PackageFetcher(shared);
  const builder = createComponentBuilder({
    ...shared,
    fetchText: () => Promise.reject(new Error('nothing is fetched')),
    limits: { concurrency },
  });
  const runner = await createProcessRunner({
    ...{ level: 'auto', folder: join(folder, 'runner'), logger: silentLogger, clock: systemClock },
    policy: closedPolicy(),
    limits: { prewarmed: concurrency + 1, refillIntervalMs: 0 },
  });
  const bundles: string[] = [];
  const kept: typeof builder.build = async (source, wanted) => {
    const built = await builder.build(source, wanted);
    bundles.push(built.bundle.code);
    return built;
  };
  try {
    const run = async (ownerId: string, of: readonly string[]): Promise<CheckedPackage[]> => {
      const parts = {
        fetcher,
        builder: { build: kept },
        runner,
        ownerId,
        callDeadlineMs: 10_000,
        rebuild: false,
      };
      const wanted = of.map((name) => ({ argument: name, wanted: { name } }));
      return Array.fromAsync(
        runCorpus({ ...parts, nowMs: () => performance.now() }, wanted, { concurrency }),
      );
    };
    await run('warm up', names.slice(0, 1));
    bundles.length = 0;
    const rows = [];
    for (const what of ['rebuilt', 'known']) {
      const before = treeUsage(process.pid).cpuUs;
      const start = performance.now();
      const checked = await run('bench', names);
      const seconds = (performance.now() - start) / 1000;
      const all = checked.flatMap((one) => one.components);
      const failed = all.filter(({ failures }) => failures.length > 0).length;
      rows.push({
        what,
        components: all.length,
        failed,
        'per s': (all.length / seconds).toFixed(1),
        'CPU ms each': Math.round((treeUsage(process.pid).cpuUs - before) / 1000 / all.length),
        'kB each': Math.round(bundles.reduce((sum, text) => sum + text.length, 0) / 1000 / bundles.length),
      });
      if (what === 'rebuilt') {
        rows.push(await measureNode(), await measureEsbuild(bundles.slice(0, 20)));
      }
    }
    console.table(rows);
  } finally {
    await Promise.all([runner.close(), builder.close(), fetcher.close()]);
  }
}

async function measureEsbuild(texts: readonly string[]) {
  const one = (contents: string) =>
    build({
      stdin: { contents },
      bundle: true,
      write: false,
      platform: 'node',
      format: 'cjs',
      logLevel: 'silent',
    });
  await one(texts[0] ?? '');
  const before = treeUsage(process.pid).cpuUs;
  const start = performance.now();
  for (const text of texts) await one(text);
  const seconds = (performance.now() - start) / 1000;
  const cpuMs = (treeUsage(process.pid).cpuUs - before) / 1000;
  await stopEsbuild();
  return rowOf('bare esbuild of the bundles', texts.length, seconds, cpuMs);
}

async function measureNode() {
  const count = 10;
  const before = treeUsage(process.pid).cpuUs;
  const start = performance.now();
  for (let at = 0; at < count; at += 1) {
    const child = spawn(process.execPath, ['-e', '0'], { stdio: 'ignore' });
    await once(child, 'exit');
  }
  const seconds = (performance.now() - start) / 1000;
  return rowOf('bare node start', count, seconds, (treeUsage(process.pid).cpuUs - before) / 1000);
}

function rowOf(what: string, count: number, seconds: number, cpuMs: number) {
  return {
    what,
    components: count,
    'per s': (count / seconds).toFixed(1),
    'CPU ms each': Math.round(cpuMs / count),
  };
}

async function measureService(): Promise<void> {
  const service = await startService({ MILLRACE_NPM_REGISTRY: registry.url });
  try {
    const answer = (await service.api('POST', '/sources/', {
      name: 'measured',
      component_code: `export default { name: 'measured', version: '0.0.1', props: { http: '$.interface.http' }, async run(event) { this.$emit(event.body); } };`,
    })) as { data: { configured_props: { http: { endpoint_url: string } } } };
    const endpoint = answer.data.configured_props.http.endpoint_url;
    await measureLoads(service, endpoint, 1);
    const memory = [treeUsage(service.pid).rootRssMb];
    const watch = setInterval(() => memory.push(treeUsage(service.pid).rootRssMb), 250);
    const idle = await measureLoads(service, endpoint, Number(options.seconds));
    const work = { isOver: false };
    const loading = useCorpus(service).finally(() => {
      work.isOver = true;
    });
    const during: Loads[] = [];
    while (!work.isOver) during.push(await measureLoads(service, endpoint, Number(options.seconds)));
    const used = await loading;
    clearInterval(watch);
    const after = await measureLoads(service, endpoint, Number(options.seconds));
    console.table([
      ...rowsOf('before', [idle]),
      ...rowsOf('while packages are added, built and deployed', during),
      ...rowsOf('after', [after]),
    ]);
    const sorted = used.deployMs.toSorted((a, b) => a - b);
    const at = (share: number): string =>
      (sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0).toFixed(0);
    console.log(
      `${used.built} components built through the API in ${used.buildSeconds.toFixed(1)} s (${(used.built / used.buildSeconds).toFixed(1)}/s); ` +
        `${sorted.length} sources of known components deployed in p50 ${at(0.5)} ms, p90 ${at(0.9)} ms, least ${at(0)} ms`,
    );
    console.log(
      `RSS of the service: before ${(memory[0] ?? 0).toFixed(0)} MB, most ${Math.max(...memory).toFixed(0)} MB, after ${treeUsage(service.pid).rootRssMb.toFixed(0)} MB`,
    );
  } finally {
    await service.stop();
  }
}

interface Loads {
  api: LoadResult;
  source: LoadResult;
}

/** At a fixed rate, as users come: a server that is slow does not slow them down. */
async function measureLoads(service: Service, endpoint: string, seconds: number): Promise<Loads> {
  const shared = { connections: 4, perSecond: 25, seconds };
  const [api, source] = await Promise.all([
    runLoad({
      ...shared,
      url: `${service.url}/v1/users/me`,
      method: 'GET',
      headers: { authorization: `Bearer ${service.apiKey}` },
    }),
    runLoad({ ...shared, url: endpoint, body: JSON.stringify({ number: '000000000000' }) }),
  ]);
  return { api, source };
}

function rowsOf(when: string, loads: readonly Loads[]) {
  return (['api', 'source'] as const).map((what) => {
    const results = loads.map((one) => one[what]);
    const median = (values: number[]): string =>
      (values.sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0).toFixed(1);
    return {
      ...{ when, what },
      requests: results.reduce((sum, { requests }) => sum + requests, 0),
      'p50 ms': median(results.map(({ p50Ms }) => p50Ms)),
      'p99 ms': median(results.map(({ p99Ms }) => p99Ms)),
      'max ms': Math.max(...results.map(({ maxMs }) => maxMs)).toFixed(1),
      notes: results.map(failuresOf).filter(Boolean).join('; '),
    };
  });
}

/** Adds every package, uses every component once, and deploys a source of each that is one. */
async function useCorpus(
  service: Service,
): Promise<{ built: number; buildSeconds: number; deployMs: number[] }> {
  const keys: { key: string; type: string }[] = [];
  for (const name of names) {
    const { data } = (await service.api('POST', '/registry/packages', { name })) as {
      data: { keys: { key: string; type: string }[] };
    };
    keys.push(...data.keys);
  }
  const start = performance.now();
  await atOnce(keys, async ({ key }) => {
    await service.api('GET', `/components/registry/${key}`);
  });
  const buildSeconds = (performance.now() - start) / 1000;
  const deployMs: number[] = [];
  for (const { key } of keys.filter(({ type }) => type === 'source')) {
    const started = performance.now();
    const { data } = (await service.api('POST', '/sources/', { key })) as { data: { id: string } };
    deployMs.push(performance.now() - started);
    await service.api('DELETE', `/sources/${data.id}`);
  }
  return { built: keys.length, buildSeconds, deployMs };
}

async function atOnce<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const waiting = items.values();
  const worker = async (): Promise<void> => {
    for (const item of waiting) await work(item);
  };
  await Promise.all(Array.from({ length: concurrency }, worker));
}
