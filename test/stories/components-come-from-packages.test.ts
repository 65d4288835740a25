import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { borrowTestDatabase, postgresSkip, type TestDatabase } from '../support/databases.ts';
import { Millrace } from '../support/millrace.ts';
import { shareNpmCache } from '../support/npm-package.ts';
import { startNpmRegistry } from '../support/npm-registry.ts';
import { programFile } from '../support/program-file.ts';
import { storesOfStory, turnVariable } from '../support/story-stores.ts';
import { createTempFolder, type TempFolder } from '../support/temp-folder.ts';
import { waitFor } from '../support/wait-for.ts';

const adminFile = programFile('src/admin.ts');

const source = (version: string, says: string) => `import { said } from "../../common/said.mjs";
import app from "../../demo.app.mjs";
export default { key: "demo-tick", name: "Tick of Demo", version: "${version}", type: "source", description: "Ticks",
  props: { app, http: "$.interface.http" }, run() { this.$emit({ says: said("${says}"), app: app.app }); } };`;
const app = 'export default { type: "app", app: "demo", propDefinitions: {}, methods: {} };';
/** What is no text comes along too, when the code names it. */
const common =
  'import mark from "./mark.bin" with { type: "bytes" }; export const said = (text) => Buffer.from(mark.slice(2)).toString() + text;';
const mark = Buffer.from('\xff\0said ', 'latin1');
const broken = 'export default { key: "demo-broken", ';
const action =
  'export default { key: "demo-greet", name: "Greet", version: "0.0.1", type: "action", props: { who: { type: "string" } },\n' +
  '  run() { return "hello " + this.who; } };';

/** Six times as long as JSON, and without the repetitions that would make a small archive. */
function controlCharacters(length: number): string {
  const bytes = Buffer.alloc(length);
  for (let at = 0, state = 1; at < length; at += 1) {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    bytes[at] = 1 + (Math.floor(state / 65_536) % 7);
  }
  return bytes.toString('latin1');
}

/** What a publisher might do to a user who adds the package. */
const hostile = [
  {
    name: 'hostile-paths',
    version: '1.0.0',
    files: {
      'actions/a/a.mjs': 'export default {}',
      '../../actions/out/out.mjs': action,
      'link.mjs': '-> /etc/passwd',
    },
    moreFiles: [
      ['./actions//a/a.mjs', action],
      [
        'actions/nul/nul.mjs',
        'export default { key: "hostile-nul", name: "a\\0b", version: "1\\0", type: "action", run() {} };',
      ],
    ] as const,
  },
  {
    name: 'hostile-text',
    version: '1.0.0',
    files: { 'a.txt': controlCharacters(15 * 1024 * 1024), 'actions/a/a.mjs': action },
  },
  {
    name: 'hostile-bomb',
    version: '1.0.0',
    files: { 'a.txt': ' '.repeat(20 * 1024 * 1024), 'actions/a/a.mjs': action },
  },
  {
    name: 'hostile-message',
    version: '1.0.0',
    files: { 'actions/a/a.mjs': `export default { a ${'b'.repeat(1024 * 1024)} }` },
  },
];

const packageOf = (version: string, name = '@demo/components') => ({
  name,
  version,
  files: {
    'demo.app.mjs': app,
    'common/said.mjs': common,
    'common/mark.bin': mark,
    'pages/picture.png': mark,
    'sources/tick/tick.mjs': source(version, version),
    'actions/greet/greet.mjs': action,
    'actions/broken/broken.mjs': broken,
  },
});

/** Adding a package as a whole is a promise of each store; the rest runs on one of them, in turns. */
const stores = storesOfStory(import.meta.filename, process.env[turnVariable]);

