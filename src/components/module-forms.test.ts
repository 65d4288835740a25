/**
 * Every form in which components and what they import are written, each built by the real builder and loaded and run by a real
 * runner. Packages come from a registry of this test, files from addresses that this test answers.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { silentLogger } from '#lib/logger.ts';
import { startNpmRegistry } from '../../test/support/npm-registry.ts';
import {
  exportsOf,
  type RunnerFixture,
  startRunnerFixture,
  stepRequest,
} from '../../test/support/runner-fixture.ts';
import { createTempFolder, type TempFolder } from '../../test/support/temp-folder.ts';
import { type BundleForm, type ComponentBuilder, createComponentBuilder } from './build-component.ts';
import { defaultBuildLimits } from './build-limits.ts';
import { sha256 } from './bundle-cache.ts';
import { npmConfigWith } from './npm-config.ts';
import { PackageFolders } from './package-folders.ts';

const png = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x00, 0xff, 0xed, 0xa0, 0x80, 0x0d, 0x0a]);
const pngImport = 'import png from "./logo.png" with { type: "bytes" };';

interface Form {
  /** By address; the first is the component. A single text is `component_code`. */
  files: string | Record<string, string | Buffer>;
  /** What its `run` returns. */
  gives?: unknown;
  /** The code and the message with which it is refused when it is built. */
  refused?: [string, RegExp];
  /** The message of the failure when it is loaded or run. */
  fails?: RegExp;
  /** What differs when packages stay files. */
  asTree?: Pick<Form, 'gives' | 'fails'>;
}

const at = 'https://files.example/components';
const raw = 'https://raw.githubusercontent.com';
/** A component that returns the value of an expression, as an ES module. */
const esm = (value: string) => `export default { type: "action", async run() { return ${value}; } };`;
/** An ES module that returns whether it is strict, and more. */
const strictness = (more: string) =>
  `function mine() { return typeof this; } function undeclared() { try { undeclaredOfMine = 1; } catch (error) { return error.name; } }
   export default { type: "action", async run() { return [mine(), undeclared(), ${more}]; } };`;
const cjs = (value: string) => `module.exports = { type: "action", async run() { return ${value}; } };`;

