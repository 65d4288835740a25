import assert from 'node:assert/strict';
import { mkdir, readdir, symlink, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { auditContexts } from '#audit/audit-context.ts';
import { CallerError, UnavailableError } from '#lib/errors.ts';
import { silentLogger } from '#lib/logger.ts';
import type { ShareObserver } from '#metering/share-records.ts';
import { changeBy } from '../../test/support/change-by.ts';
import { HttpReceiver } from '../../test/support/http-receiver.ts';
import { type FakePackage, startNpmRegistry } from '../../test/support/npm-registry.ts';
import { readProjectFile } from '../../test/support/project-files.ts';
import { wallsOfTests } from '../../test/support/sandbox-level.ts';
import { createTempFolder, type TempFolder } from '../../test/support/temp-folder.ts';
import { patienceMs, within } from '../../test/support/wait-for.ts';
import {
  type BuiltBundle,
  type ComponentBuilder,
  type ComponentSource,
  createComponentBuilder,
} from './build-component.ts';
import type { BuildLimits } from './build-limits.ts';
import { readNpmConfig } from './npm-config.ts';
import type { FetchText } from './own-files.ts';

const noFetch: FetchText = () => Promise.reject(new Error('nothing is fetched in this test'));

/** Stands for the guarded way out, which would not reach a server of a test. */
const plainFetch: FetchText = async (url, { signal }) => {
  const answer = await globalThis.fetch(url, { signal });
  return { status: answer.status, body: Buffer.from(await answer.arrayBuffer()), url: answer.url };
};

let folder: TempFolder;
let builder: ComponentBuilder;

before(async () => {
  folder = await createTempFolder('builder');
  builder = await newBuilder({ cache: 'main', fetchText: plainFetch });
});

after(async () => {
  await builder.close();
  await folder.remove();
});

async function newBuilder(options: {
  cache: string;
  registry?: string;
  fetchText?: FetchText;
  limits?: Partial<BuildLimits>;
  shares?: ShareObserver;
}): Promise<ComponentBuilder> {
  const { cache, registry = '', fetchText = noFetch, limits = {} } = options;
  const npmConfig =
    registry === ''
      ? await readNpmConfig(process.env, process.env.HOME ?? '/')
      : { registry, credentials: {}, ca: [] };
  return createComponentBuilder({
    cacheFolder: join(folder.path, cache),
    registry,
    npmConfig,
    fetchText,
    logger: silentLogger,
    walls: wallsOfTests(folder.path),
    limits,
    ...(options.shares && { shares: options.shares }),
  });
}

function build(source: ComponentSource | string, by = builder, ownerId = 'u_1'): Promise<BuiltBundle> {
  return by.build(typeof source === 'string' ? { kind: 'code', code: source } : source, { ownerId });
}

// biome-ignore lint/suspicious/noExplicitAny: what a component exports is what the test says it is.
function evaluate(built: BuiltBundle): any {
  const module = { exports: {} as { default?: unknown } };
  assert.equal(built.bundle.format, 'cjs');
  new Function('module', 'exports', 'require', built.bundle.code)(
    module,
    module.exports,
    createRequire(import.meta.url),
  );
  return module.exports.default ?? module.exports;
}

async function failure(built: Promise<unknown>, code: string): Promise<CallerError> {
  const error = await built.then(
    () => assert.fail(`expected ${code}, and the component was built`),
    (thrown: unknown) => thrown,
  );
  assert.ok(
    error instanceof CallerError || error instanceof UnavailableError,
    String((error as Error).stack),
  );
  assert.equal(error.code, code, error.message);
  return error as CallerError;
}

describe('code of a component', () => {
  test('may be an ES module, CommonJS, or TypeScript', async () => {
    assert.equal(evaluate(await build('export default { v: 1 }')).v, 1);
    assert.equal(evaluate(await build('module.exports = { v: 2 }')).v, 2);
    const typed = 'interface A { v: number }\nconst a: A = { v: 3 };\nexport default a satisfies A;';
    assert.equal(evaluate(await build(typed)).v, 3);
  });

  test('has a hash of its text, and its bundle one of the bundle', async () => {
    const built = await build('export default { v: 1 }');
    assert.equal(built.code, 'export default { v: 1 }');
    assert.match(built.codeHash, /^[0-9a-f]{64}$/);
    assert.deepEqual(built.files, [{ path: 'component_code', sha256: built.codeHash }]);
    assert.match(built.bundle.hash, /^[0-9a-f]{64}$/);
  });

  test('may await at its top level, and then becomes an ES module', async () => {
    const { bundle } = await build(
      'import { Buffer } from "buffer"; const os = require("os"); const v = await Promise.resolve(4); export default { v, os: os.EOL, at: import.meta.url, dir: __dirname, b: Buffer.from("a").length };',
    );
    assert.equal(bundle.format, 'esm');
    const file = join(folder.path, 'component.mjs');
    await writeFile(file, bundle.code);
    const { default: component } = (await import(file)) as { default: Record<string, unknown> };
    assert.deepEqual(component, { v: 4, os: '\n', at: 'file:///component.js', dir: '/', b: 1 });
  });

  test('finds import.meta.url, modules of Node and dynamic imports of them in CommonJS', async () => {
    const code =
      'import { createRequire } from "node:module"; const require = createRequire(import.meta.url); export default { eol: require("os").EOL, load: () => import("node:path") };';
    const component = evaluate(await build(code));
    assert.equal(component.eol, '\n');
    assert.equal(typeof (await component.load()).join, 'function');
  });

  test('with a mistake is refused with its line and column', async () => {
    const error = await failure(build('export default {\n  run( { return 1 }\n}'), 'invalid_component_code');
    assert.equal(error.details.file, 'component_code');
    assert.equal(error.details.line, 2);
    assert.equal(error.details.column, 17);
  });

  test('gets our own modules for the names of the platform, with any version', async () => {
    const component = evaluate(
      await build(
        'import { ConfigurationError } from "@pipedream/platform@3.1.0"; import { defineSource } from "@pipedream/types"; import { axios } from "@pipedreamhq/platform"; export default defineSource({ name: new ConfigurationError("x").name, axios: typeof axios });',
      ),
    );
    assert.equal(component.name, 'ConfigurationError');
    assert.equal(component.axios, 'function');
  });

  test('gets them in every form of import, and nothing is installed for it', async () => {
    const offline = await newBuilder({ cache: 'offline', registry: 'http://127.0.0.1:1/' });
    try {
      const imported = `
        import pd, { ConfigurationError } from '@pipedream/platform';
        import * as space from '@pipedream/platform';
        import * as older from '@pipedream/platform@3.1.0';
        import { END_NEEDLE } from '@pipedream/platform@^1';
        import { axios } from '@pipedreamhq/platform';
        import { defineApp, defineSource, defineAction } from '@pipedream/types@0.3.4';
        import types from '@pipedream/types';
        import { sanitizedArray, generateHTTPErrorClasses } from '@pipedream/helpers@^1.3';
        export { HTTP_METHODS } from '@pipedream/platform';
        const later = async () => typeof (await import('@pipedream/platform')).axios;
        export default { later, axios: typeof axios.create, needle: END_NEEDLE,
          same: [pd.axios, space.axios, older.axios].every((it) => it === axios) && pd.ConfigurationError === ConfigurationError,
          identity: [defineApp(1), defineSource(2), defineAction(3), types.defineApp(4)],
          helpers: [sanitizedArray('a,b'), generateHTTPErrorClasses()[404]('x').name] };`;
      const { later, ...component } = evaluate(await build(imported, offline));
      assert.equal(await later(), 'function');
      assert.deepEqual(component, {
        axios: 'function',
        needle: '__pd_end',
        same: true,
        identity: [1, 2, 3, 4],
        helpers: [['a', 'b'], 'HTTP404Error'],
      });
      const required = `
        const { axios, sqlProxy } = require('@pipedream/platform');
        const load = () => require('@pipedreamhq/platform@latest');
        module.exports = { same: load().axios === axios && require('@pipedream/platform').axios === axios,
          methods: Object.keys(sqlProxy.methods).length, types: require('@pipedream/types').defineApp(1),
          helpers: require('@pipedream/helpers').sanitizedArray('[1]') };`;
      assert.deepEqual(evaluate(await build(required, offline)), {
        same: true,
        methods: 3,
        types: 1,
        helpers: ['1'],
      });
      const typed = `
        import { App, UserProp, Pipedream, HTTPError } from '@pipedream/types';
        import { type FileMetadata, AxiosRequestConfig, ConfigurationError } from '@pipedream/platform';
        import type { DbInfo } from '@pipedream/platform';
        import type pd from '@pipedream/platform';
        export type { TableInfo } from '@pipedream/platform';
        export { ColumnSchema } from '@pipedream/platform';
        interface Request extends AxiosRequestConfig { $?: Pipedream }
        const config = { url: 'x', returnFullResponse: true } as Request;
        export default { ...config, kind: new ConfigurationError('x').name } as unknown as App;`;
      const built = await build(typed, offline);
      assert.deepEqual(evaluate(built), { url: 'x', returnFullResponse: true, kind: 'ConfigurationError' });
      assert.ok(built.bundle.code.length < 20_000, 'axios is left out where it is not used');
      const unknown = "import { nothing } from '@pipedream/platform'; export default nothing;";
      const error = await failure(build(unknown, offline), 'invalid_component_code');
      assert.match(error.message, /No matching export .*"nothing" \(component_code:1:10\)/);
    } finally {
      await offline.close();
    }
  });

  test('of the same text is built once per owner', async () => {
    const code = 'export default { v: "once" }';
    const first = await build(code);
    assert.deepEqual(await build(code), first);
    const [owner, ...others] = await readdir(join(folder.path, 'main', 'bundles'));
    await build(code, builder, 'u_2');
    assert.equal(
      (await readdir(join(folder.path, 'main', 'bundles'))).length,
      others.length + (owner ? 2 : 1),
    );
  });

  test('asked for twice at a time is built once', async () => {
    const [a, b] = await Promise.all([
      build('export default { v: "twice" }'),
      build('export default { v: "twice" }'),
    ]);
    assert.equal(a, b);
  });
});

describe('what a component may not import', () => {
  for (const specifier of [
    'git+ssh://git@github.com/a/b.git',
    'git://a/b',
    'github:a/b',
    'http://127.0.0.1:1/x.tgz',
    'https://example.com/x.js',
    'file:///etc/passwd',
    'file:../x',
    'link:../x',
    'npm:lodash@4',
    'data:text/javascript,export default 1',
    '/etc/passwd',
    'C:\\x.js',
    '#internal',
    './beside.js',
    '../../package.json',
    'lodash/../../../x',
    'node:nothing-like-this',
  ]) {
    test(`${specifier} is refused by name`, async () => {
      const code = `import x from ${JSON.stringify(specifier)}; export default { x }`;
      const error = await failure(build(code), 'unsupported_specifier');
      assert.equal(error.details.specifier, specifier);
    });
  }

  for (const range of ['git+ssh:x', 'npm:other@1', 'http:x', 'file:x', 'link:x']) {
    test(`lodash@${range} is refused`, async () => {
      await failure(build(`import x from "lodash@${range}"; export default { x }`), 'unsupported_specifier');
    });
  }

  test('files of the machine are not bundled as text, JSON or by a pattern, and their content is not revealed', async () => {
    for (const code of [
      'import x from "/etc/passwd" with { type: "text" }; export default { x }',
      'import x from "../../../../../../etc/passwd" with { type: "text" }; export default { x }',
      'export default { run: (n) => import("../../../../../../etc/" + n + ".conf") }',
      'export default { run: (n) => require("../../../" + n + ".json") }',
    ]) {
      const outcome = await build(code).then(
        ({ bundle }) => bundle.code,
        (error: CallerError) => error.message + JSON.stringify(error.details),
      );
      assert.doesNotMatch(outcome, /root:|nameserver|"dependencies"/);
    }
  });
});

describe('a component at a URL', () => {
  async function serve(files: Record<string, string>): Promise<HttpReceiver> {
    return HttpReceiver.start({
      answer: (request) => {
        const body = files[request.url];
        return body === undefined ? { status: 404 } : { body };
      },
    });
  }

  test('brings the files it imports, with and without extension, and JSON', async () => {
    await using server = await serve({
      '/rss/sources/new/new.ts':
        'import app from "../../app/rss.app"; import common from "../common"; import data from "./data.json"; import { x } from "./x.js"; export default { app, common, n: data.n, x };',
      '/rss/app/rss.app.ts': 'const a: string = "app"; export default a;',
      '/rss/sources/common/index.mjs': 'export default "common";',
      '/rss/sources/new/data.json': '{"n":5}',
      '/rss/sources/new/x.ts': 'export { y as x } from "../../../other/y.mjs";',
      '/other/y.mjs': 'export const y = "y";',
    });
    const built = await build({ kind: 'url', url: `${server.url}/rss/sources/new/new.ts` });
    assert.deepEqual(evaluate(built), { app: 'app', common: 'common', n: 5, x: 'y' });
    assert.equal(built.files.length, 6);
    assert.equal(built.files[0]?.path, `${server.url}/rss/sources/new/new.ts`);
  });

  test('has another tree when a file it imports changes, though its own code is the same', async () => {
    const files = { '/a.mjs': 'export { default } from "./b.mjs"', '/b.mjs': 'export default { v: 1 }' };
    await using server = await serve(files);
    const first = await build({ kind: 'url', url: `${server.url}/a.mjs` });
    files['/b.mjs'] = 'export default { v: 2 }';
    const second = await build({ kind: 'url', url: `${server.url}/a.mjs` });
    assert.equal(first.codeHash, second.codeHash);
    assert.notEqual(first.treeHash, second.treeHash);
    assert.equal(evaluate(second).v, 2);
  });

  test('that does not answer with code is refused', async () => {
    await using server = await serve({ '/page.js': '<!DOCTYPE html><p>hello' });
    await failure(build({ kind: 'url', url: `${server.url}/none.js` }), 'component_url_unreachable');
    await failure(build({ kind: 'url', url: `${server.url}/page.js` }), 'component_url_unreachable');
  });

  test('with an import that is not there is refused by file and line', async () => {
    await using server = await serve({ '/a.js': '\nimport x from "./gone"; export default x' });
    const error = await failure(build({ kind: 'url', url: `${server.url}/a.js` }), 'invalid_component_code');
    assert.match(error.message, /no file for the import "\.\/gone"/);
    assert.equal(error.details.line, 2);
  });

  test('with too many files is refused', async () => {
    await using server = await HttpReceiver.start({
      answer: (request) => ({
        body: `import "./${Number(/\d+/.exec(request.url)?.[0]) + 1}.mjs"; export default 1`,
      }),
    });
    const small = await newBuilder({ cache: 'small', fetchText: plainFetch, limits: { filesMax: 5 } });
    try {
      await failure(build({ kind: 'url', url: `${server.url}/1.mjs` }, small), 'component_too_large');
      assert.equal(server.requests.length, 6);
    } finally {
      await small.close();
    }
  });

  test('on a page of GitHub is fetched raw, also when code requires it by its page', async () => {
    const asked: string[] = [];
    const github = await newBuilder({
      cache: 'github',
      fetchText: (url) => {
        asked.push(url);
        return Promise.resolve({ status: 200, body: Buffer.from('module.exports = { v: "raw" }'), url });
      },
    });
    try {
      await build({ kind: 'url', url: 'https://github.com/a/b/blob/master/c/d.mjs' }, github);
      const code = 'const d = require("https://github.com/a/b/c/d.js"); module.exports = { d };';
      assert.equal(evaluate(await build(code, github)).d.v, 'raw');
    } finally {
      await github.close();
    }
    assert.deepEqual(asked, [
      'https://raw.githubusercontent.com/a/b/master/c/d.mjs',
      'https://raw.githubusercontent.com/a/b/HEAD/c/d.js',
    ]);
  });

  test('that never answers ends with the deadline of builds', async () => {
    const slow = await newBuilder({
      cache: 'slow',
      fetchText: () => new Promise(() => {}),
      limits: { deadlineMs: 50 },
    });
    try {
      await failure(build({ kind: 'url', url: 'http://127.0.0.1:1/a.js' }, slow), 'build_timeout');
    } finally {
      await slow.close();
    }
  });

  test('that never answers costs those in line behind it nothing of their time', async () => {
    const slow = await newBuilder({
      cache: 'line',
      fetchText: () => new Promise(() => {}),
      limits: { deadlineMs: 8000, concurrency: 1 },
    });
    try {
      const hangs = build('require("https://github.com/a/b/c/d.js"); module.exports = {};', slow);
      const waits = build('export default { v: 1 }', slow);
      const error = await failure(hangs, 'build_timeout');
      assert.match(error.message, /^building the component took more than 8 seconds$/);
      assert.equal(evaluate(await waits).v, 1);
    } finally {
      await slow.close();
    }
  });
});

test('builds that one user asks for in several workspaces wait for each other, and not those of another user', async () => {
  const delayed = Promise.withResolvers<string>();
  const shares = { delayed: (ownerId: string) => delayed.resolve(ownerId), refused: () => {} };
  const fetchText: FetchText = () => new Promise(() => {});
  const busy = await newBuilder({ cache: 'askers', fetchText, limits: { concurrency: 1 }, shares });
  const stop = new AbortController();
  const buildBy = (userId: string, ownerId: string, code: string) =>
    auditContexts.run(changeBy(userId), () =>
      busy.build({ kind: 'code', code }, { ownerId, signal: stop.signal }),
    );
  const endless = 'require("https://github.com/a/b/c/d.js"); module.exports = {};';
  const builds = ['o_1', 'o_2', 'o_3'].map((ownerId) => buildBy('u_1', ownerId, endless));
  try {
    const first = await within(delayed.promise, patienceMs, 'a build that waits');
    assert.equal(first, 'o_2', 'no process beyond the usual number for a user who has one');
    assert.equal(evaluate(await buildBy('u_2', 'o_4', 'export default { v: 1 }')).v, 1);
  } finally {
    stop.abort();
    await Promise.allSettled(builds);
    await busy.close();
  }
});

test('a component that takes too much CPU time to build is refused with that reason', async () => {
  const few = await newBuilder({ cache: 'cpu', limits: { cpuMs: 300 } });
  const lines = Array.from({ length: 80_000 }, (_, n) => `export const f${n} = (a) => a + ${n};`);
  try {
    const error = await failure(build(lines.join('\n'), few), 'build_timeout');
    assert.match(error.message, /took more than 0\.3 seconds of CPU time$/);
  } finally {
    await few.close();
  }
});

test('a component whose text makes esbuild take too much memory is refused, and the next one is built', async () => {
  const small = await newBuilder({ cache: 'memory', limits: { memoryBytesMax: 256 * 1024 * 1024 } });
  // esbuild joins constant texts, and keeps each text on the way: 80 KB of source take 650 MB, 400 KB more than 10 GB.
  const concatenation = `export default { key: ${'"a"+'.repeat(30_000)}"b" }`;
  try {
    const error = await failure(build(concatenation, small), 'component_too_large');
    assert.equal(error.message, 'building the component took more than 256 MB of memory');
    assert.equal(evaluate(await build('export default { v: 1 }', small)).v, 1);
  } finally {
    await small.close();
  }
});

describe('a component in a file', () => {
  test('imports files below its root, and nothing outside, also not by a link', async () => {
    const root = join(folder.path, 'registry');
    await writeTree(root, {
      'a/source.mjs': 'import app from "../app.mjs"; export default { app };',
      'app.mjs': 'export default "app";',
      'out.mjs': 'import x from "../secret.mjs"; export default x;',
      'link.mjs': 'import x from "./linked.mjs"; export default x;',
    });
    await writeTree(folder.path, { 'secret.mjs': 'export default "TOP-SECRET";' });
    await symlink(join(folder.path, 'secret.mjs'), join(root, 'linked.mjs'));
    const built = await build({ kind: 'file', path: join(root, 'a/source.mjs'), root });
    assert.equal(evaluate(built).app, 'app');
    assert.deepEqual(built.files.map((file) => file.path).sort(), ['a/source.mjs', 'app.mjs']);
    await failure(build({ kind: 'file', path: join(root, 'out.mjs'), root }), 'unsupported_specifier');
    await failure(build({ kind: 'file', path: join(root, 'link.mjs'), root }), 'unsupported_specifier');
  });

  test('has the packages of the project, which no registry is asked for', async () => {
    const root = join(folder.path, 'shipped');
    await writeTree(root, {
      'a/source.mjs':
        'import { Marked } from "marked"; export default { html: new Marked().parse("**hi**") };',
    });
    const offline = await newBuilder({ cache: 'shipped', registry: 'http://127.0.0.1:1/' });
    try {
      const built = await build({ kind: 'file', path: join(root, 'a/source.mjs'), root }, offline);
      assert.equal(evaluate(built).html, '<p><strong>hi</strong></p>\n');
      const { dependencies } = JSON.parse(readProjectFile('package.json')) as {
        dependencies: Record<string, string>;
      };
      const { imports } = JSON.parse(built.lock) as { imports: Record<string, object> };
      assert.deepEqual(imports, { marked: { name: 'marked', version: dependencies.marked } });
    } finally {
      await offline.close();
    }
  });
});

async function writeTree(root: string, files: Record<string, string>): Promise<void> {
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), text);
  }
}

