import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { appendFile, chmod, mkdir, readFile, stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { valueName } from '../../cli/command-kit.ts';
import { kindsOf } from '../../cli/find-by-name.ts';
import { localCommands } from '../../cli/local-admin.ts';
import { everyCommand, makeProgram } from '../../cli/program.ts';
import {
  type CommandPlace,
  type Ended,
  endCommands,
  RunningCommand,
  runAtTerminal,
  runCommand,
} from '../support/command-line.ts';
import { freePort } from '../support/free-port.ts';
import { HttpReceiver } from '../support/http-receiver.ts';
import { Millrace, testApiKey } from '../support/millrace.ts';
import { startNpmRegistry } from '../support/npm-registry.ts';
import { createTempFolder, type TempFolder } from '../support/temp-folder.ts';
import { waitFor } from '../support/wait-for.ts';

/** Someone's whole work with `millrace`, on a real service. */

/** What of that a terminal would obey. */
const obeyed = new RegExp(`[${String.fromCharCode(0x1b, 0x202e, 7)}]`);
const hostile = 'a\u001b[31mred\u202egnp.exe\n| row \u0007';

const inboxCode = `export default {
  key: 'inbox', name: 'Inbox', version: '0.0.1',
  props: { http: '$.interface.http', greeting: { type: 'string', label: 'Greeting' }, token: { type: 'string', secret: true, optional: true } },
  async run(event) {
    console.log('got ' + (event.body?.name ?? 'nobody'));
    if (event.body?.fail) throw new Error('asked to fail');
    this.$emit({ greeting: this.greeting, name: event.body?.name });
  },
};`;

const choosyCode = `export default {
  key: 'choosy', name: 'Choosy', version: '0.0.1',
  props: {
    http: '$.interface.http',
    city: { type: 'string', label: 'City', async options() { return [{ label: 'Lisbon', value: 'lis' }, { label: 'Oslo', value: 'osl' }]; } },
    kind: { type: 'string', options: ['plain', 'fancy'], reloadProps: true },
    timer: { type: '$.interface.timer', default: { intervalSeconds: 3600 } },
  },
  additionalProps() { return this.kind === 'fancy' ? { colour: { type: 'string', label: 'Colour' } } : {}; },
  async run() {},
};`;

const actionCode = `export default {
  key: 'adder', name: 'Adder', version: '0.0.1', type: 'action',
  props: { a: { type: 'integer' }, b: { type: 'integer[]' } },
  async run({ $ }) {
    console.log('adding');
    if (this.a < 0) throw new Error('no negative numbers');
    $.export('$summary', 'added');
    return this.a + this.b.reduce((sum, one) => sum + one, 0);
  },
};`;

const workflow = {
  settings: { name: 'hello' },
  triggers: [{ type: 'http', props: { custom_response: true } }],
  steps: [
    {
      namespace: 'hello',
      code: "export default defineComponent({ async run({ steps, $ }) { console.log('in a step'); if (steps.trigger.event.query.fail) throw new Error('a step failed'); await $.respond({ status: 200, body: 'Hello, ' + steps.trigger.event.query.name }); $.send.emit({ said: 'hello' }) } })",
    },
  ],
};

describe('the command line', () => {
  let service: Millrace;
  let folder: TempFolder;
  let npm: Awaited<ReturnType<typeof startNpmRegistry>>;
  let place: CommandPlace;

  const run = (...words: string[]): Promise<Ended> => runCommand(place, words);
  /** A command that has to succeed. */
  const ok = async (...words: string[]): Promise<string> => {
    const ended = await run(...words);
    assert.equal(ended.code, 0, `millrace ${words.join(' ')}\n${ended.stderr}${ended.stdout}`);
    return ended.stdout;
  };
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape.
  const json = async (...words: string[]): Promise<any> => JSON.parse(await ok(...words, '--json'));
  const fails = async (code: number, ...words: string[]): Promise<string> => {
    const ended = await run(...words);
    assert.equal(ended.code, code, `millrace ${words.join(' ')}\n${ended.stderr}${ended.stdout}`);
    return ended.stderr;
  };

  before(async () => {
    folder = await createTempFolder('command-line');
    npm = await startNpmRegistry(() => [
      {
        name: '@demo/thing',
        version: '1.0.0',
        files: {
          'package.json': JSON.stringify({ name: '@demo/thing', version: '1.0.0', type: 'module' }),
          'sources/new-thing/new-thing.mjs':
            "export default { key: 'thing-new-thing', name: 'New Thing', version: '0.0.1', type: 'source', props: { http: '$.interface.http' }, run() {} }",
        },
      },
    ]);
    service = await Millrace.start({
      dataFolder: join(folder.path, 'data'),
      // It is started again on this port, which no other process may have meanwhile.
      environment: { MILLRACE_NPM_REGISTRY: npm.url, MILLRACE_PORT: String(await freePort()) },
    });
    place = { folder: folder.path };
    await writeFile(join(folder.path, 'key'), `${testApiKey}\n`);
    await writeFile(join(folder.path, 'inbox.mjs'), inboxCode);
    await writeFile(join(folder.path, 'choosy.mjs'), choosyCode);
    await writeFile(join(folder.path, 'adder.mjs'), actionCode);
    await writeFile(join(folder.path, 'workflow.json'), JSON.stringify(workflow));
  });
  after(async () => {
    await endCommands();
    await service?.stop();
    await npm?.close();
    await folder?.remove();
  });

  describe('before and after a login', () => {
    test('no account is connected by accident, and asking without a terminal fails with what to do', async () => {
      assert.match(await fails(4, 'sources', 'list'), /not logged in[\s\S]*millrace login/);
      assert.match(await fails(2, 'login', '--url', service.url), /no terminal[\s\S]*--api-key-file/);
      assert.match(await fails(2, 'no-such-command'), /unknown command[\s\S]*`millrace help` lists/);
      assert.match(
        await fails(2, 'sources', 'show'),
        /unknown command[\s\S]*`millrace sources --help` lists/,
      );
      assert.match(await fails(2, 'help', 'show'), /^there is no command "show"\n`millrace help` lists/);
      assert.match(await fails(2, 'sources', 'list', '--limit', 'many'), /Expected an integer/);
      assert.match(await fails(2, 'sources', 'describe'), /missing required argument/);
    });

    test('a wrong key is reported, and not kept', async () => {
      await writeFile(join(folder.path, 'wrong'), 'wrong-key-0123456789abcdef');
      const told = await fails(4, 'login', '--url', service.url, '--api-key-file', 'wrong');
      assert.match(told, /127\.0\.0\.1:\d+ does not accept this API key[\s\S]*api-key in the data folder/);
      assert.match(await fails(4, 'whoami'), /not logged in/);
    });

    test('a service that is not there is reported with its address, and nothing else hides it', async () => {
      const server = createServer();
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
      const { port } = server.address() as AddressInfo;
      await new Promise((resolve) => server.close(resolve));
      const told = await fails(5, 'login', '--url', `127.0.0.1:${port}`, '--api-key-file', 'key');
      assert.match(told, new RegExp(`127.0.0.1:${port} cannot be reached: ECONNREFUSED`));
    });

    test('a server that is no Millrace is reported as such', async () => {
      await using receiver = await HttpReceiver.start();
      assert.match(
        await fails(1, 'login', '--url', receiver.url, '--api-key-file', 'key'),
        /not as a Millrace does/,
      );
    });

    test('a login is kept for its owner alone, and several live beside each other', async () => {
      assert.match((await run('login', '--url', service.url, '--api-key-file', 'key')).stderr, /Logged in/);
      const file = join(folder.path, '.config/millrace/config.json');
      assert.equal((await stat(file)).mode & 0o777, 0o600);
      assert.match(await ok('whoami'), /username +admin/);
      assert.equal((await json('whoami')).username, 'admin');

      const other = await runCommand(
        place,
        ['login', '--url', `${service.url}/v1/`, '--profile', 'other', '--api-key-file', '-'],
        testApiKey,
      );
      assert.equal(other.code, 0, other.stderr);
      assert.match(await ok('whoami'), /profile other/);
      assert.match(await ok('whoami', '--profile', 'default'), /profile default/);
      assert.match(await fails(2, 'whoami', '--profile', 'third'), /There are: default, other/);
      await ok('logout', '--profile', 'other');
      assert.match(await ok('whoami'), /profile default/);
      assert.doesNotMatch(await readFile(file, 'utf8'), /other/);

      await chmod(file, 0o644);
      assert.match(await fails(1, 'whoami'), /can be read by others[\s\S]*chmod 600/);
      await chmod(file, 0o600);
    });

    test('the environment wins, and a key is never sent to another service than its own', async () => {
      const by = (environment: Record<string, string>) => runCommand({ ...place, environment }, ['whoami']);
      const wrong = await by({ MILLRACE_API_KEY: 'wrong-key-0123456789abcdef' });
      assert.equal(wrong.code, 4);
      await using receiver = await HttpReceiver.start();
      const elsewhere = await by({ MILLRACE_URL: receiver.url });
      assert.equal(elsewhere.code, 4);
      assert.match(elsewhere.stderr, /there is no API key for/);
      assert.equal(receiver.requests.length, 0);
      const both = await by({
        MILLRACE_URL: service.url,
        MILLRACE_API_KEY: testApiKey,
        XDG_CONFIG_HOME: '/nowhere',
      });
      assert.equal(both.code, 0, both.stderr);
      assert.match(both.stdout, /login +MILLRACE_API_KEY/);
    });

    test('quotas are shown in readable units, and as numbers to programs', async () => {
      assert.match(await ok('whoami'), /daily_compute_time_quota +1,000 h a day$/m);
      assert.match(await ok('whoami'), /daily_invocations_quota +10,000,000 a day$/m);
      assert.equal((await json('whoami')).daily_compute_time_quota, 3_600_000_000);
    });

    test('an install is checked', async () => {
      const place2 = { ...place, environment: { MILLRACE_DATA: join(folder.path, 'data') } };
      const { code, stdout } = await runCommand(place2, ['verify', '--json']);
      assert.equal(code, 0, stdout);
      const checks = JSON.parse(stdout) as { name: string; state: string }[];
      const states = Object.fromEntries(checks.map(({ name, state }) => [name, state]));
      assert.deepEqual(states, {
        service: 'ok',
        version: 'ok',
        store: 'ok',
        clock: 'ok',
        'api key': 'ok',
        sandbox: 'ok',
        'sandbox level': states['sandbox level'],
        'egress: cloud metadata': 'ok',
        // Services under test may call this machine.
        'egress: own machine': 'warning',
        files: 'ok',
        'outbound proxy': 'ok',
        disk: states.disk,
        'data folder': 'ok',
        database: 'ok',
      });
      if (process.platform !== 'win32') {
        const keyFile = join(folder.path, 'data.key');
        await chmod(keyFile, 0o644);
        const open = await runCommand(place2, ['verify']);
        await chmod(keyFile, 0o600);
        assert.equal(open.code, 1);
        assert.match(open.stdout, /data folder +failed +others can read .*data\.key: chmod 600/);
      }
      // The service tells its admin where its data is; a folder of something else is no longer looked at instead of it.
      const detailOf = async (environment: Record<string, string>, name: string) => {
        const { stdout: said } = await runCommand({ ...place, environment }, ['verify', '--json']);
        const all = JSON.parse(said) as { name: string; state: string; detail: string }[];
        const { state = '', detail = '' } = all.find((one) => one.name === name) ?? {};
        return `${state}: ${detail}`;
      };
      assert.equal(await detailOf({}, 'data folder'), `ok: ${join(folder.path, 'data')}`);
      assert.match(
        await detailOf({ MILLRACE_DATA: folder.path }, 'data folder'),
        /^failed: MILLRACE_DATA: found .*, and the service uses .*data$/,
      );
      const stranger = { MILLRACE_URL: service.url, MILLRACE_API_KEY: 'wrong-key-0123456789abcdef' };
      assert.match(
        await detailOf(stranger, 'database'),
        /^skipped: not checked: there is no .*\.millrace; set MILLRACE_DATA to the data folder of the service$/,
      );
      assert.equal(await detailOf(stranger, 'sandbox'), 'skipped: not checked without a valid API key');
      const gone = await runCommand(
        { ...place, environment: { MILLRACE_URL: 'http://127.0.0.1:1', MILLRACE_API_KEY: testApiKey } },
        ['verify'],
      );
      assert.equal(gone.code, 1);
      assert.match(gone.stdout, /service +failed +http:\/\/127\.0\.0\.1:1 cannot be reached/);
    });
  });

  describe('sources', () => {
    let source: string;

    test('a missing prop is named when there is no terminal to ask, and a wrong or unknown one too', async () => {
      assert.match(await fails(2, 'deploy', 'inbox.mjs', '--yes'), /missing prop: greeting \(string\)/);
      assert.match(await fails(2, 'deploy', 'inbox.mjs'), /missing prop: greeting/);
      assert.match(
        await fails(2, 'deploy', 'inbox.mjs', '--prop', 'nothing=1'),
        /no prop nothing[\s\S]*greeting/,
      );
      assert.match(await fails(2, 'deploy', './nowhere.mjs'), /there is no file/);
      assert.match(await fails(3, 'deploy', 'no-such-key'), /no-such-key/);
      assert.match(await fails(1, 'deploy', 'adder.mjs'), /only sources are deployed[\s\S]*millrace invoke/);
    });

    test('a key, a file and a URL are deployed', async () => {
      const inbox = await json('deploy', 'http-new-requests-payload-only', '--yes', '--name', 'by key');
      assert.match(inbox.id, /^dc_/);
      assert.equal(inbox.name, 'by key');
      source = (
        await json(
          'deploy',
          'inbox.mjs',
          '--prop',
          'greeting=hello',
          '--prop',
          'token=s3cret',
          '--name',
          hostile,
        )
      ).id;
      await using receiver = await HttpReceiver.start({
        answer: { headers: { 'content-type': 'text/javascript' }, body: inboxCode },
      });
      await writeFile(join(folder.path, 'props.json'), JSON.stringify({ greeting: 'by URL' }));
      const byUrl = await json('sources', 'create', `${receiver.url}/inbox.mjs`, '--props', 'props.json');
      assert.equal(byUrl.configured_props.greeting, 'by URL');
      await ok('sources', 'delete', byUrl.id);
      assert.match(await fails(3, 'sources', 'describe', byUrl.id), /list/);
    });

    test('listings fit the terminal, and show hostile names instead of obeying them', async () => {
      const narrow = await runCommand({ ...place, environment: { COLUMNS: '80' } }, ['sources', 'list']);
      const lines = narrow.stdout.trimEnd().split('\n');
      assert.equal(lines.length, 3);
      assert.ok(
        lines.every((line) => line.length <= 80),
        narrow.stdout,
      );
      const whole = await ok('sources', 'list');
      assert.match(whole, /a\\x1b\[31mred\\u202egnp\.exe\\n\| row \\x07/);
      assert.doesNotMatch(whole, obeyed);
      assert.doesNotMatch(await ok('sources', 'describe', source), obeyed);
      const listed = await json('sources', 'list');
      assert.deepEqual(listed, (await service.api('GET', '/v1/users/me/sources?limit=100')).body.data);
      assert.doesNotMatch(await ok('sources', 'list', '--json'), obeyed);
      assert.equal((await json('sources', 'list', '-n', '1')).length, 1);
    });

    test('a file whose component has no name is called as the file', async () => {
      const code = "export default { props: { http: '$.interface.http' }, run() {} };";
      await writeFile(join(folder.path, 'hello.mjs'), code);
      const made = await json('deploy', 'hello.mjs', '--yes', '--concurrency', '3');
      assert.deepEqual([made.name, made.name_slug, made.concurrency], ['hello', 'hello', 3]);
      const throttle = '{"throttle":{"limit":5,"seconds":60}}';
      const limits = ['--concurrency', '2', '--flow-control', throttle];
      const changed = await json('sources', 'update', made.id, ...limits);
      assert.deepEqual([changed.concurrency, changed.flow_control], [2, JSON.parse(throttle)]);
      assert.match(
        await fails(2, 'sources', 'update', made.id, '--concurrency', 'many'),
        /--concurrency: many, expected a whole number/,
      );
      await ok('sources', 'delete', made.id);
    });

    test('lists show the health of each, and only those in one state where that is asked for', async () => {
      const made = await json('deploy', 'inbox.mjs', '--prop', 'greeting=hi', '--name', 'faulty');
      const health = async () => (await service.api('GET', `/v1/sources/${made.id}`)).body.data.health.state;
      await fetch(made.configured_props.http.endpoint_url, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ fail: true }),
      });
      await waitFor(async () => (await health()) === 'failing', { what: 'the source to fail' });
      const failing = await ok('sources', 'list', '--health', 'failing');
      assert.match(failing, /^ID .*\bHEALTH\b/m);
      assert.match(failing, new RegExp(`^${made.id} .* failing `, 'm'));
      assert.equal(failing.trimEnd().split('\n').length, 2);
      assert.doesNotMatch(await ok('sources', 'list', '--health', 'untested'), new RegExp(made.id));
      assert.match(await ok('sources', 'describe', made.id), /^health +failing: .*asked to fail.*, since /m);
      assert.match(
        await fails(2, 'sources', 'list', '--health', 'ill'),
        /healthy, failing, paused, disabled, waiting, untested/,
      );
      for (const things of ['workflows', 'webhooks', 'accounts'])
        assert.equal(
          (await run(things, 'list', '--health', 'failing')).stderr.trim(),
          'None of them is failing.',
        );
      await ok('sources', 'delete', made.id);
    });

    test('data that begins as JSON and is none is refused with its place', async () => {
      const refused = await fails(2, 'invoke', source, '-d', '{"name": Ada}');
      assert.match(refused, /--data: not JSON: Unexpected token 'A'.*\n[\s\S]*content-type: text\/plain/);
    });

    test('requests are sent, and events and logs read', async () => {
      assert.equal(await ok('invoke', source, '-d', '{"name":"Ada"}'), '{"success":true}');
      await waitFor(async () => (await service.events(source)).length === 1, { what: 'the event' });
      assert.match(await ok('events', source), /\{"greeting":"hello","name":"Ada"\}/);
      assert.deepEqual((await json('events', source))[0].event, { greeting: 'hello', name: 'Ada' });
      await writeFile(join(folder.path, 'body.json'), '{"fail":true}');
      const answer = await json(
        'invoke',
        source,
        '-d',
        '@body.json',
        '-H',
        'x-a: b',
        '-X',
        'PUT',
        '--path',
        'a?b=c',
      );
      assert.equal(answer.status, 200);
      await waitFor(async () => (await json('logs', source)).length === 3, { what: 'the log lines' });
      assert.match(await ok('logs', source), /got Ada[\s\S]*asked to fail/);
      assert.match(await ok('events', source, '--event-name', '$errors'), /asked to fail/);
      assert.match(await fails(2, 'events', 'wh_nothing'), /no source/);
      assert.match(await fails(3, 'events', 'dc_nothing'), /dc_nothing|list/);
    });

    test('events and logs are followed until Ctrl-C, which is no failure', async () => {
      const events = new RunningCommand(place, ['events', source, '-f', '-n', '1']);
      const asJson = new RunningCommand(place, ['events', source, '-f', '-n', '0', '--json']);
      const logs = new RunningCommand(place, ['logs', source, '-f', '-n', '1']);
      await events.says(/Ada/);
      await logs.says(/asked to fail/);
      // Nothing says that the stream of the second stands: what is sent until it does not count.
      await waitFor(async () => {
        await ok('invoke', source, '-d', '{"name":"Eve"}');
        return asJson.stdout.includes('Eve');
      });
      await events.says(/Eve/);
      await logs.says(/got Eve/);
      const [seen, lines, printed] = await Promise.all([
        events.interrupt(),
        asJson.interrupt(),
        logs.interrupt(),
      ]);
      assert.deepEqual([seen.code, lines.code, printed.code], [0, 0, 0]);
      assert.equal(seen.stdout.match(/Ada/g)?.length, 1);
      for (const line of lines.stdout.trimEnd().split('\n')) assert.equal(JSON.parse(line).event.name, 'Eve');
    });

    test('a followed stream continues after a reader left, and ends when the source is gone', async () => {
      const gone = (await json('deploy', 'inbox.mjs', '--prop', 'greeting=x')).id;
      const events = new RunningCommand(place, ['events', gone, '-f']);
      await waitFor(async () => {
        await ok('invoke', gone, '-d', '{"name":"Zoe"}');
        return events.stdout.includes('Zoe');
      });
      await ok('sources', 'delete', gone);
      assert.equal((await events.ended()).code, 3);
    });

    test('a change keeps what was not named: secrets, activity, timers', async () => {
      assert.equal((await json('sources', 'update', source, '--inactive')).active, false);
      const renamed = await json('sources', 'update', source, '--name', 'renamed', '--prop', 'greeting=hi');
      assert.equal(renamed.active, false);
      assert.equal(renamed.configured_props.greeting, 'hi');
      assert.match(await fails(2, 'sources', 'update', source), /nothing to change/);
      await ok('sources', 'update', source, '--active', '--code', 'inbox.mjs');
      await ok('events', 'delete', source, '--all');
      assert.match(await fails(2, 'events', 'delete', source), /--all/);
      const timed = (
        await json(
          'deploy',
          'choosy.mjs',
          '--yes',
          '--prop',
          'city=lis',
          '--prop',
          'kind=fancy',
          '--prop',
          'colour=red',
          '--prop',
          'timer=7200',
        )
      ).id;
      const changed = await json('sources', 'update', timed, '--prop', 'colour=blue');
      assert.equal(changed.configured_props.timer.interval_seconds, 7200);
      assert.equal(changed.configured_props.colour, 'blue');
      await waitFor(async () => (await json('sources', 'ticks', timed)).length > 0, {
        what: 'the first tick',
      });
      // On a busy machine it is two seconds late, which the ledger says.
      assert.match(await ok('sources', 'ticks', timed), /fired|late/);
      assert.match(
        await fails(2, 'deploy', 'choosy.mjs', '--prop', 'city=lis', '--prop', 'kind=fancy'),
        /missing prop: colour/,
      );
    });

    test('local files go with what they import, and errors of all are reported with their place', async () => {
      await mkdir(join(folder.path, 'lib'), { recursive: true });
      await writeFile(
        join(folder.path, 'lib/greet.ts'),
        "export const greet = (name: string): string => 'hello '.concat(name);",
      );
      await writeFile(
        join(folder.path, 'parts.ts'),
        "import { greet } from './lib/greet.ts';\nexport default { name: 'p', key: 'p', version: '0.0.1', props: { http: '$.interface.http' }, run() { this.$emit(greet('you')) } };",
      );
      const id = (await json('deploy', 'parts.ts')).id;
      await ok('invoke', id);
      await waitFor(async () => (await service.events(id))[0]?.event === 'hello you', { what: 'the event' });
      await writeFile(
        join(folder.path, 'broken.mjs'),
        "import { x } from './lib/nowhere.mjs';\nexport default { x };",
      );
      assert.match(
        await fails(1, 'deploy', 'broken.mjs'),
        /broken\.mjs:1:\d+: Could not resolve "\.\/lib\/nowhere\.mjs"/,
      );
      await writeFile(join(folder.path, 'lib/words.cjs'), "exports.word = 'common';");
      await writeFile(
        join(folder.path, 'common.cjs'),
        "const { word } = require('./lib/words.cjs');\nmodule.exports = { name: 'c', key: 'c', version: '0.0.1', props: { http: '$.interface.http' }, run() { this.$emit(word) } };",
      );
      const common = (await json('deploy', 'common.cjs')).id;
      await ok('invoke', common);
      await waitFor(async () => (await service.events(common))[0]?.event === 'common', { what: 'the event' });
    });
  });

  describe('dev', () => {
    test('deploys at each save, shows events and logs with the lines of the files, and leaves nothing behind', async () => {
      const file = join(folder.path, 'live.mjs');
      const part = join(folder.path, 'live-part.mjs');
      await writeFile(part, "export const word = () => 'one';\n");
      await writeFile(
        file,
        "import { word } from './live-part.mjs';\nexport default { name: 'live', key: 'live', version: '0.0.1', props: { http: '$.interface.http' }, run() { console.log('ran'); this.$emit(word()) } };\n",
      );
      const dev = new RunningCommand(place, ['dev', 'live.mjs']);
      await dev.says(/Watching .*live-part\.mjs/);
      const id = /dc_\w+/.exec(dev.stderr)?.[0] ?? '';
      await waitFor(async () => {
        await ok('invoke', id);
        return / one$/m.test(dev.stdout) && /ran/.test(dev.stdout);
      });
      await writeFile(part, "export const word = () => 'two';\n");
      await dev.says(/is deployed again/);
      await ok('invoke', id);
      await dev.says(/ two$/m);
      await writeFile(part, 'export const word = () => {\n');
      await dev.says(/not deployed, the previous version continues to run: .*live-part\.mjs:\d+/);
      await writeFile(part, "\n\nexport const word = () => { throw new Error('three') };\n");
      await waitFor(() => dev.stderr.match(/is deployed again/g)?.length === 2);
      await ok('invoke', id);
      await dev.says(/live-part\.mjs:3:\d+/);
      const { code, stderr } = await dev.interrupt();
      assert.equal(code, 0, stderr);
      assert.match(stderr, new RegExp(`Removed ${id}`));
      await fails(3, 'sources', 'describe', id);
    });
  });

  describe('at a terminal', { skip: scriptSkip() }, () => {
    test('props are asked for: choices that the component offers, and props that others bring', async () => {
      const terminal = runAtTerminal(place, ['deploy', 'choosy.mjs', '--name', 'asked']);
      await terminal.answer(/City[\s\S]*Lisbon[\s\S]*Oslo/, '\u001b[B\r', /✔ City.*Oslo/);
      await terminal.answer(/kind[\s\S]*plain[\s\S]*fancy/, '\u001b[B\r', /✔ kind.*fancy/);
      // The timer has a default, so the user is not asked for it.
      await terminal.answer(/Colour \(colour, string\)/, 'green\r', /✔ Colour/);
      const { code, stdout } = await terminal.ended();
      assert.equal(code, 0, stdout);
      const id = /dc_\w+/.exec(stdout)?.[0] ?? '';
      const { configured_props: props } = await json('sources', 'describe', id);
      assert.deepEqual([props.kind, props.colour, props.timer.interval_seconds], ['fancy', 'green', 3600]);
      assert.match(JSON.stringify(props.city), /osl/);
    });

    test('an API key that is typed is not shown, and colours can be turned off', async () => {
      const environment = { XDG_CONFIG_HOME: join(folder.path, 'elsewhere') };
      const terminal = runAtTerminal({ ...place, environment }, ['login', '--url', service.url]);
      await terminal.answer(/API key/, `${testApiKey}\r`, /Logged in/);
      const { code, stdout } = await terminal.ended();
      assert.equal(code, 0, stdout);
      assert.ok(!stdout.includes(testApiKey), stdout);
      const bold = `${String.fromCharCode(27)}[1m`;
      assert.ok((await runAtTerminal(place, ['sources', 'list']).ended()).stdout.includes(bold));
      const plain = await runAtTerminal({ ...place, environment: { NO_COLOR: '1' } }, [
        'sources',
        'list',
      ]).ended();
      assert.ok(!plain.stdout.includes(bold), plain.stdout);
    });

    test('Ctrl-C at a question ends with 130, and nothing was made', async () => {
      const before = (await json('sources', 'list')).length;
      const terminal = runAtTerminal(place, ['deploy', 'inbox.mjs']);
      await terminal.answer(/Greeting/, '\u0003', /interrupted/);
      assert.equal((await terminal.ended()).code, 130);
      assert.equal((await json('sources', 'list')).length, before);
    });
  });

  describe('components, actions and packages', () => {
    test('components are found, described and saved', async () => {
      assert.match(await ok('components', 'list'), /http-new-requests-payload-only/);
      assert.match(await ok('components', 'list', 'feed', '--type', 'source'), /rss-new-item-in-feed/);
      assert.match(await ok('components', 'describe', 'http-new-requests'), /PROP[\s\S]*http/);
      const saved = await json('components', 'create', 'inbox.mjs');
      assert.match(await ok('components', 'describe', saved.id, '--code'), /asked to fail/);
    });

    test('an action runs once; what it returned is the answer, and its failure is one', async () => {
      const ended = await run('invoke', 'adder.mjs', '--prop', 'a=1', '--prop', 'b=2,3');
      assert.equal(ended.code, 0, ended.stderr);
      assert.equal(ended.stdout, '6\n');
      assert.match(ended.stderr, /adding[\s\S]*added/);
      assert.equal((await json('invoke', 'adder.mjs', '--prop', 'a=1', '--prop', 'b=[]')).ret, 1);
      assert.match(
        await fails(1, 'invoke', 'adder.mjs', '--prop', 'a=-1', '--prop', 'b=1'),
        /no negative numbers/,
      );
      assert.match(
        await fails(2, 'invoke', 'adder.mjs', '--prop', 'a=one', '--prop', 'b=1'),
        /expected an integer, found "one"/,
      );
      assert.match(await fails(1, 'invoke', 'inbox.mjs'), /only actions run/);
    });

    test('packages of npm are added, listed, updated and removed through the API', async () => {
      assert.equal((await json('registry', 'list')).length, 0);
      const added = await run('registry', 'add', '@demo/thing');
      assert.equal(added.code, 0, added.stderr);
      assert.match(added.stdout, /thing-new-thing/);
      assert.match(await ok('registry', 'list'), /@demo\/thing +1\.0\.0 +npm +1/);
      assert.match((await run('registry', 'update')).stderr, /1\.0\.0 is the newest/);
      await ok('registry', 'remove', '@demo/thing@1.0.0');
      assert.equal((await json('registry', 'list')).length, 0);
      assert.match(await fails(1, 'registry', 'add', '@demo/nothing'), /@demo\/nothing/);
    });

    test('commands for the data folder reach it, and say when the service is in the way', async () => {
      const data = { ...place, environment: { MILLRACE_DATA: join(folder.path, 'data') } };
      for (const words of [
        ['user', 'list'],
        ['registry', 'list', '--local'],
        ['registry', 'add', './folder'],
      ]) {
        const { code, stderr } = await new RunningCommand(data, words).ended();
        assert.equal(code, 1);
        assert.match(stderr, /the service is running on the data folder/);
      }
    });
  });

  describe('webhooks, deliveries and replays', () => {
    test('events go to a webhook, which is paused, changed, and sent to again', async () => {
      await using receiver = await HttpReceiver.start();
      const source = (await json('deploy', 'inbox.mjs', '--prop', 'greeting=yo')).id;
      const created = await json('webhooks', 'create', `${receiver.url}/hook`, '--name', 'mine');
      assert.match(created.signing_secret, /^whsec_/);
      const subscription = await json('subscriptions', 'create', source, created.id);
      assert.match(await ok('subscriptions', 'list'), new RegExp(subscription.id));
      assert.equal((await json('subscriptions', 'describe', subscription.id)).listener_id, created.id);
      await ok('invoke', source, '-d', '{"name":"Ada"}');
      await receiver.waitForRequest();
      await waitFor(async () => (await json('deliveries', 'list', created.id))[0]?.state === 'delivered', {
        what: 'the delivery',
      });
      const [delivery] = await json('deliveries', 'list', created.id);
      assert.match(await ok('deliveries', 'describe', delivery.id), /LATENCY|STATUS[\s\S]*200/);
      await ok('deliveries', 'redeliver', delivery.id);
      await receiver.waitForRequest(2);
      const replayed = await json('replay', source, '--to', created.id);
      assert.deepEqual([replayed.state, replayed.sent], ['finished', 1]);
      await ok('replay', delivery.id);
      assert.match(await fails(2, 'replay', source), /--to/);
      assert.match(await ok('webhooks', 'list'), /mine/);
      assert.equal((await json('webhooks', 'pause', created.id)).state, 'paused');
      assert.equal((await json('webhooks', 'resume', created.id)).state, 'active');
      assert.equal((await json('webhooks', 'update', created.id, '--name', 'yours')).name, 'yours');
      assert.notEqual(
        (await json('webhooks', 'rotate-secret', created.id)).signing_secret,
        created.signing_secret,
      );
      assert.equal((await json('webhooks', 'redeliver', created.id)).queued, 0);
      assert.match(await ok('webhooks', 'describe', created.id), /yours/);
      assert.deepEqual(await json('deliveries', 'list'), []);
      await ok('subscriptions', 'delete', subscription.id);
      await ok('webhooks', 'delete', created.id);
      await fails(3, 'webhooks', 'describe', created.id);
    });
  });

  describe('workflows and runs', () => {
    test('a workflow is made, called, looked into, changed and removed', async () => {
      const { id } = await json('workflows', 'create', '--file', 'workflow.json', '--name', 'mine');
      assert.match(await ok('workflows', 'list'), /mine +untested +http +1/);
      assert.match(await ok('workflows', 'describe', id), /TRIGGER[\s\S]*\/in\/[\s\S]*STEP[\s\S]*hello/);
      assert.equal(await ok('invoke', id, '--path', '?name=Ada'), 'Hello, Ada');
      await service.runInState(id, 'succeeded');
      const [first] = await json('runs', 'list', id);
      assert.match(await ok('runs', 'list', id), /succeeded/);
      assert.match(await ok('runs', 'describe', first.id), /step +hello[\s\S]*in a step/);
      assert.match(await ok('logs', id), /hello log +in a step/);
      assert.match(await ok('events', id), /\{"said":"hello"\}/);

      const logs = new RunningCommand(place, ['logs', id, '-f']);
      await logs.says(/in a step/);
      await run('invoke', id, '--path', '?fail=1');
      await logs.says(/a step failed/);
      assert.equal((await logs.interrupt()).code, 0);
      const failed = await service.runInState(id, 'failed');
      assert.match(await ok('runs', 'describe', failed.id), /a step failed/);
      assert.match(await ok('runs', 'restart', failed.id), /\w/);
      assert.match(await ok('runs', 'replay', first.id), /\w/);
      assert.match(await ok('replay', first.id), /\w/);
      const edited = (await json('runs', 'replay', first.id, '--event', '{"query":{"fail":"1"}}')).id;
      await waitFor(async () => (await service.runDetail(edited)).state === 'failed');
      assert.match(await fails(2, 'runs', 'replay', first.id, '--event', '{'), /--event: not JSON/);
      const step = ['--from-step', 'hello', '--exports', '{"hello":{}}'];
      assert.match(
        await fails(1, 'runs', 'restart', failed.id, ...step),
        /steps\.hello: expected exports of/,
      );
      await ok('test-events', 'put', 'mine', 'sample', '--run', first.id);
      assert.match(await ok('test-events', 'list', 'mine'), /sample +HTTP .*(bytes|KB)/);
      assert.match(await ok('test-events', 'get', 'mine', 'sample'), /^\{[\s\S]*"method"/);
      assert.match(await fails(2, 'test-events', 'put', 'mine', 'b', '--event', '{'), /--event: not JSON/);
      assert.match(await fails(2, 'test-events', 'put', 'mine', 'b'), /give one of --event and --run/);
      assert.match(await ok('test-events', 'run', 'mine', 'sample'), /\w/);
      await ok('test-events', 'delete', 'mine', 'sample');
      assert.match(await fails(3, 'test-events', 'run', 'mine', 'sample'), /no test event "sample"/);
      const restarted = await run('runs', 'restart-all', 'mine');
      assert.match(restarted.stderr, /^[1-9]\d* restarted, 0 not possible\.$/m);
      assert.equal((await json('runs', 'replay-all', id, '--until', '2020-01-01')).done, 0);
      assert.equal((await json('runs', 'cancel-all', id, '--state', 'waiting')).done, 0);
      assert.match(
        await fails(1, 'runs', 'replay-all', id, '--since', 'today'),
        /since: expected epoch seconds/,
      );
      assert.match(await fails(1, 'runs', 'cancel', first.id), /\w/);
      assert.match(await ok('workflows', 'deployments', id), /d_\w+ +1/);
      assert.equal((await json('workflows', 'update', id, '--file', 'workflow.json')).id, id);
      assert.equal((await json('workflows', 'deployments', id)).length, 2);
      assert.equal((await json('workflows', 'update', id, '--inactive', '--name', 'other')).active, false);
      await ok('workflows', 'delete', id);
      await fails(3, 'workflows', 'describe', id);
    });

    test('a workflow that was made says where it listens, and which variables it reads that are not set', async () => {
      const definition = {
        settings: { name: 'relay' },
        triggers: [{ type: 'source', props: { component: 'http-new-requests-payload-only' } }],
        steps: [
          {
            namespace: 'send_on',
            component: 'http-post-request',
            props: { httpRequest: { url: '{{process.env.RELAY_URL}}/{{process.env.RELAY_PATH ?? "in"}}' } },
          },
          { namespace: 'check', code: 'export default { run() { return process.env.RELAY_PIN.length; } };' },
        ],
      };
      await writeFile(join(folder.path, 'relay.json'), JSON.stringify(definition));
      const made = await run('workflows', 'create', '--file', 'relay.json');
      assert.match(made.stdout, /^p_\w+ {2}relay {2}http:\S+\/in\/\w+\n$/);
      assert.match(
        made.stderr,
        /reads variables that are not set: RELAY_PIN, RELAY_URL\. .*millrace env set NAME=value/,
      );
      await ok('env', 'set', 'RELAY_URL=http://127.0.0.1:9');
      await ok('env', 'set', 'RELAY_PIN=1234');
      const again = await run('workflows', 'create', '--file', 'relay.json', '--name', 'relay 2');
      assert.doesNotMatch(again.stderr, /not set/);
      const described = await ok('workflows', 'describe', 'relay');
      assert.match(described, /send_on[^\n]*process\.env\.RELAY_URL/, 'the props of its steps');
      for (const name of ['RELAY_URL', 'RELAY_PIN']) await ok('env', 'unset', name);
      await writeFile(join(folder.path, 'empty.json'), '{}');
      assert.match((await run('workflows', 'create', '--file', 'empty.json')).stderr, /It has no trigger/);
    });

    test('a file that is no definition, or is given in the wrong place, is answered with what to do', async () => {
      assert.match(
        await fails(2, 'deploy', 'relay.json'),
        /relay\.json is JSON, expected the code of a source\n.*millrace workflows create --file relay\.json/,
      );
      assert.match(await fails(2, 'deploy', './nowhere.json'), /there is no file/);
      assert.match(
        await fails(2, 'workflows', 'create', 'relay.json'),
        /too many arguments[\s\S]*`millrace workflows create --help` shows its arguments and options/,
      );
      assert.match(
        await fails(2, 'workflows', 'create', '--file', 'nowhere.json'),
        /--file: there is no file .*nowhere/,
      );
      await writeFile(join(folder.path, 'flow.yaml'), 'steps: []');
      assert.match(
        await fails(2, 'workflows', 'create', '--file', 'flow.yaml'),
        /--file flow\.yaml: found text that is not JSON, expected JSON: /,
      );
    });
  });

  describe('accounts', () => {
    test('an account is made from a file, never from an argument, and is changed and removed', async () => {
      assert.match(await ok('apps', 'list', 'openai'), /openai +OpenAI +keys/);
      assert.match(await ok('apps', 'describe', 'openai'), /api_key/);
      assert.match(await fails(2, 'accounts', 'create', 'openai'), /--credentials/);
      const internal = await runCommand(
        place,
        ['accounts', 'create', 'acme_internal', '--credentials', '-'],
        '{}',
      );
      assert.equal(internal.code, 0, internal.stderr);
      assert.match(
        await ok('accounts', 'list', '--app', 'acme_internal'),
        new RegExp(`^${internal.stdout.trim()} `, 'm'),
      );
      const made = await runCommand(
        place,
        ['accounts', 'create', 'openai', '--name', 'ours', '--credentials', '-', '--json'],
        '{"api_key":"k1"}',
      );
      assert.equal(made.code, 0, made.stderr);
      const { id } = JSON.parse(made.stdout) as { id: string };
      assert.match(await ok('accounts', 'list', '--app', 'openai'), /ours +openai/);
      assert.equal((await json('accounts', 'describe', id)).credentials, undefined);
      assert.match(await ok('accounts', 'describe', id, '--include-credentials'), /k1/);
      assert.equal((await json('accounts', 'update', id, '--name', 'theirs')).name, 'theirs');
      assert.match(await ok('accounts', 'connect', 'openai'), /^http/);
      await run('accounts', 'test', id);
      await ok('accounts', 'delete', id);
      await fails(3, 'accounts', 'describe', id);
    });
  });

  describe('environment variables', () => {
    test('variables are set, listed, imported from a .env file and removed; secret values are no arguments', async () => {
      assert.match(
        await ok('env', 'set', 'BASE_URL=https://a.example/?a=b', '--description', 'the shop'),
        /^$/,
      );
      await ok('env', 'set', 'GREETING', 'hello');
      const refused = await fails(2, 'env', 'set', 'API_KEY=k-1', '--secret');
      assert.match(refused, /--file FILE/);
      const piped = await runCommand(
        place,
        ['env', 'set', 'API_KEY', '--secret', '--file', '-'],
        'k-123456\n',
      );
      assert.equal(piped.code, 0, piped.stderr);
      const listed = await ok('env', 'list');
      assert.match(listed, /^API_KEY +\(secret\)/m);
      assert.match(listed, /^BASE_URL +https:\/\/a\.example\/\?a=b +the shop/m);
      assert.doesNotMatch(listed, /k-123456/);
      await writeFile(
        join(folder.path, '.env'),
        '# shop\nexport GREETING="good day"\nDB_PASSWORD=\'p#1\'\nCERT="one\ntwo"\n',
      );
      assert.match((await run('env', 'import', '.env')).stderr, /^Set 3 variables\./);
      const all = (await json('env', 'list')) as { name: string; value: string | null; secret: boolean }[];
      assert.deepEqual(
        all.map(({ name, value, secret }) => [name, value, secret]),
        [
          ['API_KEY', null, true],
          ['BASE_URL', 'https://a.example/?a=b', false],
          ['CERT', null, true],
          ['DB_PASSWORD', null, true],
          // It was plain before.
          ['GREETING', 'good day', false],
        ],
      );
      await writeFile(join(folder.path, 'bad.env'), 'FINE=1\nPATH=/bin\n');
      assert.match(
        await fails(1, 'env', 'import', 'bad.env', '--plain'),
        /found PATH, expected another name/,
      );
      for (const { name } of all) await ok('env', 'unset', name);
      assert.match((await run('env', 'list')).stderr, /No variables yet/);
      await fails(3, 'env', 'unset', 'GREETING');
    });

    test('projects and workspaces have variables of their own', async () => {
      const workspace = (await service.api('POST', '/v1/workspaces', { name: 'Env Shop' })).body.data.id;
      await service.api('POST', `/v1/workspaces/${workspace}/projects`, { name: 'Orders' });
      await ok('env', 'set', 'A=1', '--workspace', 'env shop');
      const inProject = ['--workspace', 'env shop', '--project', 'orders'];
      await ok('env', 'set', 'A=2', ...inProject);
      assert.match(await ok('env', 'list', '--workspace', 'env shop'), /^A +1 /m);
      assert.match(await ok('env', 'list', ...inProject), /^A +2 /m);
      await ok('env', 'unset', 'A', ...inProject);
      assert.match(await ok('env', 'list', '--workspace', 'env shop'), /^A +1 /m);
    });
  });

  describe('access', () => {
    test('keys, service accounts, sessions and users are made, listed and ended', async () => {
      const made = await run('api-keys', 'create', 'status page', '--scope', 'read', '--expires-in', '90');
      assert.equal(made.code, 0, made.stderr);
      const secret = made.stdout.trim();
      assert.equal((await service.api('GET', '/v1/users/me', undefined, { key: secret })).status, 200);
      const listed = await ok('api-keys', 'list');
      const line = listed.split('\n').find((one) => one.includes('status page')) ?? '';
      assert.match(line, / read +20/);
      assert.ok(!listed.includes(secret));
      await ok('api-keys', 'revoke', line.split(' ')[0] ?? '');
      assert.equal((await service.api('GET', '/v1/users/me', undefined, { key: secret })).status, 401);

      await service.api('POST', '/v1/workspaces', { name: 'Robot Shop' });
      const inShop = ['--workspace', 'robot shop'];
      const robot = (await ok('service-accounts', 'create', 'bot', '--role', 'viewer', ...inShop)).trim();
      await ok('service-accounts', 'set-role', robot, '--role', 'member', ...inShop);
      assert.match(
        await ok('service-accounts', 'list', ...inShop),
        new RegExp(`^${robot} +bot\\.\\w+ +member +admin `, 'm'),
      );
      const key = (await ok('api-keys', 'create', '--service-account', robot, ...inShop)).trim();
      assert.equal((await service.api('GET', '/v1/users/me', undefined, { key })).body.data.id, robot);
      await ok('service-accounts', 'delete', robot, ...inShop);
      assert.match((await run('service-accounts', 'list', ...inShop)).stderr, /No service accounts/);
      await fails(2, 'service-accounts', 'list');

      const audit = await ok('audit', ...inShop);
      assert.match(audit, new RegExp(`deleteServiceAccount +${robot} +204 `));
      assert.match(audit, / admin +createWorkspace /);
      assert.match(
        await ok('audit', '--operation', 'createServiceAccount', ...inShop),
        new RegExp(`${robot} +200`),
      );
      const exported = join(folder.path, 'audit.ndjson');
      assert.match((await run('audit', '--export', 'audit.ndjson', ...inShop)).stderr, /Wrote \d+ bytes/);
      const operations = (await readFile(exported, 'utf8'))
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line).operation);
      assert.deepEqual(
        [operations[0], operations.at(-1)],
        ['createWorkspace', 'deleteServiceAccount'],
        'oldest first',
      );
      assert.equal((await stat(exported)).mode & 0o777, 0o600);
      // A refusal leaves the file as it was, and nothing beside it.
      const environment = { MILLRACE_URL: service.url, MILLRACE_API_KEY: 'wrong-key-0123456789abcdef' };
      const refused = await runCommand({ ...place, environment }, ['audit', '--export', 'audit.ndjson']);
      assert.equal(refused.code, 4, refused.stderr);
      assert.equal((await readFile(exported, 'utf8')).trim().split('\n').length, operations.length);
      await assert.rejects(stat(`${exported}.part`), { code: 'ENOENT' });
      assert.match((await run('sessions', 'list')).stderr, /signed in nowhere/);
      assert.match((await run('sessions', 'revoke', '--all')).stderr, /Ended 0 sessions/);
      const first = await run('users', 'create', 'joiner', '--email', 'joiner@example.com');
      assert.match(
        first.stderr,
        /Made joiner, u_\w+\. The user signs in with this key, which is shown only once/,
      );
      const joiner = service.as({ key: first.stdout.trim() });
      const { id: joinerId } = (await joiner.api('GET', '/v1/users/me')).body.data;
      const moved = await run('users', 'set-email', 'Joiner', 'moved@example.com');
      assert.match(moved.stderr, /The e-mail address of joiner is moved@example\.com\./);
      const { data: now } = (await joiner.api('GET', '/v1/users/me')).body;
      assert.deepEqual([now.id, now.email], [joinerId, 'moved@example.com']);
      await fails(3, 'users', 'set-email', 'no such user', 'a@example.com');
      const user = await service.createUser('leaver');
      const why = ['--pause', '--reason', 'left the company'];
      assert.match((await run('users', 'disable', user.id, ...why)).stderr, /Disabled leaver/);
      assert.match(await ok('users', 'list', 'leaver'), /left the company/);
      assert.match(await ok('users', 'list', 'leaver'), new RegExp(`^${user.id} .* 20\\d\\d-`, 'm'));
      assert.equal((await service.as(user).api('GET', '/v1/users/me')).status, 401);
      assert.match(await ok('audit', '--instance', '--object', user.id), /disableUser .* disabled_at_ms/);
      assert.match((await run('users', 'enable', user.id)).stderr, /Enabled leaver/);
      assert.equal((await service.as(user).api('GET', '/v1/users/me')).status, 200);
    });

    test('workspaces and users are deleted for good when their name is typed, and it is shown how far that is', async () => {
      const shop: string = (await service.api('POST', '/v1/workspaces', { name: 'Doomed Shop' })).body.data
        .id;
      const isThere = async () => (await service.api('GET', `/v1/workspaces/${shop}`)).status === 200;
      assert.match(await ok('workspaces', 'list'), new RegExp(`^${shop} +Doomed Shop +doomed-shop`, 'm'));
      const refused = await fails(2, 'workspaces', 'delete', 'doomed shop');
      assert.match(refused, /this deletes the workspace doomed-shop and everything in it, for good/);
      assert.match(refused, /Give --yes, or type the name at a terminal/);
      assert.ok(await isThere());
      const asked = runAtTerminal(place, ['workspaces', 'delete', 'doomed shop']);
      await asked.answer(
        /Type doomed-shop to delete it/,
        'doomed\r',
        /Expected doomed-shop\. Ctrl-C leaves everything/,
      );
      assert.ok(await isThere());
      await asked.answer(/Expected/, '-shop\r', /Deleting doomed-shop/);
      const { code, stdout } = await asked.ended();
      assert.equal(code, 0, stdout);
      const [id = ''] = /del_\w+/.exec(stdout) ?? [];
      await waitFor(async () => / done /.test(await ok('deletions', id)));
      assert.ok(!(await isThere()));
      assert.match(
        await ok('deletions'),
        new RegExp(`^${id} +done +workspace +\\S.* +\\d+ +20\\d\\d-.* 20\\d\\d-`, 'm'),
      );

      const user = await service.createUser('goner');
      await fails(3, 'users', 'delete', 'u_000000000000', '--yes');
      assert.match(
        await fails(2, 'users', 'delete', user.id),
        /deletes goner\S*, what is theirs, and workspaces in which they are the only person, for good/,
      );
      assert.equal((await service.as(user).api('GET', '/v1/users/me')).status, 200);
      const deleted = await run('users', 'delete', user.username, '--yes');
      assert.equal(deleted.code, 0, deleted.stderr);
      assert.match(
        deleted.stderr,
        /Deleting goner\S* \(del_\w+\)\. `millrace deletions del_\w+` says how far it is/,
      );
      assert.equal((await service.as(user).api('GET', '/v1/users/me')).status, 401);
      await fails(3, 'deletions', 'del_000000000000');
    });
  });

  describe('data stores', () => {
    test('a data store is made, filled, read and removed, by its name', async () => {
      const id = (await ok('data-stores', 'create', 'Visits')).trim();
      assert.match(id, /^ds_/);
      await ok('data-stores', 'set', 'visits', 'home', '{"n":1}');
      await ok('data-stores', 'set', 'visits', 'a/b c', 'plain text', '--ttl', '3600');
      const piped = await runCommand(place, ['data-stores', 'set', id, 'list', '--file', '-'], '[1,2]');
      assert.equal(piped.code, 0, piped.stderr);
      assert.deepEqual(JSON.parse(await ok('data-stores', 'get', 'visits', 'home')), { n: 1 });
      assert.equal((await ok('data-stores', 'get', 'visits', 'a/b c')).trim(), '"plain text"');
      assert.match(await ok('data-stores', 'entries', 'visits'), /^a\/b c +"plain text" +20/m);
      const whole = (await json('data-stores', 'get', id, 'list')) as { value: unknown; expires_at: unknown };
      assert.deepEqual([whole.value, whole.expires_at], [[1, 2], null]);
      assert.match(await ok('data-stores', 'list'), new RegExp(`^${id} +Visits +3 `, 'm'));
      assert.match(await ok('data-stores', 'describe', 'visits'), /^entries +3$/m);
      await ok('data-stores', 'delete-entry', 'visits', 'home');
      await fails(3, 'data-stores', 'get', 'visits', 'home');
      await fails(2, 'data-stores', 'set', 'visits', 'home');
      await fails(2, 'data-stores', 'set', 'visits', 'home', '1', '--ttl', '0');
      await ok('data-stores', 'delete', 'visits');
      await fails(3, 'data-stores', 'describe', 'visits');
    });
  });

  describe('names in place of ids', () => {
    test('every operand and option that takes an id takes a name, or is known to have none', () => {
      const program = makeProgram(() => assert.fail('runs nothing'), '');
      const nameless = new Set(
        'component file url ref what query package shell command folder run delivery subscription text name state number event time field step seconds method type id path json key value scope days session role words n user address'.split(
          ' ',
        ),
      );
      const local = new Set(Object.keys(localCommands));
      const unknown = everyCommand(program)
        .filter((command) => !local.has(command.name()))
        .flatMap((command) => [
          ...command.registeredArguments.map((argument) => argument.name()),
          ...command.options.map(valueName).filter((name) => name !== ''),
        ])
        .filter((name) => kindsOf(name) === undefined && !nameless.has(name) && !/[=: ]/.test(name));
      assert.deepEqual([...new Set(unknown)], []);
    });

    test('sources, workflows, webhooks, accounts and workspaces are found by name or slug, whatever the case', async () => {
      await using receiver = await HttpReceiver.start();
      const source = (await json('deploy', 'inbox.mjs', '--name', 'Post Room', '--prop', 'greeting=yo')).id;
      const webhook = (await json('webhooks', 'create', `${receiver.url}/hook`, '--name', 'Ledger')).id;
      const flow = (await json('workflows', 'create', '--file', 'workflow.json', '--name', 'Say Hello')).id;
      assert.equal((await json('sources', 'describe', 'Post Room')).id, source);
      assert.equal((await json('sources', 'describe', 'post-room')).id, source);
      assert.equal((await json('workflows', 'describe', 'SAY HELLO')).id, flow);
      assert.equal((await json('workflows', 'describe', 'say-hello')).id, flow);
      assert.equal((await json('webhooks', 'describe', 'ledger')).id, webhook);
      const { id } = await json('subscriptions', 'create', 'post room', 'ledger');
      const subscription = await json('subscriptions', 'describe', id);
      assert.deepEqual([subscription.emitter_id, subscription.listener_id], [source, webhook]);
      await ok('invoke', 'post-room', '-d', '{"name":"Ada"}');
      await receiver.waitForRequest();
      assert.match(await ok('events', 'post-room'), /Ada/);
      assert.match(await ok('logs', 'post-room'), /got Ada/);
      assert.equal((await json('replay', 'post-room', '--to', 'Ledger')).sent, 1);
      assert.equal((await json('deliveries', 'list', 'ledger')).length, 2);
      // People see who owns a thing by name; programs get the ids.
      const { user_id } = await json('sources', 'describe', 'post-room');
      assert.match(await ok('sources', 'describe', 'post-room'), /user_id +admin$/m);
      assert.match(await ok('workflows', 'deployments', 'say-hello'), /^d_\w+ +1 +1 +admin /m);
      for (const words of [
        ['sources', 'describe', 'post-room'],
        ['subscriptions', 'list'],
        ['subscriptions', 'describe', id],
        ['webhooks', 'describe', 'ledger'],
        ['workflows', 'describe', 'say-hello'],
        ['workflows', 'deployments', 'say-hello'],
      ])
        assert.ok(!(await ok(...words)).includes(user_id), words.join(' '));
      assert.equal(await ok('invoke', 'say-hello', '--path', '?name=Ada'), 'Hello, Ada');
      await service.runInState(flow, 'succeeded');
      assert.equal((await json('runs', 'list', 'say-hello')).length, 1);
      const made = await runCommand(
        place,
        ['accounts', 'create', 'OpenAI', '--name', 'Our Key', '--credentials', '-', '--json'],
        '{"api_key":"k1"}',
      );
      assert.equal(made.code, 0, made.stderr);
      const account = (JSON.parse(made.stdout) as { id: string }).id;
      assert.equal((await json('accounts', 'describe', 'our key')).id, account);
      await writeFile(
        join(folder.path, 'asker.mjs'),
        "export default { key: 'asker', name: 'Asker', version: '0.0.1', props: { openai: { type: 'app', app: 'openai' }, http: '$.interface.http' }, run() {} };",
      );
      const asker = await json('deploy', 'asker.mjs', '--prop', 'openai=our-key');
      assert.equal(asker.configured_props.openai.authProvisionId, account);
      const { body } = await service.api('POST', '/v1/workspaces', { name: 'Night Shift', orgname: 'night' });
      const workspace = (body as { data: { id: string } }).data.id;
      assert.match(
        await fails(3, 'sources', 'describe', 'post room', '--workspace', 'Night Shift'),
        /no source/,
      );
      const theirs = await json(
        'webhooks',
        'create',
        receiver.url,
        '--name',
        'Ledger',
        '--workspace',
        'night',
      );
      assert.equal((await json('webhooks', 'describe', 'ledger', '--workspace', 'NIGHT')).id, theirs.id);
      assert.equal((await json('webhooks', 'list', '--workspace', workspace)).length, 1);
      for (const what of [source, asker.id]) await ok('sources', 'delete', what);
      await ok('workflows', 'delete', 'say-hello');
      await ok('webhooks', 'delete', 'ledger');
      await ok('accounts', 'delete', 'our-key');
      await fails(3, 'webhooks', 'describe', 'ledger');
    });

    test('a name of several objects is an error that lists them with their ids', async () => {
      const ids = [];
      for (const url of ['http://127.0.0.1:1/a', 'http://127.0.0.1:1/b'])
        ids.push((await json('webhooks', 'create', url, '--name', 'Twin')).id);
      const told = await fails(2, 'webhooks', 'delete', 'twin');
      for (const id of ids) assert.match(told, new RegExp(`${id} +webhook +Twin`));
      const { details } = JSON.parse(await fails(2, 'webhooks', 'describe', 'TWIN', '--json'));
      assert.deepEqual(details.candidates.map(({ id }: { id: string }) => id).sort(), ids.sort());
      for (const id of ids) await ok('webhooks', 'delete', id);
      assert.match(await fails(3, 'webhooks', 'describe', 'twin'), /no webhook has the name "twin"/);
    });
  });

  test('viewers get an error that they may not, with exit code 4', async () => {
    const { body } = await service.api('POST', '/v1/users', {
      username: 'viewer',
      email: 'viewer@example.com',
    });
    const me = (await service.api('GET', '/v1/users/me')).body.data;
    const workspace = me.orgs[0].id as string;
    await service.api('POST', `/v1/workspaces/${workspace}/members`, {
      user_id: body.data.id,
      role: 'viewer',
    });
    const viewer = {
      ...place,
      environment: { MILLRACE_URL: service.url, MILLRACE_API_KEY: body.data.api_key as string },
    };
    const { code, stderr } = await runCommand(viewer, [
      'webhooks',
      'create',
      'https://example.com/',
      '--workspace',
      workspace,
    ]);
    assert.equal(code, 4, stderr);
    const listed = await runCommand(viewer, ['webhooks', 'list', '--workspace', workspace, '--json']);
    assert.deepEqual(JSON.parse(listed.stdout), []);
    for (const what of ['sources', 'workflows', 'subscriptions', 'accounts'])
      assert.equal((await runCommand(viewer, [what, 'list', '--workspace', workspace])).code, 0);
    const failed = await runCommand(viewer, ['sources', 'describe', 'dc_nothing', '--json']);
    assert.equal(failed.code, 3);
    assert.equal(JSON.parse(failed.stderr).code, 'not_found');
  });

  test('bash completes commands, their commands and their options', async () => {
    const bash = await ok('completion', 'bash');
    const complete = (...words: string[]): string[] => {
      const script = `${bash}\nCOMP_WORDS=(${words.map((word) => `'${word}'`).join(' ')})\nCOMP_CWORD=${words.length - 1}\n_millrace\nprintf '%s\\n' "\${COMPREPLY[@]}"`;
      return execFileSync('bash', ['-c', script], { encoding: 'utf8' }).trim().split('\n');
    };
    assert.deepEqual(complete('millrace', 'work'), ['workflows', 'workspaces', 'workspace']);
    assert.deepEqual(complete('millrace', 'sources', 'de'), ['describe', 'delete']);
    assert.deepEqual(complete('millrace', 'sources', 'update', 'dc_1', '--in'), ['--inactive']);
    assert.deepEqual(complete('millrace', 'completion', 'z'), ['zsh']);
    for (const shell of ['zsh', 'fish']) {
      const script = await ok('completion', shell);
      assert.match(script, /redeliver/);
      // Only where there is such a shell is there one to judge it.
      const judged = spawnSync(shell, ['-n'], { input: script, encoding: 'utf8' });
      if (judged.error === undefined) assert.equal(judged.status, 0, judged.stderr);
    }
    assert.match(await fails(2, 'completion', 'cmd'), /bash, zsh, fish/);
  });

  test('a reader that stops after the first lines causes no error', async () => {
    const script = `'${process.execPath}' cli/main.ts --help | head -1; exit "\${PIPESTATUS[0]}"`;
    const { status, stdout } = spawnSync('bash', ['-c', script], {
      cwd: new URL('../..', import.meta.url),
      encoding: 'utf8',
    });
    assert.equal(status, 0);
    assert.match(stdout, /Usage: millrace/);
  });

  test('who follows gets every event once, also those of a service that was away', async () => {
    const source = (await json('deploy', 'inbox.mjs', '--prop', 'greeting=x')).id;
    const events = new RunningCommand(place, ['events', source, '-f', '-n', '0']);
    const logs = new RunningCommand(place, ['logs', source, '-f', '-n', '0']);
    // Nothing says that their streams stand: what is sent until then does not count.
    await waitFor(async () => {
      await ok('invoke', source, '-d', '{"name":"first"}');
      return events.stdout.includes('first') && logs.stdout.includes('got first');
    });
    const { port } = new URL(service.url);
    await service.stop();
    await Promise.all([events.says(/trying again/), logs.says(/trying again/)]);
    service = await Millrace.start({
      dataFolder: join(folder.path, 'data'),
      environment: { MILLRACE_NPM_REGISTRY: npm.url, MILLRACE_PORT: port },
    });
    await ok('invoke', source, '-d', '{"name":"second"}');
    await Promise.all([events.says(/second/), logs.says(/got second/)]);
    const [seen, printed] = await Promise.all([events.interrupt(), logs.interrupt()]);
    const ids = seen.stdout.match(/\b\d{13}-\d+\b/g) ?? [];
    assert.equal(new Set(ids).size, ids.length, seen.stdout);
    assert.equal(printed.stdout.match(/got second/g)?.length, 1, printed.stdout);
  });

  test('a logout forgets the key', async () => {
    await appendFile(join(folder.path, 'key'), '');
    await ok('logout');
    assert.doesNotMatch(
      await readFile(join(folder.path, '.config/millrace/config.json'), 'utf8'),
      new RegExp(testApiKey),
    );
    assert.match(await fails(4, 'whoami'), /not logged in/);
    await fails(3, 'logout');
    await ok('logout', '--all');
  });
});

/** Only util-linux's `script` takes a command that way. */
function scriptSkip(): string | false {
  const { stdout } = spawnSync('script', ['--version'], { encoding: 'utf8' });
  return /util-linux/.test(stdout ?? '')
    ? false
    : 'there is no `script` of util-linux to make a terminal with';
}