const forms: Record<string, Form> = {
  'an ES module with relative imports of .mjs': {
    files: {
      [`${at}/a/actions/one/one.mjs`]: `import app from "../../a.app.mjs"; import { x as y } from "./common/x.mjs"; ${esm('[app.app, y]')}`,
      [`${at}/a/a.app.mjs`]: 'export default { type: "app", app: "a" };',
      [`${at}/a/actions/one/common/x.mjs`]: 'export const x = 1;',
    },
    gives: ['a', 1],
  },
  'relative imports without extension of .ts, .mts, .js, and of a folder': {
    files: {
      [`${at}/a/one.ts`]: `import ts from "./rss.app"; import mts from "./two"; import js from "./three"; import folder from "./four"; import slash from "./four/"; ${esm('[ts, mts, js, folder, slash]')}`,
      [`${at}/a/rss.app.ts`]: 'const x: string = "ts"; export default x;',
      [`${at}/a/two.mts`]: 'export default "mts" as const;',
      [`${at}/a/three.js`]: 'export default "js";',
      [`${at}/a/four/index.ts`]: 'export default "index" satisfies string;',
    },
    gives: ['ts', 'mts', 'js', 'index', 'index'],
  },
  'TypeScript that names the output of what it imports': {
    files: {
      [`${at}/a/one.ts`]: `import a from "./x.js"; import b from "./y.mjs"; ${esm('[a, b]')}`,
      [`${at}/a/x.ts`]: 'export default 1 as number;',
      [`${at}/a/y.mts`]: 'export default 2 as number;',
    },
    gives: [1, 2],
  },
  'CommonJS with require and module.exports': {
    files: {
      [`${at}/a/one.js`]: `const x = require("./x"); const { y } = require("./y.js"); ${cjs('[x, y]')}`,
      [`${at}/a/x.js`]: 'module.exports = "x";',
      [`${at}/a/y.js`]: 'exports.y = "y";',
    },
    gives: ['x', 'y'],
  },
  'CommonJS that assigns to exports.default, as compilers write it': {
    files:
      'Object.defineProperty(exports, "__esModule", { value: true }); exports.default = { type: "action", run() { return 1; } };',
    gives: 1,
  },
  'one file that imports and has module.exports': {
    files: `import { sep } from "path"; ${cjs('sep')}`,
    gives: '/',
  },
  'one file that requires and exports': {
    files: `const { sep } = require("path"); const tool = require("tool"); ${esm('[sep, tool.version]')}`,
    gives: ['/', '2.0.0'],
  },
  'an ES module that requires an ES module, and CommonJS that requires one': {
    files: {
      [`${at}/a/one.mjs`]: `const { default: x } = require("./x.mjs"); import y from "./y.js"; ${esm('[x, y]')}`,
      [`${at}/a/x.mjs`]: 'export default "x";',
      [`${at}/a/y.js`]: 'module.exports = require("./x.mjs").default + "y";',
    },
    gives: ['x', 'xy'],
  },
  'require of pages of GitHub, with and without branch': {
    files: {
      [`${at}/a/one.js`]: `const main = require("https://github.com/of/components/components/a/a.app.js");
        const branch = require("https://github.com/of/components/blob/v2/components/a/a.app.js"); ${cjs('[main, branch]')}`,
      [`${raw}/of/components/HEAD/components/a/a.app.js`]: 'module.exports = require("./common");',
      [`${raw}/of/components/HEAD/components/a/common.js`]: 'module.exports = "main";',
      [`${raw}/of/components/v2/components/a/a.app.js`]: 'module.exports = "v2";',
    },
    gives: ['main', 'v2'],
  },
  'a page of GitHub that is not there': {
    files: cjs('require("https://github.com/of/components/blob/main/none.js")'),
    refused: [
      'invalid_component_code',
      /there is no file for the import "https:\/\/github\.com\/of\/components\/blob\/main\/none\.js"/,
    ],
  },
  'a package with a version, a range and a tag, scoped too, and files of one': {
    files: `import exact from "tool@1.0.0"; import range from "tool@^1"; import tag from "tool@latest"; import scoped from "@of/tool@1.0.0";
      import get from "lodash@4.17.21/get"; import sub from "@of/tool@1/sub/x.js";
      ${esm('[exact.version, range.version, tag.version, scoped.version, get({ a: 1 }, "a"), sub]')}`,
    gives: ['1.0.0', '1.2.0', '2.0.0', '@of 1.0.0', 1, 'sub of @of'],
  },
  'the same by require': {
    files: `const a = require("tool@1.0.0"), b = require("lodash@4.17.21/get"); ${cjs('[a.version, b({ a: 2 }, "a")]')}`,
    gives: ['1.0.0', 2],
  },
  'packages that the package.json above does not declare, and files of them': {
    files: {
      [`${at}/pkg/actions/one/one.mjs`]: `import tool from "tool"; import scoped from "@of/tool"; import get from "lodash/get.js"; import sub from "tool/sub/x.js"; ${esm('[tool.version, scoped.version, get({ a: 3 }, "a"), sub]')}`,
      [`${at}/pkg/package.json`]: '{"name":"pkg","dependencies":{"tool":"^1.0.0"}}',
    },
    gives: ['1.2.0', '@of 1.0.0', 3, 'sub of 1.2.0'],
  },
  'two versions of a package, one of them by a dependency': {
    files: `import one from "tool@1.0.0"; import two from "tool@2.0.0"; import user from "user"; ${esm('[one.version, two.version, user]')}`,
    gives: ['1.0.0', '2.0.0', 'user of 1.2.0'],
  },
  'a package that is an ES module alone, with exports': {
    files: `import { version } from "modern"; const sub = require("modern/sub"); ${esm('[version, sub.default]')}`,
    gives: ['modern', 'modern sub'],
  },
  'modules of Node, bare and with node:': {
    files: `import { createHash } from "crypto"; import { promisify } from "node:util"; import fs from "fs/promises"; import stream from "stream/promises";
      const { Buffer } = require("buffer");
      ${esm('[typeof createHash, typeof promisify, typeof fs.readFile, typeof stream.pipeline, Buffer.from("a").length]')}`,
    gives: ['function', 'function', 'function', 'function', 1],
  },
  'import() of modules of Node, packages and files': {
    files: {
      [`${at}/a/one.mjs`]: esm(
        '[(await import("node:path")).sep, (await import("tool")).default.version, (await import("./x.mjs")).default, (await import("modern")).version]',
      ),
      [`${at}/a/x.mjs`]: 'export default "x";',
    },
    gives: ['/', '2.0.0', 'x', 'modern'],
  },
  'files of another package of the tree': {
    files: {
      [`${at}/shop_developer/sources/one/one.mjs`]: `import common from "../../../shop/sources/common/base.mjs"; ${esm('common')}`,
      [`${at}/shop/sources/common/base.mjs`]:
        'import app from "../../shop.app.mjs"; export default "base of " + app;',
      [`${at}/shop/shop.app.mjs`]: 'export default "shop";',
    },
    gives: 'base of shop',
  },
  'JSON by import with and without attribute, and by require': {
    files: {
      [`${at}/a/one.mjs`]: `import a from "./x.json"; import b from "./x.json" with { type: "json" }; const c = require("./x"); import { n } from "./x.json"; ${esm('[a.n, b.n, c.n, n]')}`,
      [`${at}/a/x.json`]: '{"n":5}',
    },
    gives: [5, 5, 5, 5],
  },
  'text and bytes, of files and of packages': {
    files: {
      [`${at}/a/one.mjs`]: `import text from "./mail.html" with { type: "text" }; ${pngImport}
        import packed from "tool/notes.txt" with { type: "text" }; import bytes from "./mail.html" with { type: "bytes" };
        ${esm('[text, Buffer.from(png).toString("hex"), packed, Buffer.from(bytes).toString()]')}`,
      [`${at}/a/mail.html`]: 'Hëllo\n',
      [`${at}/a/logo.png`]: png,
    },
    gives: ['Hëllo\n', png.toString('hex'), 'notes of 2.0.0', 'Hëllo\n'],
    // Node imports no text; a deployment takes it into one text then.
    asTree: { fails: /Unknown file extension/ },
  },
  'bytes without saying so': {
    files: {
      [`${at}/a/one.mjs`]: `import png from "./logo.png"; ${esm('png')}`,
      [`${at}/a/logo.png`]: png,
    },
    refused: ['invalid_component_code', /logo\.png is not text: import it with \{ type: "bytes" \}/],
  },
  'TypeScript of every kind': {
    files: `import type { Readable } from "stream"; import { type Stats, constants } from "fs"; import path = require("path");
      enum Color { Red = 1, Green } const enum Inlined { A = "a" } namespace Space { export const x = 3; }
      abstract class Base<T> { constructor(protected readonly value: T) {} abstract get(): T; }
      class Mine extends Base<number> { declare ghost: string; get(): number { return this.value; } }
      function twice(value: Function, _context: unknown) { return function (this: any) { return value.call(this) * 2; }; }
      class Decorated { @twice get() { return 21; } }
      const table = { a: 1 } satisfies Record<string, number>;
      const some = (given?: { stream?: Readable; stats?: Stats }) => given?.stream!;
      export default { type: "action", async run(this: unknown) { return [Color.Green, Inlined.A, Space.x, new Mine(4).get(), new Decorated().get(), table.a, some() === undefined, path.sep, constants.F_OK] as const; } };`,
    gives: [2, 'a', 3, 4, 42, 1, true, '/', 0],
  },
  'TypeScript with export =': {
    files: {
      [`${at}/a/one.ts`]:
        'const component = { type: "action", run(): number { return 1; } }; export = component;',
    },
    gives: 1,
  },
  'await at the top level, of it and of a file': {
    files: {
      [`${at}/a/one.mjs`]: `import x from "./x.mjs"; import tool from "tool"; const y = await Promise.resolve("y"); ${esm('[x, y, tool.version]')}`,
      [`${at}/a/x.mjs`]: 'export default await Promise.resolve("x");',
    },
    gives: ['x', 'y', '2.0.0'],
  },
  'an ES module is strict, and so are its files': {
    files: {
      [`${at}/a/one.ts`]: `import { plain } from "./x.mjs"; ${strictness('plain()')}`,
      [`${at}/a/x.mjs`]: 'export function plain() { return typeof this; }',
    },
    gives: ['undefined', 'ReferenceError', 'undefined'],
  },
  'an ES module is strict with a package that is strict': {
    files: `import { plain } from "careful"; ${strictness('plain()')}`,
    gives: ['undefined', 'ReferenceError', 'undefined'],
  },
  'an ES module is strict, and a package of CommonJS is sloppy beside it': {
    files: `import { plain, leaked } from "sloppy"; import lodash from "lodash/get"; ${strictness('plain(), leaked(), lodash({ a: 1 }, "a")')}`,
    gives: ['undefined', 'ReferenceError', 'object', 5, 1],
  },
  'an ES module that awaits an import of what is sloppy is strict': {
    files: `${strictness('(await import("sloppy")).plain()')}`,
    gives: ['undefined', 'ReferenceError', 'object'],
  },
  'packages of ES modules are strict, with sloppy ones behind them': {
    files: `import { plain, behind } from "uses-sloppy"; ${strictness('plain(), behind()')}`,
    gives: ['undefined', 'ReferenceError', 'undefined', 'object'],
  },
  'a script of a package, which is CommonJS to Node, is sloppy': {
    files: `import "script"; import "script/again"; ${strictness('globalThis.ofScript')}`,
    gives: ['undefined', 'ReferenceError', 'object'],
  },
  'files of CommonJS are sloppy, and the ES module that requires them strict': {
    files: {
      [`${at}/a/one.mjs`]: `import own from "./own.cjs"; ${strictness('own()')}`,
      [`${at}/a/own.cjs`]: 'module.exports = function () { undeclaredOfOwn = 1; return typeof this; };',
    },
    gives: ['undefined', 'ReferenceError', 'object'],
  },
  'imports beside module.exports, and a sloppy package': {
    files: `import { plain } from "sloppy"; ${cjs('[plain(), typeof (function () { return this; })()]')}`,
    gives: ['object', 'object'],
    asTree: { gives: ['object', 'undefined'] },
  },
  'exports of all that a sloppy package has, beside a default one': {
    files: {
      [`${at}/a/one.mjs`]: `import * as all from "./all.mjs"; ${strictness('all.plain(), all.leaked()')}`,
      [`${at}/a/all.mjs`]: 'export * from "sloppy";',
    },
    gives: ['undefined', 'ReferenceError', 'object', 5],
  },
  'CommonJS is sloppy': {
    files: cjs('(function () { undeclaredOfCommonJs = 1; return typeof this; })()'),
    gives: 'object',
  },
  'the platform and its types, with any version and by their old name': {
    files: `import { axios, ConfigurationError } from "@pipedream/platform@3.0.3"; import { defineAction } from "@pipedream/types"; const old = require("@pipedreamhq/platform");
      export default defineAction({ type: "action", async run() { return [typeof axios, ConfigurationError === old.ConfigurationError]; } });`,
    gives: ['function', true],
  },
  'an address of another server': {
    files: `import x from "https://esm.example/x.js"; ${esm('x')}`,
    refused: ['unsupported_specifier', /URLs of other servers cannot be imported/],
  },
  'a file beside code that has no place': {
    files: `import x from "./x.mjs"; ${esm('x')}`,
    refused: [
      'unsupported_specifier',
      /code in a request has no files beside it: put the content of that file into the code, or give a component_url/,
    ],
  },
  'a package that no registry has': {
    files: `import x from "no-such-tool"; ${esm('x')}`,
    refused: ['package_not_found', /no-such-tool/],
  },
  'a version that there is not': {
    files: `import x from "tool@^9"; ${esm('x')}`,
    refused: ['package_not_found', /tool@\^9|tool/],
  },
  'require of a name that is only known when it runs: a module of Node': {
    files: `const name = ["os"].join(""); ${cjs('require(name).EOL')}`,
    gives: '\n',
  },
  'require of a name that is only known when it runs: a package': {
    files: `const name = ["to", "ol"].join(""); ${cjs('require(name)')}`,
    fails: /tool/,
  },
};

