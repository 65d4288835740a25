import assert from 'node:assert/strict';
import { appendFile, mkdir, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { type Ended, RunningCommand, runCommand } from '../support/command-line.ts';
import { MeddlingProxy } from '../support/meddling-proxy.ts';
import { forEachSharedService } from '../support/millrace.ts';
import { createTempFolder, type TempFolder } from '../support/temp-folder.ts';

/** Workflows leave as files and come back: `millrace export`, `pull`, `diff` and `push`, on a real service. */

const codeOf = (text: string): string =>
  `export default defineComponent({ async run({ steps, $ }) { return ${JSON.stringify(text)}; } });\n`;

/** A component whose props take every kind of value. */
const oddCode = `export default defineComponent({
  props: {
    text: { type: 'string', optional: true },
    list: { type: 'string[]', optional: true },
    any: { type: 'any', optional: true },
    whole: { type: 'object', optional: true },
    flag: { type: 'boolean', optional: true },
    number: { type: 'integer', optional: true },
    store: { type: 'data_store', optional: true },
    slack: { type: 'app', app: 'openai', optional: true },
    key: { type: 'string', secret: true, optional: true },
    request: { type: 'http_request', optional: true },
  },
  async run() { return this.text; },
});
`;

const oddTexts = {
  yes: 'Yes',
  no: 'no',
  octal: '0777',
  time: '12:30',
  nothing: '',
  none: 'null',
  tilde: '~',
  number: '1e3',
  expression: '{{steps.trigger.event.body.a}}',
  folded: `${'word '.repeat(60)}end`,
  windows: 'a\r\nb\r\n',
  trailing: 'a  \nb \n',
  leading: '  a\n b',
  tab: '\ta\tb',
  lines: 'a\n\n\nb\n\n',
  emoji: 'é 😀 👩‍💻',
  hash: '# no comment',
  dash: '- a',
  quote: `'"\\`,
  colon: 'a: b',
  separator: 'a\u2028b\u0085c\ufeff',
  template: '`$' + '{1}`',
};

const sourceCode = `export default {
  key: 'rows', name: 'Rows', version: '0.0.1',
  props: { http: '$.interface.http', timer: { type: '$.interface.timer', default: { intervalSeconds: 3600 } },
    sheet: { type: 'string' }, token: { type: 'string', secret: true, optional: true } },
  async run(event) { this.$emit({ sheet: this.sheet, event }); },
};
`;

forEachSharedService((fixture) => {
  let folder: TempFolder;
  let staging: string;
  let production: string;
  let made = 0;

  before(async () => {
    folder = await createTempFolder('workflows-as-files');
  });
  after(() => folder.remove());

  const api = async (method: string, path: string, body?: unknown) => {
    const answer = await fixture.service.api(method, path, body);
    assert.ok(answer.status < 300, `${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body?.data;
  };
  const run = (...words: string[]): Promise<Ended> =>
    runCommand(
      {
        folder: folder.path,
        environment: {
          MILLRACE_URL: fixture.service.url,
          MILLRACE_API_KEY: fixture.service.key,
          MILLRACE_SECRET_KEY: 'k-production',
          MILLRACE_SECRET_HOOK: 'hook-production',
        },
      },
      words,
    );
  const ok = async (...words: string[]): Promise<Ended> => {
    const ended = await run(...words);
    assert.equal(ended.code, 0, `millrace ${words.join(' ')}\n${ended.stderr}${ended.stdout}`);
    return ended;
  };
  const fails = async (code: number, ...words: string[]): Promise<Ended> => {
    const ended = await run(...words);
    assert.equal(ended.code, code, `millrace ${words.join(' ')}\n${ended.stderr}${ended.stdout}`);
    return ended;
  };
  const at = (...parts: string[]): string => join(folder.path, ...parts);
  /** Every file below a folder, by its path. */
  const filesIn = async (name: string): Promise<Record<string, string>> => {
    const entries = await readdir(at(name), { recursive: true, withFileTypes: true });
    const paths = entries
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name));
    const texts = await Promise.all(
      paths
        .toSorted()
        .map(async (path) => [path.slice(at(name).length + 1), await readFile(path, 'utf8')] as const),
    );
    return Object.fromEntries(texts);
  };
  const workspaces = async (): Promise<void> => {
    made += 1;
    staging = (await api('POST', '/v1/workspaces', { name: `Staging ${made}` })).id;
    production = (await api('POST', '/v1/workspaces', { name: `Production ${made}` })).id;
  };
  const workflowFolder = async (name: string, slug: string): Promise<string> => {
    const found = (await readdir(at(name))).find((one) => one.startsWith(`${slug}-p_`));
    assert.ok(found, `${slug} in ${await readdir(at(name))}`);
    return found;
  };

  /** Every kind of block, trigger, setting and value. */
  const makeEverything = async () => {
    const store = await api('POST', '/v1/data_stores', { org_id: staging, name: 'cache' });
    const account = await api('POST', '/v1/accounts', {
      org_id: staging,
      app: 'openai',
      name: 'Team key',
      credentials: { api_key: 'sk-staging' },
    });
    const source = await api('POST', '/v1/sources', {
      org_id: staging,
      name: 'New rows',
      component_code: sourceCode,
      configured_props: { sheet: 'A', token: 'sealed-source' },
    });
    const listed = await api('POST', '/v1/sources', {
      org_id: staging,
      name: 'Hook',
      key: 'http-new-requests',
      concurrency: 4,
      isolated: true,
    });
    await api('PUT', `/v1/sources/${listed.id}`, { active: false });
    const saved = await api('POST', '/v1/components', {
      org_id: staging,
      component_code:
        "export default { key: 'mine', name: 'Mine', version: '0.1.0', type: 'action', props: {}, async run() { return 1; } };",
    });
    const called = await api('POST', '/v1/workflows', {
      org_id: staging,
      settings: { name: 'Called' },
      steps: [{ namespace: 'only', code: codeOf('called') }],
    });
    const everything = await api('POST', '/v1/workflows', {
      org_id: staging,
      settings: {
        name: 'Everything: Übung_1',
        auto_deploy: true,
        timeout_seconds: 40,
        memory_mb: 512,
        auto_retry: true,
        queue_size: 7,
        isolated: true,
        flow_control: { concurrency: { limit: 2, key: '{{steps.trigger.event.body.id}}' }, priority: 5 },
      },
      triggers: [
        { type: 'http', props: {} },
        { type: 'http', props: { auth: { type: 'static_bearer_token', token: 'sealed-token-1' } } },
        { type: 'timer', props: { cron: '0 9 * * 1', timezone: 'Europe/Berlin' } },
        { type: 'timer', props: { interval_seconds: 86_400 } },
        { type: 'email', props: {} },
        { type: 'source', props: { source_id: source.id } },
      ],
      steps: [
        {
          namespace: 'odd',
          code: oddCode,
          note: '**Odd** values\n\nwith lines  \n',
          timeout_seconds: 20,
          retries: { times: 2, seconds: 5 },
          props: {
            text: '{{steps.trigger.event}}',
            list: Object.values(oddTexts),
            any: { __lv: { label: 'Sheet', value: 's1' } },
            whole: oddTexts,
            flag: false,
            number: 7,
            store: store.id,
            slack: { authProvisionId: account.id },
            key: 'sealed-step',
            request: {
              method: 'POST',
              url: 'https://example.com',
              auth: { type: 'basic', username: 'ada', password: 'in-clear' },
              headers: [
                { name: 'x-api-key', value: 'clear-too' },
                { name: 'a', value: 'b' },
                { name: 'Authorization', value: 'Bearer {{process.env.TOKEN}}' },
              ],
            },
          },
        },
        {
          namespace: 'off',
          component: 'formatting-trim-whitespace',
          disabled: true,
          props: { input: ' a ' },
        },
        {
          namespace: 'choose',
          block: 'if',
          on_error: 'branch',
          branches: [
            {
              slug: 'big',
              if: '{{steps.trigger.event.body.n > 5}}',
              steps: [{ namespace: 'big', code: codeOf('big') }],
            },
            {
              slug: 'all',
              if: { all: [{ value: '{{1}}', condition: 'EQUALS', second_value: 1 }, { not: '{{false}}' }] },
              steps: [],
            },
            {
              slug: 'else',
              steps: [
                {
                  namespace: 'leave',
                  block: 'filter',
                  if: { value: '{{2}}', condition: 'GREATER_THAN', second_value: 1 },
                  otherwise: 'leave',
                  reason: 'No',
                },
              ],
            },
          ],
          error_steps: [{ namespace: 'failed', code: codeOf('failed') }],
        },
        {
          namespace: 'by',
          block: 'switch',
          value: '{{steps.odd}}',
          branches: [
            { slug: 'yes', case: 'Yes', steps: [{ namespace: 'wait', block: 'delay', seconds: 1 }] },
            { slug: 'other', steps: [] },
          ],
        },
        {
          namespace: 'both',
          block: 'parallel',
          on_error: 'continue',
          branches: [
            { slug: 'a', steps: [{ namespace: 'pa', code: codeOf('a') }] },
            { slug: 'b', if: '{{true}}', steps: [] },
          ],
        },
        {
          namespace: 'each',
          block: 'map',
          items: '{{[1, 2]}}',
          concurrency: 3,
          steps: [{ namespace: 'other', block: 'call', workflow: called.id, event: { a: '{{1}}' } }],
        },
        {
          namespace: 'windows',
          code: "export default defineComponent({ run() {\r\n  return '\t😀';\r\n} })\r\n// no line end  ",
        },
        { namespace: 'own', component: saved.id },
        { namespace: 'stop', block: 'end', reason: 'Enough' },
      ],
    });
    const webhook = await api('POST', '/v1/webhooks', {
      org_id: staging,
      name: 'Ops',
      url: 'https://example.com/hook',
    });
    await api('POST', '/v1/subscriptions', {
      org_id: staging,
      emitter_id: source.id,
      listener_id: webhook.id,
    });
    await api('POST', '/v1/subscriptions', {
      org_id: staging,
      emitter_id: everything.id,
      listener_id: webhook.id,
      event_name: '$errors',
    });
    await api('POST', '/v1/auto_subscriptions', {
      org_id: staging,
      listener_id: webhook.id,
      event_name: '$errors',
    });
    await api('POST', '/v1/subscriptions', {
      org_id: staging,
      emitter_id: staging,
      listener_id: webhook.id,
      event_name: 'audit',
    });
    await api('PUT', '/v1/variables/TOKEN', {
      org_id: staging,
      value: 'sealed-variable',
      secret: true,
      description: 'of the shop',
    });
    return { store, account, source, called, everything, webhook };
  };

  test('a workspace is exported without secrets, the same way each time, and a folder deploys it to another environment', async () => {
    await workspaces();
    const { account, store } = await makeEverything();
    const first = await ok('export', '--workspace', staging, 'one', '--env', 'staging');
    assert.match(first.stderr, /odd\.request\.auth\.password: a secret stands in clear/);
    assert.match(first.stderr, /odd\.request\.headers\[0\]\.value: a secret/);
    await ok('export', '--workspace', staging, 'two', '--env', 'staging');
    const one = await filesIn('one');
    assert.deepEqual(one, await filesIn('two'));
    const whole = JSON.stringify(one);
    for (const secret of [
      'sealed-token-1',
      'sealed-step',
      'sealed-source',
      'sealed-variable',
      'in-clear',
      'clear-too',
      'sk-staging',
      'whsec_',
    ])
      assert.ok(!whole.includes(secret), `${secret} is in the export`);
    const name = await workflowFolder('one', 'everything-ubung_1');
    assert.deepEqual(
      Object.keys(one)
        .filter((path) => path.startsWith(name))
        .toSorted(),
      [
        `${name}/.workflow.state`,
        ...['big', 'failed', 'odd', 'own', 'pa', 'windows'].map((step) => `${name}/${step}/entry.js`),
        `${name}/workflow.yaml`,
      ],
    );
    // Readers of YAML 1.1 take these for text too, and a reviewer sees what is invisible.
    const yaml = one[`${name}/workflow.yaml`] ?? '';
    for (const text of [
      '"Yes"',
      '"no"',
      '"0777"',
      '"12:30"',
      String.raw`"a\r\nb\r\n"`,
      String.raw`"a\u2028b\u0085c\ufeff"`,
    ])
      assert.ok(yaml.includes(`- ${text}\n`), text);
    assert.match(one['millrace.yaml'] ?? '', new RegExp(`openai/team-key: ${account.id}`));
    assert.match(one['millrace.yaml'] ?? '', new RegExp(`cache: ${store.id}`));
    const hook = Object.entries(one).find(([path]) => path.startsWith('sources/hook-'))?.[1] ?? '';
    assert.match(hook, /^name: Hook\ninactive: true\nuses: http-new-requests@\d/m);
    assert.match(hook, /^concurrency: 4\nisolated: true$/m);
    assert.match(one['variables.yaml'] ?? '', /name: TOKEN\n {4}secret: true\n {4}description: of the shop/);
    assert.match(
      one['subscriptions.yaml'] ?? '',
      /emitter: new\n {4}listener: webhooks\/ops-wh_\w+\n {4}channel: \$errors/,
    );
    assert.match(
      one['subscriptions.yaml'] ?? '',
      /emitter: "\*"\n {4}listener: webhooks\/ops-wh_\w+\n {4}channel: audit/,
    );
    assert.equal((await ok('diff', 'one')).stdout, '');

    // Another environment: the account is found by its name, secrets come from variables.
    await api('POST', '/v1/accounts', {
      org_id: production,
      app: 'openai',
      name: 'Team key',
      credentials: { api_key: 'sk-production' },
    });
    const config = at('one', 'millrace.yaml');
    await appendFile(
      config,
      `  production:\n    url: ${fixture.service.url}\n    workspace: ${production}\n`,
    );
    const refused = await fails(1, 'push', 'one', '--env', 'production');
    assert.match(refused.stderr, /odd\.key: it has no value/);
    assert.match(refused.stderr, /Nothing was changed/);
    assert.equal((await api('GET', `/v1/workspaces/${production}/workflows`)).length, 0);
    const bearer = /id: (hi_\w+)\n {4}type: http\n {4}auth: static_bearer_token/.exec(
      one[`${name}/workflow.yaml`] ?? '',
    )?.[1];
    const source = (await readdir(at('one', 'sources'))).find((path) => path.startsWith('new-rows'));
    await appendFile(
      config,
      `    secrets:\n      ${name}/odd.key: MILLRACE_SECRET_KEY\n      ${name}/odd.request.auth.password: MILLRACE_SECRET_KEY\n` +
        `      ${name}/odd.request.headers[0].value: MILLRACE_SECRET_KEY\n      ${name}/${bearer}.token: MILLRACE_SECRET_HOOK\n` +
        `      sources/${source}/props.token: MILLRACE_SECRET_KEY\n`,
    );
    const pushed = await ok('push', 'one', '--env', 'production');
    assert.match(pushed.stdout, /created the data store cache/);
    assert.match(pushed.stderr, /reads variables that are not set: TOKEN/);
    await api('PUT', '/v1/variables/TOKEN', {
      org_id: production,
      value: 'v',
      secret: true,
      description: 'of the shop',
    });
    const after = await filesIn('one');
    delete one['millrace.yaml'];
    delete after['millrace.yaml'];
    assert.deepEqual(after, one, 'a push changed files');
    await ok('pull', 'one', '--env', 'production');
    await ok('pull', 'one', '--env', 'staging');
    const pulled = await filesIn('one');
    delete pulled['millrace.yaml'];
    assert.deepEqual(pulled, one, 'a pull after a push changed files');
    for (const environment of ['staging', 'production'])
      assert.equal((await ok('diff', 'one', '--env', environment)).stdout, '', environment);
    // Not only the same files: the folder is written again from what the other environment has.
    for (const path of Object.keys(one)) if (/yaml$|entry\.js$/.test(path)) await rm(at('one', path));
    await ok('pull', 'one', '--env', 'production', '--force');
    const fresh = await filesIn('one');
    delete fresh['millrace.yaml'];
    assert.deepEqual(fresh, one, 'written again, the files differ');
  });

  test('diff lists what a push changes, and push refuses what was changed on the service since the last pull', async () => {
    await workspaces();
    const { id } = await api('POST', '/v1/workflows', {
      org_id: staging,
      settings: { name: 'Orders', auto_deploy: true },
      triggers: [
        { type: 'timer', props: { interval_seconds: 86_400 } },
        { type: 'http', props: {} },
      ],
      steps: [
        { namespace: 'first', code: codeOf('first') },
        {
          namespace: 'get',
          component: 'http-get-request',
          props: { httpRequest: { url: 'https://example.com' } },
        },
        { namespace: 'last', code: codeOf('last') },
      ],
    });
    await ok('export', '--workspace', staging, 'orders');
    const name = await workflowFolder('orders', 'orders');
    const file = at('orders', name, 'workflow.yaml');
    const edit = async (change: (text: string) => string): Promise<void> => {
      const text = await readFile(file, 'utf8');
      assert.notEqual(change(text), text);
      await writeFile(file, change(text));
    };
    const before = await api('GET', `/v1/workflows/${id}`);
    await writeFile(at('orders', name, 'first', 'entry.js'), codeOf('second'));
    // A comment and another layout change nothing.
    await edit(
      (text) =>
        `# Reviewed by ops.\n${text.replace('https://example.com', 'https://example.org').replace('steps:', 'inactive: true\nsettings: {concurrency: 1}\nsteps:')}`,
    );
    const shown = await fails(1, 'diff', 'orders');
    assert.match(shown.stdout, new RegExp(`^${name}: change`, 'm'));
    assert.match(
      shown.stdout,
      /~ steps\.get\.props\.httpRequest\.url: "https:\/\/example\.com" -> "https:\/\/example\.org"/,
    );
    assert.match(shown.stdout, /\+ inactive: true/);
    assert.match(shown.stdout, /\+ settings: \{"concurrency":1\}/);
    assert.match(
      shown.stdout,
      /~ steps\.first\.code\n {6}-export default .*"first".*\n {6}\+export default .*"second"/,
    );
    assert.equal((await api('GET', `/v1/workflows/${id}/deployments`)).length, 1, 'a diff deploys nothing');

    // One deployment has it all; triggers and their endpoint stay.
    const [plan] = JSON.parse((await fails(1, 'diff', 'orders', '--json')).stdout);
    assert.deepEqual([plan.kind, plan.name, plan.action], ['workflows', name, 'update']);
    await ok('push', 'orders');
    const deployed = await api('GET', `/v1/workflows/${id}`);
    assert.deepEqual(
      [deployed.active, deployed.settings.concurrency, deployed.triggers],
      [false, 1, before.triggers],
    );
    assert.equal((await api('GET', `/v1/workflows/${id}/deployments`)).length, 2);
    assert.match(await readFile(file, 'utf8'), /^# Reviewed by ops\.\n/);
    assert.equal((await ok('push', 'orders')).stderr, 'There is nothing to push.\n');

    // A user changes it on the service: nothing is overwritten on either side.
    await api('POST', `/v1/workflows/${id}/deployments`, { settings: { name: 'Orders by hand' } });
    await edit((text) => text.replace('https://example.org', 'https://example.net'));
    assert.match((await fails(1, 'push', 'orders')).stderr, /changed on the service since the last pull/);
    assert.match((await fails(1, 'pull', 'orders')).stderr, /changed in the folder and on the service/);
    assert.equal((await api('GET', `/v1/workflows/${id}`)).name, 'Orders by hand');
    await ok('push', 'orders', '--force');
    const forced = await api('GET', `/v1/workflows/${id}`);
    assert.equal(forced.name, 'Orders');
    assert.match(forced.steps[1].configured_props_json, /example\.net/);
    // The service alone has changed: pull brings it.
    await api('PUT', `/v1/workflows/${id}`, { name: 'Orders 2' });
    await ok('pull', 'orders');
    assert.match(await readFile(file, 'utf8'), /^name: Orders 2$/m);
    // The folder alone has changed: pull keeps it.
    await edit((text) => text.replace('Orders 2', 'Orders 3'));
    assert.match((await ok('pull', 'orders')).stderr, /changed in the folder, not pushed yet/);
    await ok('push', 'orders');
    assert.equal((await api('GET', `/v1/workflows/${id}`)).name, 'Orders 3');
  });

  test('a new folder becomes a workflow, also of several files, and what was removed is removed only with --prune', async () => {
    await workspaces();
    await api('POST', '/v1/workflows', { org_id: staging, settings: { name: 'Kept' } });
    await ok('export', '--workspace', staging, 'fresh');
    await mkdir(at('fresh', 'hello', 'greet'), { recursive: true });
    await mkdir(at('fresh', 'sources', 'rows'), { recursive: true });
    await writeFile(at('fresh', 'hello', 'greet', 'words.mjs'), "export const word = 'Hello';\n");
    await writeFile(
      at('fresh', 'hello', 'greet', 'entry.mjs'),
      "import { word } from './words.mjs';\nexport default defineComponent({ async run() { return word; } });\n",
    );
    await writeFile(
      at('fresh', 'hello', 'workflow.yaml'),
      'schema: millrace.workflow/1\nname: Hello\ntriggers: [{type: http}, {type: source, source: rows}]\nsteps:\n  - {namespace: greet, uses: ./greet/entry.mjs}\n  - {namespace: again, block: call, workflow: second}\n',
    );
    await mkdir(at('fresh', 'second'));
    await writeFile(
      at('fresh', 'second', 'workflow.yaml'),
      'schema: millrace.workflow/1\nname: Second\ninactive: true\n',
    );
    await writeFile(
      at('fresh', 'sources', 'rows', 'source.yaml'),
      'schema: millrace.source/1\nname: Rows\ninactive: true\nuses: ./entry.js\nprops: {sheet: B}\nflow_control: {throttle: {seconds: 60, limit: 5}}\n',
    );
    await writeFile(at('fresh', 'sources', 'rows', 'entry.js'), sourceCode);
    await writeFile(
      at('fresh', 'webhooks.yaml'),
      'schema: millrace.webhooks/1\nwebhooks:\n  ops: {url: "https://example.com/ops"}\n',
    );
    await writeFile(
      at('fresh', 'subscriptions.yaml'),
      'schema: millrace.subscriptions/1\nsubscriptions:\n  - {emitter: workflows/hello, listener: webhooks/ops, channel: $errors}\n',
    );
    const pushed = await ok('push', 'fresh');
    assert.match(pushed.stdout, /its endpoint: http/);
    const [source] = await api('GET', `/v1/orgs/${staging}/sources`);
    assert.deepEqual([source.active, source.configured_props.sheet], [false, 'B']);
    assert.deepEqual(source.flow_control, { throttle: { limit: 5, seconds: 60 } });
    const hello = (await api('GET', `/v1/workspaces/${staging}/workflows?q=Hello`))[0];
    assert.deepEqual(
      [hello.active, hello.triggers.map((one: { type: string }) => one.type), hello.triggers[1].id],
      [true, ['http', 'source'], source.id],
    );
    assert.match(hello.steps[0].code_raw, /word = "Hello"/);
    const subscribed = await api('GET', `/v1/workspaces/${staging}/subscriptions`);
    assert.ok(
      subscribed.some(
        (one: { emitter_id: string; event_name: string }) =>
          one.emitter_id === hello.id && one.event_name === '$errors',
      ),
    );
    assert.equal((await ok('diff', 'fresh')).stdout, '');
    assert.equal((await ok('push', 'fresh')).stderr, 'There is nothing to push.\n');

    const files = await filesIn('fresh');
    await ok('pull', 'fresh');
    assert.deepEqual(await filesIn('fresh'), files, 'a pull after a push changed files');

    // Settings and props of the source, which keeps its id.
    const sourceFile = at('fresh', 'sources', 'rows', 'source.yaml');
    await writeFile(sourceFile, (await readFile(sourceFile, 'utf8')).replace('sheet: B', 'sheet: C'));
    await ok('push', 'fresh');
    const [changed] = await api('GET', `/v1/orgs/${staging}/sources`);
    assert.deepEqual([changed.id, changed.active, changed.configured_props.sheet], [source.id, false, 'C']);
    assert.deepEqual(changed.flow_control, source.flow_control);

    const codeFile = at('fresh', 'sources', 'rows', 'entry.js');
    await writeFile(codeFile, sourceCode.replace("version: '0.0.1'", "version: '0.0.2'"));
    assert.match((await fails(1, 'diff', 'fresh')).stdout, /sources\/rows: change\n {2}~ code\n/);
    await ok('push', 'fresh');
    const [recoded] = await api('GET', `/v1/orgs/${staging}/sources`);
    assert.deepEqual([recoded.id, recoded.configured_props.sheet], [source.id, 'C']);
    assert.equal((await api('GET', `/v1/components/${recoded.component_id}`)).version, '0.0.2');

    // Without --prune nothing goes. A workflow that the folder never had stays with it, too.
    await rm(at('fresh', 'hello'), { recursive: true });
    await rm(at('fresh', 'webhooks.yaml'));
    await rm(at('fresh', 'subscriptions.yaml'));
    assert.match(
      (await ok('pull', 'fresh')).stderr,
      /webhooks\.yaml and subscriptions\.yaml: changed in the folder/,
    );
    await rm(at('fresh', 'hello'), { recursive: true, force: true });
    await api('POST', '/v1/workflows', { org_id: staging, settings: { name: 'Unknown' } });
    assert.match((await ok('push', 'fresh')).stderr, /hello: removed from the folder; --prune/);
    const names = async () =>
      (await api('GET', `/v1/workspaces/${staging}/workflows`))
        .map((one: { name: string }) => one.name)
        .toSorted();
    assert.deepEqual(await names(), ['Hello', 'Kept', 'Second', 'Unknown']);
    await ok('push', 'fresh', '--prune');
    assert.deepEqual(await names(), ['Kept', 'Second', 'Unknown']);
    assert.deepEqual(await api('GET', `/v1/workspaces/${staging}/webhooks`), []);
    // What was removed on the service leaves the folder.
    const second = (await api('GET', `/v1/workspaces/${staging}/workflows?q=Second`))[0];
    await api('DELETE', `/v1/workflows/${second.id}`);
    assert.match((await ok('pull', 'fresh')).stdout, /removed second/);
    assert.deepEqual(
      (await readdir(at('fresh'))).filter((one) => one === 'second'),
      [],
    );
  });

  test('of a project only its workflows are exported, with what they use; a source that came with a workflow goes with it', async () => {
    await workspaces();
    const project = await api('POST', `/v1/workspaces/${staging}/projects`, { name: 'Shop' });
    const component = { component_code: sourceCode, configured_props: { sheet: 'A' } };
    await api('POST', '/v1/sources', { org_id: staging, name: 'Elsewhere', ...component });
    const used = await api('POST', '/v1/sources', { org_id: staging, name: 'Used', ...component });
    await api('POST', '/v1/workflows', { org_id: staging, settings: { name: 'Outside' } });
    const inside = await api('POST', '/v1/workflows', {
      org_id: staging,
      project_id: project.id,
      settings: { name: 'Inside' },
      triggers: [
        { type: 'source', props: { source_id: used.id } },
        { type: 'source', props: { code: sourceCode, configured_props: { sheet: 'B' }, name: 'With it' } },
      ],
    });
    await api('PUT', '/v1/variables/OF_SHOP', {
      org_id: staging,
      project_id: project.id,
      value: 'plain-value',
      secret: false,
    });
    await ok('export', 'shop', '--workspace', staging, '--project', project.id);
    const files = await filesIn('shop');
    const names = Object.keys(files).flatMap(
      (path) => /^(?:sources\/)?([a-z-]+)-(?:p|dc)_\w+\/\w+\.yaml$/.exec(path)?.[1] ?? [],
    );
    assert.deepEqual(names.toSorted(), ['inside', 'used', 'with-it']);
    assert.match(files['variables.yaml'] ?? '', /name: OF_SHOP\n {4}scope: project\n/);
    assert.ok(!JSON.stringify(files).includes('plain-value'));
    await mkdir(at('shop', 'more'));
    await writeFile(at('shop', 'more', 'workflow.yaml'), 'schema: millrace.workflow/1\nname: More\n');
    await ok('push', 'shop');
    const more = (await api('GET', `/v1/workspaces/${staging}/workflows?q=More`))[0];
    assert.equal(more.project_id, project.id);
    for (const path of Object.keys(files))
      if (path.startsWith('inside') || path.startsWith('sources/with-it')) await rm(at('shop', path));
    await ok('push', 'shop', '--prune');
    assert.equal((await fixture.service.api('GET', `/v1/workflows/${inside.id}`)).status, 404);
    const left = await api('GET', `/v1/orgs/${staging}/sources`);
    assert.deepEqual(left.map((one: { name: string }) => one.name).toSorted(), ['Elsewhere', 'Used']);
    assert.equal((await ok('diff', 'shop')).stdout, '');
  });

  test('a push that is killed, cut off or overtaken by an editor loses nothing, and the next one completes it', async () => {
    await workspaces();
    const proxy = await MeddlingProxy.start(fixture.service.url);
    const place = {
      folder: folder.path,
      environment: { MILLRACE_URL: proxy.url, MILLRACE_API_KEY: fixture.service.key },
    };
    try {
      const through = (...words: string[]) => runCommand(place, words);
      assert.equal((await through('export', '--workspace', staging, 'raced')).code, 0);
      const file = at('raced', 'fresh', 'workflow.yaml');
      const code = at('raced', 'fresh', 'step', 'entry.js');
      await mkdir(at('raced', 'fresh', 'step'), { recursive: true });
      const text =
        'schema: millrace.workflow/1\nname: Fresh\ntriggers:\n  - type: http\nsteps:\n  - namespace: step\n    uses: ./step/entry.js\n';
      // As an editor on Windows writes it.
      await writeFile(file, `\ufeff${text.replaceAll('\n', '\r\n')}`);
      await writeFile(code, `\ufeff${codeOf('one').replaceAll('\n', '\r\n')}`);

      // Killed after the service made the workflow, before its id was noted.
      const killed = new RunningCommand(place, ['push', 'raced']);
      proxy.next = {
        request: /^POST \/v1\/workflows$/,
        meddling: { insteadOfAnswer: () => killed.process.kill('SIGKILL') },
      };
      await killed.ended();
      const made = async () => api('GET', `/v1/workspaces/${staging}/workflows`);
      const [first] = await made();
      assert.ok(first !== undefined);
      const second = await through('push', 'raced');
      assert.equal(second.code, 0, second.stderr);
      assert.deepEqual(
        (await made()).map(({ id }: { id: string }) => id),
        [first.id],
        'it is not made twice',
      );
      assert.equal((await through('diff', 'raced')).code, 0);

      // The service dies after the commit: the next push finds it done, and what follows is no conflict.
      await writeFile(code, codeOf('two'));
      proxy.next = { request: /\/deployments$/, meddling: { insteadOfAnswer: () => undefined } };
      const cut = await through('push', 'raced');
      assert.notEqual(cut.code, 0);
      assert.match(cut.stderr, /the connection to \S+ broke off before the answer was complete/);
      assert.match((await through('push', 'raced')).stderr, /nothing to push/);
      await writeFile(code, codeOf('three'));
      assert.equal((await through('push', 'raced')).code, 0);

      // What the service refuses is named with its folder.
      await writeFile(file, `${await readFile(file, 'utf8')}    props: {token: none}\n`);
      const refused = await through('push', 'raced');
      assert.match(refused.stderr, /^fresh: steps\[0\]\.props\.token: the component has no such prop/);
      await writeFile(file, (await readFile(file, 'utf8')).replace('    props: {token: none}\n', ''));

      // An editor saves while the push is under way.
      const edited = (await readFile(file, 'utf8')).replace('name: Fresh', 'name: Edited');
      await writeFile(code, codeOf('four'));
      proxy.next = { request: /\/deployments$/, meddling: { before: () => writeFile(file, edited) } };
      const overtaken = await through('push', 'raced');
      assert.equal(overtaken.code, 0, overtaken.stderr);
      assert.match(overtaken.stderr, /fresh was changed in the folder during the push: .*push again/);
      assert.equal(await readFile(file, 'utf8'), edited);
      assert.equal((await through('push', 'raced')).code, 0);
      const last = await api('GET', `/v1/workflows/${first.id}`);
      assert.deepEqual([last.name, last.steps[0].code_raw], ['Edited', codeOf('four')]);
    } finally {
      await proxy.close();
    }
  });

  test('a folder of another author reads no file outside it, and sends keys to no other service', async () => {
    await workspaces();
    await ok('export', '--workspace', staging, 'guest');
    await writeFile(at('secret.js'), 'outside');
    await mkdir(at('guest', 'bad'));
    const write = (uses: string) =>
      writeFile(
        at('guest', 'bad', 'workflow.yaml'),
        `schema: millrace.workflow/1\nname: Bad\nsteps: [{namespace: a, uses: ${uses}}]\n`,
      );
    await write('./../../secret.js');
    assert.match((await fails(1, 'push', 'guest')).stderr, /uses: found .*expected a file in its folder/);
    await symlink(at('secret.js'), at('guest', 'bad', 'entry.js'));
    await write('./entry.js');
    assert.match((await fails(1, 'push', 'guest')).stderr, /is a symbolic link/);
    await rm(at('guest', 'bad'), { recursive: true });
    const config = at('guest', 'millrace.yaml');
    const text = await readFile(config, 'utf8');
    await writeFile(config, text.replace(fixture.service.url, 'http://127.0.0.1:1'));
    assert.match((await fails(4, 'diff', 'guest')).stderr, /there is no API key for http:\/\/127\.0\.0\.1:1/);
    await writeFile(config, text.replace(/^( {4}url:.*)$/m, '$1\n    api_key_variable: MILLRACE_MASTER_KEY'));
    assert.match((await fails(2, 'diff', 'guest')).stderr, /api_key_variable/);
    await writeFile(
      config,
      `${text}\na: &a [x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a]\nc: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b]\n`,
    );
    assert.equal((await run('diff', 'guest')).code, 0);
    await mkdir(at('guest', 'bomb'));
    await writeFile(
      at('guest', 'bomb', 'workflow.yaml'),
      `schema: millrace.workflow/1\na: &a [x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a]\nc: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b]\nd: [*c, *c, *c, *c, *c, *c, *c, *c, *c]\n`,
    );
    assert.match((await fails(1, 'diff', 'guest')).stderr, /bomb\/workflow\.yaml: Excessive alias count/);
  });
});