for (const dialect of ['sqlite', 'postgres'] as const) {
  describe(`the registry of components, on ${dialect}`, {
    skip: dialect === 'postgres' && postgresSkip(),
  }, () => {
    let folder: TempFolder;
    let database: TestDatabase | undefined;
    let npm: Awaited<ReturnType<typeof startNpmRegistry>>;
    let service: Millrace;
    /** '' is the one npm is configured with. */
    let registry = '';
    const held = [
      packageOf('1.0.0'),
      packageOf('1.2.0', '@demo/killed'),
      ...hostile,
      { name: 'plain', version: '1.0.0', files: { 'index.js': 'module.exports = 1' } },
      { name: 'never-comes', version: '1.0.0', neverComes: true },
      {
        name: 'native',
        version: '1.0.0',
        files: {
          // The error of the addon is hidden from code that loads the package.
          'index.js':
            "try { exports.v = require('./a.node').start(); } catch { throw new Error('could not start'); }",
          'a.node': Buffer.from([0]),
        },
      },
    ];

    const start = async () => {
      service = await Millrace.start({
        dataFolder: join(folder.path, 'data'),
        ...(database === undefined ? {} : { databaseUrl: database.url }),
        // The log then has the processes that build components.
        environment: {
          MILLRACE_NPM_REGISTRY: registry,
          MILLRACE_LOG_LEVEL: 'debug',
          MILLRACE_NATIVE_ADDONS: 'refuse',
        },
      });
    };
    /** `npm run millrace -- …` without npm. */
    const command = (...args: string[]) =>
      new Promise<{ code: number; stdout: string; stderr: string }>((resolve) => {
        const env = {
          ...process.env,
          INIT_CWD: folder.path,
          MILLRACE_DATA: join(folder.path, 'data'),
          MILLRACE_DATABASE_URL: database?.url ?? '',
          MILLRACE_NPM_REGISTRY: registry,
        };
        execFile(process.execPath, [adminFile, ...args], { env }, (error, stdout, stderr) =>
          resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr }),
        );
      });
    /** While the service is stopped, where it has to be. */
    const administer = async (work: () => Promise<void>) => {
      if (dialect === 'sqlite') await service.stop();
      await work();
      if (dialect === 'sqlite') await start();
    };
    const add = (body: Record<string, unknown>) => service.api('POST', '/v1/registry/packages', body);
    const listed = async () => {
      const { body } = await service.api('GET', '/v1/registry/packages?limit=100');
      return body.data.map((one: { name: string; version: string }) => `${one.name}@${one.version}`).sort();
    };
    const emits = async (made: { id: string; configured_props: { http: { endpoint_url: string } } }) => {
      // Its port is another one after a restart.
      const { pathname } = new URL(made.configured_props.http.endpoint_url);
      await fetch(`${service.url}${pathname}`, { method: 'POST', body: '{}' });
      const [first] = await waitFor(async () => {
        const events = await service.events(made.id);
        return events.length > 0 && events;
      });
      return first.event;
    };

    before(async () => {
      folder = await createTempFolder('registry');
      await shareNpmCache(join(folder.path, 'data'));
      npm = await startNpmRegistry(() => held);
      if (dialect === 'postgres') database = await borrowTestDatabase();
      if (!stores.includes(dialect)) registry = npm.url;
      await start();
    });

    after(async () => {
      await service?.stop();
      await npm?.close();
      await database?.drop();
      await folder?.remove();
    });

    if (stores.includes(dialect)) {
      test('published packages are added, searched, listed, and run by key and version', async () => {
        const slack = await add({ name: '@pipedream/slack', version: '0.10.3' });
        assert.equal(slack.status, 200, JSON.stringify(slack.body));
        const { kind, name, version, integrity, apps, keys, problems } = slack.body.data;
        assert.deepEqual(
          [kind, name, version, apps, problems],
          ['npm', '@pipedream/slack', '0.10.3', ['slack'], []],
        );
        assert.match(integrity, /^sha512-/);
        assert.ok(keys.length > 30, `${keys.length} keys`);
        assert.deepEqual(
          keys.find(({ key }: { key: string }) => key === 'slack-send-message'),
          { key: 'slack-send-message', version: '0.0.20', type: 'action' },
        );
        const again = await add({ name: '@pipedream/slack', version: '0.10.3' });
        assert.equal(again.body.data.id, slack.body.data.id, 'what is there is answered as it is');
        const helpers = await add({ name: '@pipedream/helper_functions', version: '0.3.13' });
        assert.equal(helpers.status, 200, JSON.stringify(helpers.body));

        const search = await service.api(
          'GET',
          '/v1/components/search?query=send%20message&app=slack&limit=5',
        );
        assert.equal(search.body.actions[0], 'slack-send-message');
        assert.deepEqual(Object.keys(search.body), ['sources', 'actions']);
        assert.ok(search.body.actions.length <= 5);
        const exact = await service.api(
          'GET',
          '/v1/components/search?query=slack-send-message&similarity_threshold=1',
        );
        assert.deepEqual(exact.body, { sources: [], actions: ['slack-send-message'] });
        const first = (await service.api('GET', '/v1/components?app=slack&component_type=trigger&limit=1'))
          .body;
        assert.ok(first.page_info.total_count > 1);
        const { end_cursor } = first.page_info;
        const next = await service.api(
          'GET',
          `/v1/components?app=slack&type=source&limit=1&after=${end_cursor}`,
        );
        assert.deepEqual(
          [first.data[0].type, next.body.data[0].app, first.data[0].package.name],
          ['source', 'slack', '@pipedream/slack'],
        );
        assert.ok(first.data[0].key < next.body.data[0].key);
        const all = (await service.api('GET', '/v1/components?app=rss&type=source')).body.data;
        assert.deepEqual(
          [all[0].key, all[0].package],
          ['rss-new-item-in-feed', null],
          'what ships is there too',
        );
        const [shown] = first.data;
        assert.deepEqual(
          [shown.app, shown.app_details.name, shown.app_details.auth_type],
          ['slack', 'Slack', 'oauth'],
          'with what the catalogue of apps knows',
        );
        const withTriggers = await service.api(
          'GET',
          '/v1/apps?has_triggers=1&has_actions=1&q=slack&limit=100',
        );
        assert.ok(withTriggers.body.data.some((one: { name_slug: string }) => one.name_slug === 'slack'));

        const key = 'helper_functions-base64-decode-string';
        const found = await service.api('GET', `/v1/components/registry/${key}`);
        assert.equal(found.status, 200, JSON.stringify(found.body));
        assert.equal(found.body.data.type, 'action');
        const { app, app_details } = found.body.data;
        assert.deepEqual([app, app_details], ['helper_functions', null], 'its app is not in the catalogue');
        for (const path of [
          `/v1/components/${key}`,
          `/v1/components/${key}@${found.body.data.version}`,
          `/v1/components/registry/${key}@${found.body.data.version}`,
        ]) {
          assert.equal((await service.api('GET', path)).body.data.id, found.body.data.id, path);
        }
        const step = (component: string) => ({ namespace: 'decode', component, props: { data: 'aGVsbG8=' } });
        const workflow = await service.createWorkflow({
          steps: [step(`${key}@${found.body.data.version}`)],
          triggers: [{ type: 'http' }],
        });
        await fetch(workflow.triggers[0].endpoint_url, { method: 'POST', body: '{}' });
        const run = await service.runInState(workflow.id, 'succeeded', 'failed');
        assert.equal(run.steps[0].exports.data, 'hello', JSON.stringify(run.steps[0]));
        const unknown = await service.api('POST', '/v1/workflows', {
          settings: { name: 'unknown' },
          steps: [step(`${key}@9.9.9`)],
          triggers: [],
        });
        assert.equal(unknown.status, 400, JSON.stringify(unknown.body));
        assert.match(unknown.body.error, /there is version "0\.1\.1"/);
      });

      test('only the admin of the instance sees and changes packages; what is no package is said', async () => {
        const { body } = await service.api('POST', '/v1/users', {
          username: 'bob',
          email: 'bob@example.com',
        });
        const bob = { key: body.data.api_key };
        for (const [method, path, payload] of [
          ['POST', '/v1/registry/packages', { name: 'x' }],
          ['GET', '/v1/registry/packages', undefined],
          ['DELETE', '/v1/registry/packages?name=x', undefined],
        ] as const) {
          assert.equal((await service.api(method, path, payload, bob)).body.code, 'forbidden');
        }
        for (const [payload, status, code] of [
          [{}, 400, 'missing_parameter'],
          [{ name: './folder' }, 400, 'unsupported_specifier'],
          [{ name: '/etc' }, 400, 'unsupported_specifier'],
          [{ name: 'x', version: 'file:../x' }, 400, 'unsupported_specifier'],
          [{ name: 'x', version: 'git+https://example.com/x.git' }, 400, 'unsupported_specifier'],
          [{ name: 'x', folder: '/etc' }, 400, 'unknown_parameter'],
        ] as const) {
          const answer = await add(payload);
          assert.deepEqual(
            [answer.status, answer.body.code],
            [status, code],
            JSON.stringify([payload, answer.body]),
          );
        }
        const removed = await service.api('DELETE', '/v1/registry/packages?name=@no/such');
        assert.deepEqual([removed.status, removed.body.code], [404, 'not_found']);
      });

      test('two versions stand side by side, an update adds the newest, and what was built outlives its package', async () => {
        registry = npm.url;
        await service.stop();
        await start();
        const before = await listed();
        for (const [payload, status, code] of [
          [{ name: 'missing' }, 400, 'package_not_found'],
          [{ name: '@demo/components', version: '9.9.9' }, 400, 'package_not_found'],
          [{ name: 'plain' }, 400, 'no_components'],
        ] as const) {
          const answer = await add(payload);
          assert.deepEqual([answer.status, answer.body.code], [status, code], JSON.stringify(answer.body));
        }
        for (const [name, expected] of [
          ['hostile-text', 'a file of the package is too large to be read'],
          ['hostile-bomb', 'the package cannot be unpacked: '],
          [
            'hostile-message',
            'hostile-message has no components in folders actions or sources: actions/a/a.mjs: the file',
          ],
        ] as const) {
          const { status, body } = await add({ name });
          assert.deepEqual([status, body.error?.slice(0, expected.length)], [400, expected]);
          assert.ok(JSON.stringify(body).length < 2000, 'what is said of a text does not repeat it');
        }
        assert.deepEqual(await listed(), before, 'nothing is added by halves');
        const paths = await add({ name: 'hostile-paths' });
        assert.equal(paths.status, 200, JSON.stringify(paths.body));
        assert.deepEqual(
          paths.body.data.keys.map(({ key, version }: { key: string; version: string }) => [key, version]),
          [
            ['demo-greet', '0.0.1'],
            ['hostile-nul', '1'],
          ],
          'of files with one path the last counts, and nothing lies outside',
        );
        const built = await service.api('GET', '/v1/components/registry/hostile-nul');
        assert.deepEqual([built.status, built.body.data?.name], [200, 'ab'], JSON.stringify(built.body));
        assert.equal((await service.api('DELETE', '/v1/registry/packages?name=hostile-paths')).status, 204);
        const one = await add({ name: '@demo/components' });
        assert.equal(one.status, 200, JSON.stringify(one.body));
        assert.deepEqual(
          one.body.data.problems.map(({ path, message }: { path: string; message: string }) => [
            path,
            message.slice(0, 23),
          ]),
          [['actions/broken/broken.mjs', 'the file does not parse']],
        );
        const old = await service.createSource({ key: 'demo-tick', name: 'old' });
        assert.deepEqual(await emits(old), { says: 'said 1.0.0', app: 'demo' });

        await npm.close();
        const down = await add({ name: '@demo/components' });
        assert.deepEqual([down.status, down.body.code], [503, 'registry_unreachable']);
        npm = await startNpmRegistry(() => [...held, packageOf('1.1.0')]);
        registry = npm.url;
        await service.stop();
        const updated = await command('registry', 'update', '@demo/components', '--json');
        assert.equal(updated.code, 0, updated.stderr);
        assert.equal(JSON.parse(updated.stdout)[0].version, '1.1.0');
        await start();
        assert.deepEqual(
          await listed(),
          [...before, '@demo/components@1.0.0', '@demo/components@1.1.0'].sort(),
        );
        const fresh = await service.createSource({ key: 'demo-tick', name: 'fresh' });
        assert.deepEqual(await emits(fresh), { says: 'said 1.1.0', app: 'demo' });
        const pinned = await service.createSource({ key: 'demo-tick@1.0.0', name: 'pinned' });
        assert.deepEqual(await emits(pinned), { says: 'said 1.0.0', app: 'demo' });

        const removed = await service.api('DELETE', '/v1/registry/packages?name=@demo/components');
        assert.equal(removed.status, 204);
        assert.deepEqual(await listed(), before);
        const gone = await service.api('POST', '/v1/sources', { key: 'demo-tick' });
        assert.deepEqual([gone.status, gone.body.code], [404, 'not_found']);
        const kept = await service.createSource({ key: 'demo-tick@1.0.0', name: 'kept' });
        assert.deepEqual(await emits(kept), { says: 'said 1.0.0', app: 'demo' });
        assert.equal((await emits(fresh)).says, 'said 1.1.0');
      });

      test('a checkout is added by the command line, read again by an update, and removed', async () => {
        const files = {
          'components/demo/demo.app.mjs': app,
          'components/demo/common/said.mjs': common,
          'components/demo/common/mark.bin': mark,
          'components/demo/package.json': '{"name":"@pipedream/demo","version":"0.0.1"}',
          'components/demo/sources/tick/tick.mjs': source('0.1.0', 'folder'),
          'components/demo/actions/broken/broken.mjs': broken,
          'components/other/actions/greet/greet.mjs': action,
        };
        for (const [path, text] of Object.entries(files)) {
          await mkdir(join(folder.path, 'checkout', dirname(path)), { recursive: true });
          await writeFile(join(folder.path, 'checkout', path), text);
        }
        await symlink('/etc', join(folder.path, 'checkout', 'components', 'linked'));
        for (const [args, complaint] of [
          [['registry', 'add'], /registry add needs/],
          [['registry', 'list', 'x'], /found "list x", expected add or list or update or remove/],
        ] as const) {
          const ended = await command(...args);
          assert.equal(ended.code, 2, ended.stderr);
          assert.match(ended.stderr, complaint);
        }
        await administer(async () => {
          const missing = await command('registry', 'add', './nowhere');
          assert.deepEqual([missing.code, /there is no folder .*nowhere/.test(missing.stderr)], [1, true]);
          const added = await command('registry', 'add', './checkout');
          assert.equal(added.code, 0, added.stderr);
          assert.match(added.stdout, /checkout@[0-9a-f]{12}: 2 components, 1 app\n/);
          assert.match(added.stdout, / {2}demo-tick@0\.1\.0 {2}source\n/);
          assert.match(
            added.stdout,
            /1 file left out:\n {2}components\/demo\/actions\/broken\/broken\.mjs: the file does not/,
          );
        });
        const made = await service.createSource({ key: 'demo-tick', name: 'from a folder' });
        assert.deepEqual(await emits(made), { says: 'said folder', app: 'demo' });

        const tick = join(folder.path, 'checkout/components/demo/sources/tick/tick.mjs');
        await writeFile(tick, source('0.1.0', 'changed'));
        await rm(join(folder.path, 'checkout/components/other'), { recursive: true });
        await administer(async () => {
          const updated = await command('registry', 'update', './checkout', '--json');
          assert.equal(updated.code, 0, updated.stderr);
        });
        const changed = await service.createSource({ key: 'demo-tick', name: 'changed' });
        assert.deepEqual(await emits(changed), { says: 'said changed', app: 'demo' });
        assert.equal((await service.api('GET', '/v1/components/demo-greet')).status, 404);
        await administer(async () => {
          const list = await command('registry', 'list');
          assert.match(list.stdout, /checkout@[0-9a-f]{12} {2}1 component {2}1 file left out/);
          const removed = await command('registry', 'remove', join(folder.path, 'checkout'));
          assert.equal(removed.code, 0, removed.stderr);
        });
        assert.equal((await service.api('GET', '/v1/components/demo-tick')).status, 404);
        assert.equal((await emits(made)).says, 'said folder');
      });
    }

    test('a service that is killed while it adds a package has it whole or not at all, and adds it after', async () => {
      if (registry !== npm.url) {
        registry = npm.url;
        await service.stop();
        await start();
      }
      const asked = npm.requests().length;
      const adding = add({ name: '@demo/killed' }).catch(() => undefined);
      await waitFor(() => npm.requests().length > asked, { what: 'the package to be asked for' });
      await service.kill();
      await adding;
      await start();
      const found = (await service.api('GET', '/v1/registry/packages?limit=100')).body.data.filter(
        ({ name }: { name: string }) => name === '@demo/killed',
      );
      for (const one of found) assert.equal(one.keys.length, 2);
      const added = await add({ name: '@demo/killed' });
      assert.equal(added.status, 200, JSON.stringify(added.body));
      assert.equal(added.body.data.keys.length, 2);
      await service.api('DELETE', '/v1/registry/packages?name=@demo/killed');
    });

    const using = (name: string) => ({
      component_code: `import v from "${name}"; export default { key: "using-${name}", name: "x", version: "0.0.1", type: "action", props: {}, run() { return v; } };`,
    });
    // Nothing of it is a matter of the store.
    if (dialect === 'sqlite') {
      test('a package that does nothing without its native addon is refused, with the setting that allows it', async () => {
        const { status, body } = await service.api('POST', '/v1/components', using('native'));
        assert.deepEqual(
          [status, body.code, body.details.parameter],
          [400, 'native_addon', 'component_code'],
        );
        assert.match(body.error, /^component_code: .*could not start.*"native" needs a native addon/);
        assert.match(
          body.error,
          /refused here: they need the kernel level of the sandbox, or MILLRACE_NATIVE_ADDONS=allow\)$/,
        );
      });

      test('a build whose process ends is to be tried again, and then works', async () => {
        const building = service.api('POST', '/v1/components', using('never-comes'));
        await waitFor(() => npm.requests().some((path) => path.includes('never-comes/-/')));
        const starts = [...service.output.matchAll(/"program":"installer[^"]*","child":(\d+)/g)];
        process.kill(Number(starts.at(-1)?.[1]), 'SIGKILL');
        const { status, headers, body } = await building;
        assert.deepEqual([status, body.code, headers.get('retry-after')], [503, 'build_failed', '5']);
        assert.equal(body.error, 'the process that builds components ended early');
        assert.equal((await service.api('POST', '/v1/components', using('plain'))).status, 200);
      });
    }
  });
}