describe('forms of modules', () => {
  let folder: TempFolder;
  let registry: Awaited<ReturnType<typeof startNpmRegistry>>;
  let builder: ComponentBuilder;
  let kept: PackageFolders;
  let fixture: RunnerFixture;
  let files: Record<string, string | Buffer> = {};

  before(async () => {
    folder = await createTempFolder('forms');
    const tool = (version: string) => ({
      ...{ name: 'tool', version },
      files: {
        'index.js': `exports.version = "${version}"`,
        'sub/x.js': `module.exports = "sub of ${version}"`,
        'notes.txt': `notes of ${version}`,
      },
    });
    registry = await startNpmRegistry(() => [
      ...['1.0.0', '1.2.0', '2.0.0'].map(tool),
      {
        ...{ name: '@of/tool', version: '1.0.0' },
        files: { 'index.js': 'exports.version = "@of 1.0.0"', 'sub/x.js': 'module.exports = "sub of @of"' },
      },
      {
        ...{ name: 'lodash', version: '4.17.21' },
        files: { 'get.js': 'module.exports = (object, path) => object[path];' },
      },
      {
        ...{ name: 'user', version: '1.0.0', manifest: { dependencies: { tool: '^1.1.0' } } },
        files: { 'index.js': 'module.exports = "user of " + require("tool").version' },
      },
      {
        ...{ name: 'careful', version: '1.0.0' },
        files: {
          'index.js':
            '/* Copyright */\n// "use sloppy"\n"use strict";\nexports.plain = function () { return typeof this; }; const x = exports.plain; exports.plain = () => x();',
        },
      },
      {
        ...{ name: 'sloppy', version: '1.0.0' },
        files: {
          'index.js':
            'leakedBySloppy = 5; function plain() { return typeof this; } exports.plain = () => plain(); exports.leaked = () => leakedBySloppy; var s = `\n__millrace__();\n`;',
        },
      },
      {
        ...{
          name: 'uses-sloppy',
          version: '1.0.0',
          manifest: { type: 'module', dependencies: { sloppy: '1' } },
        },
        files: {
          'index.js':
            'import sloppy from "sloppy"; function mine() { return typeof this; } export const plain = () => mine(); export const behind = () => sloppy.plain();',
        },
      },
      {
        ...{ name: 'script', version: '1.0.0' },
        files: {
          'index.js': 'globalThis.ofScript = (function () { leakedByScript = 1; return typeof this; })();',
          'again.js': 'globalThis.ofScript = (function () { leakedByScript = 2; return typeof this; })();',
        },
      },
      {
        ...{ name: 'modern', version: '1.0.0' },
        manifest: { type: 'module', exports: { '.': { import: './m.js' }, './sub': './sub.js' } },
        files: { 'm.js': 'export const version = "modern";', 'sub.js': 'export default "modern sub";' },
      },
    ]);
    const npmConfig = { registry: registry.url, credentials: {}, ca: [] };
    kept = new PackageFolders({
      folder: join(folder.path, 'packages'),
      cache: join(folder.path, 'npm'),
      npm: npmConfigWith(npmConfig, registry.url),
      limits: defaultBuildLimits,
      logger: silentLogger,
    });
    builder = createComponentBuilder({
      cacheFolder: join(folder.path, 'cache'),
      registry: registry.url,
      npmConfig,
      fetchText: (url) => {
        const body = files[url];
        return Promise.resolve({
          status: body === undefined ? 404 : 200,
          body: Buffer.from(body ?? ''),
          url,
        });
      },
      packages: kept,
      logger: silentLogger,
    });
    fixture = await startRunnerFixture({ packages: kept });
  });

  after(async () => {
    await fixture?.close();
    await builder?.close();
    await kept?.close();
    await registry?.close();
    await folder?.remove();
  });

  for (const [what, of] of Object.entries(forms)) {
    for (const form of ['inline', 'tree'] as const)
      test(`${what}, ${form === 'inline' ? 'in one text' : 'with packages as files'}`, () =>
        buildAndRun(form === 'tree' ? { ...of, ...of.asTree } : of, form));
  }

  async function buildAndRun(form: Form, bundleForm: BundleForm): Promise<void> {
    const isCode = typeof form.files === 'string';
    files = typeof form.files === 'string' ? {} : form.files;
    const source =
      typeof form.files === 'string'
        ? ({ kind: 'code', code: form.files } as const)
        : ({ kind: 'url', url: Object.keys(files)[0] ?? '' } as const);
    assert.ok(isCode || source.kind === 'url');
    const building = builder.build(source, { ownerId: 'u_1', form: bundleForm });
    if (form.refused !== undefined) {
      const [code, message] = form.refused;
      await assert.rejects(building, { code, message });
      return;
    }
    const { bundle } = await building;
    // In one process for all that may read the same packages.
    const { packages } = bundle;
    const place = {
      ...{ bundle, module: bundle.hash, packages: packages === undefined ? [] : [packages] },
      deploymentId: `d_${packages === undefined ? 'inline' : sha256(packages.lockfile)}`,
    };
    const described = await fixture.runner.call(stepRequest('', { ...place, call: { kind: 'describe' } }));
    if (form.fails !== undefined && described.status !== 'finished') {
      assert.match(described.error?.message ?? '', form.fails);
      return;
    }
    assert.equal(described.status, 'finished', JSON.stringify(described));
    const outcome = await fixture.runner.call(stepRequest('', place));
    if (form.fails === undefined) assert.deepEqual(exportsOf(outcome).$return_value, form.gives);
    else assert.match(outcome.error?.message ?? '', form.fails);
  }
});