describe('npm packages', () => {
  let registry: Awaited<ReturnType<typeof startNpmRegistry>>;
  /** A builder with this registry; a test publishes packages with names of its own. */
  let hers: ComponentBuilder;

  before(async () => {
    registry = await startNpmRegistry(() => []);
    hers = await newBuilder({ cache: 'npm', registry: registry.url, fetchText: plainFetch });
  });

  after(async () => {
    await hers?.close();
    await registry?.close();
  });

  const publish = (...packages: FakePackage[]) => registry.publish(packages);

  async function withLimits(limits: Partial<BuildLimits>, work: (by: ComponentBuilder) => Promise<void>) {
    const by = await newBuilder({ cache: 'npm-limits', registry: registry.url, limits });
    try {
      await work(by);
    } finally {
      await by.close();
    }
  }

  test('are installed when they are imported, the newest version without one, several versions side by side', async () => {
    const pkg = (version: string): FakePackage => ({
      name: 'tool',
      version,
      files: {
        'index.js': `module.exports = "${version}"`,
        'sub/path.js': `module.exports = "sub ${version}"`,
      },
    });
    publish(pkg('1.0.0'), pkg('1.2.0'), pkg('2.0.0'));
    const code =
      'import a from "tool"; import b from "tool@^1.0.0"; import c from "tool@1.0.0/sub/path.js"; export default [a, b, c];';
    const built = await build(code, hers);
    assert.deepEqual(evaluate(built), ['2.0.0', '1.2.0', 'sub 1.0.0']);
    const lock = JSON.parse(built.lock) as {
      imports: unknown;
      packages: Record<string, { integrity: string }>;
    };
    assert.deepEqual(lock.imports, {
      tool: { name: 'tool', version: '2.0.0' },
      'tool@^1.0.0': { name: 'tool', version: '1.2.0' },
      'tool@1.0.0': { name: 'tool', version: '1.0.0' },
    });
    assert.match(lock.packages['node_modules/tool']?.integrity ?? '', /^sha512-/);
  });

  test('take their version from the package.json above a fetched component', async () => {
    await using server = await HttpReceiver.start({
      answer: ({ url }) => {
        if (url === '/pkg/package.json') return { body: { dependencies: { declared: '^1.0.0' } } };
        if (url === '/pkg/sources/a/a.mjs') return { body: 'export { default } from "declared";' };
        return { status: 404 };
      },
    });
    publish(
      { name: 'declared', version: '1.0.0', files: { 'index.js': 'module.exports = 1' } },
      { name: 'declared', version: '2.0.0', files: { 'index.js': 'module.exports = 2' } },
    );
    const built = await build({ kind: 'url', url: `${server.url}/pkg/sources/a/a.mjs` }, hers);
    assert.equal(evaluate(built), 1);
  });

  test('need the registry once: other code with the same packages is built without it', async () => {
    const own = await startNpmRegistry(() => [
      { name: 'tool', version: '1.0.0', files: { 'index.js': 'module.exports = 1' } },
    ]);
    const by = await newBuilder({ cache: 'npm-once', registry: own.url });
    try {
      await build('import t from "tool@1.0.0"; export default [t, 1]', by);
      await own.close();
      assert.deepEqual(
        evaluate(await build('import t from "tool@1.0.0"; export default [t, 2]', by)),
        [1, 2],
      );
      assert.deepEqual(evaluate(await build('import t from "tool"; export default [t, 3]', by)), [1, 3]);
      await failure(build('import t from "unseen"; export default t', by), 'registry_unreachable');
      await by.close();
      assert.deepEqual(
        await readdir(join(folder.path, 'npm-once', 'builds')),
        [],
        'a build folder was left behind',
      );
    } finally {
      await by.close();
      await own.close();
    }
  });

  test('that do not exist are named', async () => {
    publish({ name: 'exists', version: '1.0.0' });
    const missing = await failure(build('import "not-there"; export default 1', hers), 'package_not_found');
    assert.equal(missing.details.specifier, 'not-there');
    const version = await failure(build('import "exists@^7"; export default 1', hers), 'package_not_found');
    assert.equal(version.details.package, 'exists');
  });

  test('that depend on what is no package at all are refused, by what was expected', async () => {
    for (const [index, spec] of ['npm:../..', 'npm:', 'npm:npm:x', 'http://', '../..', '::::'].entries()) {
      const name = `depends-on-nonsense-${index}`;
      publish({ name, version: '1.0.0', manifest: { dependencies: { evil: spec } } });
      const { message } = await failure(
        build(`import "${name}"; export default 1`, hers),
        'unsupported_specifier',
      );
      assert.match(message, /expected names of packages with versions, ranges or tags$/, spec);
    }
  });

  test('that unpack to a thousand times their size are refused', async () => {
    publish({ name: 'bomb', version: '1.0.0', files: { 'index.js': ' '.repeat(20 * 1024 * 1024) } });
    const { message } = await failure(build('import "bomb"; export default 1', hers), 'package_refused');
    assert.match(message, /cannot be unpacked: max decompression ratio exceeded/);
  });

  test('without integrity are refused before they are fetched', async () => {
    publish({ name: 'unsigned', version: '1.0.0', hasIntegrity: false });
    await failure(build('import "unsigned"; export default 1', hers), 'package_refused');
    assert.deepEqual(
      registry.requests().filter((url) => url.includes('unsigned')),
      ['/unsigned'],
    );
  });

  test('cannot bring files of the machine into the bundle, by links or by paths', async () => {
    await writeTree(folder.path, { 'secret.json': '{"k":"TOP-SECRET"}' });
    const secret = join(folder.path, 'secret.json');
    const inside = [
      { 'index.js': 'module.exports = require("./link.json")', 'link.json': `-> ${secret}` },
      { 'index.js': `import x from ${JSON.stringify(secret)}; export default x` },
      { 'index.js': `import x from ${JSON.stringify(secret)} with { type: "text" }; export default x` },
      ...['../../../../', '../../../../../'].flatMap((up) => [
        { 'index.js': `import x from "${up}secret.json"; export default x` },
        { 'index.js': `module.exports = (n) => require("${up}" + n + ".json")` },
      ]),
      { '../../../../../escaped.js': 'module.exports = 1', 'index.js': 'module.exports = 1' },
    ];
    for (const [index, files] of inside.entries()) {
      const name = `reaches-out-${index}`;
      publish({ name, version: '1.0.0', files });
      const outcome = await build(`import t from "${name}"; export default t`, hers).then(
        ({ bundle }) => bundle.code,
        (error: CallerError) => {
          assert.equal(error.code, 'invalid_component_code', error.message);
          return error.message + JSON.stringify(error.details);
        },
      );
      assert.doesNotMatch(outcome, /TOP-SECRET/);
      // A failing require reports the specifier to npm; it must not reveal where the build ran.
      assert.doesNotMatch(outcome.replaceAll(secret, ''), new RegExp(folder.path));
    }
    const found = await readdir(folder.path, { recursive: true });
    assert.deepEqual(
      found.filter((path) => path.endsWith('escaped.js')),
      [],
    );
  });

  test('that need what the registry does not have yet are taken as they were before', async () => {
    publish(
      { name: 'part', version: '1.0.0' },
      {
        name: 'whole',
        version: '1.0.0',
        manifest: { dependencies: { part: '1.0.0' } },
        files: { 'index.js': 'exports.v = 1' },
      },
      {
        name: 'whole',
        version: '1.1.0',
        manifest: { dependencies: { part: '2.0.0' } },
        publishedAt: new Date().toISOString(),
      },
    );
    const code = 'import { v } from "whole@^1.0.0"; export default { v }';
    assert.equal(evaluate(await build(code, hers)).v, 1);
    const error = await failure(build(code.replace('^1.0.0', '1.1.0'), hers), 'package_not_found');
    assert.equal(error.details.package, 'part');
  });

  test('with a native addon fail at the line that loads it, by name', async () => {
    publish({
      name: 'native',
      version: '1.0.0',
      files: { 'index.js': 'module.exports = require("./a.node")', 'a.node': 'x' },
    });
    const built = await build('import t from "native"; export default t', hers);
    assert.throws(() => evaluate(built), {
      code: 'ERR_DLOPEN_DISABLED',
      message: 'the package "native" needs a native addon, which components may not load here',
    });
  });

  test('may require what is not installed, as long as that line does not run', async () => {
    const index =
      'exports.v = 1; exports.f = () => require("optional-thing"); exports.g = () => require("../build/x.node");';
    publish({ name: 'needs-more', version: '1.0.0', files: { 'index.js': index } });
    assert.equal(evaluate(await build('import { v } from "needs-more"; export default { v }', hers)).v, 1);
  });

  test('of more than the limits are refused', async () => {
    publish(
      ...Array.from({ length: 6 }, (_, i) => ({
        name: `p${i}`,
        version: '1.0.0',
        manifest: i < 5 ? { dependencies: { [`p${i + 1}`]: '1' } } : {},
      })),
      { name: 'big', version: '1.0.0', files: { 'index.js': '1;'.padEnd(300_000), 'b.js': '2' } },
    );
    for (const [name, limits] of [
      ['p0', { packagesMax: 5 }],
      ['big', { packageBytesMax: 200_000 }],
      ['big', { packageFilesMax: 2 }],
    ] as const) {
      await withLimits(limits, async (by) => {
        await failure(build(`import "${name}"; export default 1`, by), 'component_too_large');
      });
    }
  });

  test('of the real registry work: lodash in two versions, and lodash with what is cached', async () => {
    const code =
      'import a from "lodash@3.10.1"; import b from "lodash@4.17.21/add"; import c from "lodash@4.17.21"; export default [a.VERSION, b(1, 2), c.VERSION];';
    assert.deepEqual(evaluate(await build(code)), ['3.10.1', 3, '4.17.21']);
  });
});

describe('closing', () => {
  test('ends builds that run, and leaves no process', async () => {
    const closing = await newBuilder({ cache: 'closing', fetchText: () => new Promise(() => {}) });
    const running = build({ kind: 'url', url: 'http://127.0.0.1:1/a.js' }, closing);
    const ended = failure(running, 'build_cancelled');
    await closing.close();
    await ended;
    await closing.close();
  });

  test('a caller who goes away stops waiting', async () => {
    const waiting = await newBuilder({ cache: 'waiting', fetchText: () => new Promise(() => {}) });
    const stop = new AbortController();
    const running = waiting.build(
      { kind: 'url', url: 'http://127.0.0.1:1/a.js' },
      { ownerId: 'u_1', signal: stop.signal },
    );
    stop.abort(new Error('gone'));
    await assert.rejects(running, /gone/);
    await waiting.close();
  });
});
