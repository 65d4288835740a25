/** A synced repository of 25 workflows comes here by one command: how long it takes, what is said of it, and whether it answers as before. */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { availableParallelism, loadavg } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import nodemailer from 'nodemailer';
import { parse } from 'yaml';
import { CertificateAuthority } from '../support/certificates.ts';
import {
  type CommandPlace,
  type Ended,
  endCommands,
  RunningCommand,
  runCommand,
} from '../support/command-line.ts';
import { borrowTestDatabase, postgresSkip, type TestDatabase } from '../support/databases.ts';
import { freePort } from '../support/free-port.ts';
import { GitRepository, GitServer, gitSkip } from '../support/git-repository.ts';
import { HttpReceiver } from '../support/http-receiver.ts';
import { Millrace, testApiKey } from '../support/millrace.ts';
import { startNpmRegistry } from '../support/npm-registry.ts';
import { PlainMailServer } from '../support/plain-mail-server.ts';
import { expectedReport } from '../support/project-of-25/expected-report.ts';
import {
  type RecordedRequest,
  recordedRequests,
  testEvents,
  worldAnswers,
} from '../support/project-of-25/recorded-requests.ts';
import {
  branchFolder,
  commitsOf25,
  packagesOf25,
  projectOf25,
  secretsOf25,
  variablesOf25,
} from '../support/project-of-25.ts';
import { storesOfStory, turnVariable } from '../support/story-stores.ts';
import { createTempFolder, type TempFolder } from '../support/temp-folder.ts';
import { waitFor } from '../support/wait-for.ts';
import { exportsOf } from '../support/workflow-stories.ts';
import { makeZip } from '../support/zip-archive.ts';

/** What a user waits at most, on a machine that has nothing else to do. */
const importMsMax = 60_000;
const commandPatienceMs = 400_000;

// biome-ignore lint/suspicious/noExplicitAny: reports are looked into.
type Answer = any;

for (const dialect of storesOfStory(import.meta.filename, process.env[turnVariable])) {
  const skip = gitSkip() || (dialect === 'postgres' && postgresSkip());
  describe(`a project of 25 workflows, on ${dialect}`, { skip }, () => {
    let folder: TempFolder;
    let database: TestDatabase | undefined;
    let repository: GitRepository;
    let git: GitServer;
    let npm: Awaited<ReturnType<typeof startNpmRegistry>>;
    let world: HttpReceiver;
    let mails: PlainMailServer;
    let mailPort: number;
    let service: Millrace;
    let place: CommandPlace;
    let files: Record<string, string>;
    const accounts: Record<string, string> = {};
    let report: Answer;
    let text: Ended;

    const data = async (method: string, path: string, body?: unknown): Promise<Answer> => {
      const answer = await service.api(method, path, body);
      assert.ok(answer.status < 300, `${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
      return answer.body?.data;
    };
    const named = (name: string): Answer => {
      const found = report.workflows.find((one: Answer) => one.name === name);
      assert.ok(found !== undefined, name);
      return found;
    };

    before(async () => {
      folder = await createTempFolder('project-of-25');
      world = await HttpReceiver.start();
      world.answerAlways(({ url, body }) => {
        const [, answer] = worldAnswers.find(([start]) => url.startsWith(start)) ?? [];
        return answer === undefined ? { status: 404 } : { body: answer(body.toString()) };
      });
      files = projectOf25(world.url);
      // Registry and Git server have certificates of a private authority.
      const authority = new CertificateAuthority();
      npm = await startNpmRegistry(() => [...packagesOf25], { tls: authority.issue(['127.0.0.1']) });
      repository = await GitRepository.create();
      for (const commit of commitsOf25(world.url)) await repository.commit(commit);
      git = await GitServer.start({ 'components.git': repository.path }, authority);
      mails = await PlainMailServer.start();
      mailPort = await freePort();
      await writeFile(join(folder.path, 'ca.pem'), authority.pem);
      if (dialect === 'postgres') database = await borrowTestDatabase();
      service = await Millrace.start({
        dataFolder: join(folder.path, 'data'),
        ...(database === undefined ? {} : { databaseUrl: database.url }),
        environment: {
          MILLRACE_EXTRA_CA: join(folder.path, 'ca.pem'),
          MILLRACE_NPM_REGISTRY: npm.url,
          MILLRACE_SMTP_PORT: String(mailPort),
          MILLRACE_SMTP_URL: mails.url,
          MILLRACE_EMAIL_FROM: 'millrace@example.com',
        },
      });
      await data('POST', '/v1/registry/packages', { name: '@nursery/greenhouse', version: '1.0.0' });
      const { id } = await data('POST', '/v1/registry/repositories', { url: git.urlOf('components.git') });
      await waitFor(async () => (await data('GET', `/v1/registry/repositories/${id}`)).state === 'ready');
      for (const [slug, key] of [
        ['beacon_api', 'key-of-beacon'],
        ['catalog', 'key-of-catalog'],
      ] as const) {
        await data('POST', '/v1/apps', {
          ...{ slug, name: slug, auth_type: 'keys', custom_fields: [{ name: 'api_key', label: 'Key' }] },
        });
        accounts[slug] = (
          await data('POST', '/v1/accounts', { app: slug, credentials: { api_key: key } })
        ).id;
      }
      const variables = { ...variablesOf25, WAREHOUSE_URL: world.url };
      await writeFile(
        join(folder.path, 'nursery.env'),
        Object.entries(variables)
          .map(([name, value]) => `${name}="${value}"\n`)
          .join(''),
      );
      await writeFile(
        join(folder.path, 'nursery.zip'),
        makeZip(
          Object.entries(files).map(([path, content]) => ({ path: `${branchFolder}/${path}`, content })),
        ),
      );
      place = {
        folder: folder.path,
        environment: { MILLRACE_URL: service.url, MILLRACE_API_KEY: testApiKey },
      };
    });

    after(async () => {
      await endCommands();
      await service?.stop();
      await git?.[Symbol.asyncDispose]();
      await repository?.[Symbol.asyncDispose]();
      await npm?.close();
      await mails?.close();
      await world?.close();
      await database?.drop();
      await folder?.remove();
    });

    const words = () => [
      ...['import', 'pipedream', 'nursery.zip', '--activate', '--env', 'nursery.env'],
      ...Object.entries(accounts).flatMap(([app, id]) => ['--account', `${app}=${id}`]),
    ];

    test('one command brings it in less than a minute', async (t) => {
      const begunAt = performance.now();
      const command = new RunningCommand(place, [...words(), '--markdown', 'report.md']);
      text = await command.ended(commandPatienceMs);
      const tookMs = performance.now() - begunAt;
      // A machine with several times more to do than it has cores takes as many times longer.
      const load = Math.max(1, (loadavg()[0] ?? 0) / availableParallelism());
      t.diagnostic(
        `import of 25 workflows: ${(tookMs / 1000).toFixed(1)} s at ${load.toFixed(1)} times the load`,
      );
      assert.equal(text.code, 0, `${text.stderr}${text.stdout}`);
      assert.ok(tookMs < importMsMax * load, `${tookMs} ms`);
      const [, id = ''] = /--undo (imp_\w+)/.exec(text.stderr) ?? [];
      const row = await data('GET', `/v1/imports/${id}`);
      report = row.report;
      assert.deepEqual([row.state, row.error, row.progress], ['done', null, { done: 25, total: 25 }]);
    });

    test('the report says of each whether something is left to do, and what', async () => {
      assert.match(
        text.stdout,
        /^Workflows\n25 workflows: 10 converted, 10 to check, 5 with something to do by hand\n/,
      );
      assert.match(text.stderr, /Set 9 variables as secrets\./);
      assert.match(await readFile(join(folder.path, 'report.md'), 'utf8'), /\n## Clean up: by hand\n/);
      const found = report.workflows.map(
        ({ name, status, outcome, active, was_active, folder: at }: Answer) => [
          ...[name, at, status, outcome, active, was_active],
        ],
      );
      const expected = Object.entries(expectedReport).map(([name, { at = '', status, wasActive = true }]) => [
        ...[name, at, status, 'created', status !== 'by_hand', wasActive],
      ]);
      assert.deepEqual(found.sort(), expected.sort());
      for (const [name, { findings = [] }] of Object.entries(expectedReport)) {
        const told = named(name).findings.map(
          ({ level, step, message }: Answer) => `${level} ${step}: ${message}`,
        );
        assert.equal(told.length, findings.length, `${name}: ${told.join('\n')}`);
        for (const pattern of findings)
          assert.ok(
            told.some((one: string) => pattern.test(one)),
            `${name}: ${pattern} in ${told.join('\n')}`,
          );
      }
    });

    test('it says what is needed once for all of them', () => {
      const used = ({ workflows }: Answer) => workflows.join(', ');
      assert.deepEqual(
        report.accounts.map(({ app, old_id, account_id, places }: Answer) => [
          app,
          old_id,
          account_id,
          places,
        ]),
        [
          [
            'beacon_api',
            'apn_Beac0n',
            accounts.beacon_api,
            ['Python report: collect.tower', 'Respond now: deliver.beacon'],
          ],
          ['catalog', 'apn_C4talg', accounts.catalog, ['Catalog search: find.catalog']],
          ['chatter', 'apn_Chatt3', null, ['Chat post: post.chatter']],
        ],
      );
      assert.deepEqual(
        report.data_stores.map((store: Answer) => [store.old_id, used(store)]),
        [
          ['ds_Gu3sts', 'Guest book'],
          ['ds_V1sits', 'Guest book, Visitor counter'],
        ],
      );
      assert.deepEqual(
        report.variables
          .filter(({ secret }: Answer) => !secret)
          .map((one: Answer) => [one.name, one.set, used(one)]),
        [
          ['CURRENCY', true, 'Quote'],
          ['LABEL_PREFIX', true, 'Label printer'],
          ['REPORT_URL', true, 'Python report'],
          ['RETENTION_DAYS', true, 'Clean up'],
          ['SHOP_ID', true, 'Stock lookup'],
          ['STAMP_ZONE', true, 'Stamp'],
          ['SUPPORT_NAME', true, 'Inbox'],
          ['WAREHOUSE_URL', true, 'Respond now'],
          ['WEEK_START', true, 'Weekly numbers'],
        ],
      );
      const actions = new Map<string, string[]>();
      for (const { key, version, state } of report.actions)
        actions.set(state, [...(actions.get(state) ?? []), `${key}@${version}`]);
      assert.deepEqual(actions.get('exact'), ['catalog-find-item@0.0.1', 'greenhouse-water-plan@0.0.3']);
      assert.deepEqual(actions.get('missing'), ['billing-charge@1.0.0', 'chatter-post-message@0.2.17']);
      assert.equal(actions.get('included')?.length, 12);
      assert.equal(actions.get('other_version'), undefined);
    });

    test('every key of every file is in the report', () => {
      const counted = new Map<string, number>();
      for (const { key, count } of report.keys) counted.set(key, (counted.get(key) ?? 0) + count);
      assert.deepEqual(Object.fromEntries([...counted].sort()), keysIn(files));
      assert.deepEqual(
        report.keys.filter(({ outcome }: Answer) => outcome === 'unknown').map(({ key }: Answer) => key),
        ['steps[].continue_on_error'],
      );
    });

    test('every prop has its value here, or is in the comment of a step that has to be done by hand', async () => {
      const emptySlots = new Set(
        report.accounts.flatMap(({ account_id, places }: Answer) => (account_id === null ? places : [])),
      );
      let props = 0;
      for (const [path, content] of Object.entries(files)) {
        if (!path.endsWith('workflow.yaml')) continue;
        const { name, steps = [] } = parse(content);
        const here = await data('GET', `/v1/workflows/${named(name).workflow_id}`);
        for (const [at, step] of steps.entries())
          for (const [prop, value] of Object.entries(step.props ?? {})) {
            if (value === null || prop === '__configurableProps') continue;
            props += 1;
            const place = `${step.namespace}.${prop}`;
            const isKept = Object.hasOwn(JSON.parse(here.steps[at].configured_props_json ?? '{}'), prop);
            const isShown = here.steps[at].code_raw?.includes(`"${prop}":`) === true;
            const isSlot = emptySlots.has(`${name}: ${place}`);
            assert.ok(isKept || isShown || isSlot, `${name}: ${place}`);
          }
      }
      assert.ok(props > 60, `${props} props`);
    });

    test('settings, notes and disabled steps are here as they were there', async () => {
      const read = (name: string) => data('GET', `/v1/workflows/${named(name).workflow_id}`);
      const weekly = await read('Weekly numbers');
      assert.deepEqual([weekly.settings.timeout_seconds, weekly.settings.memory_mb], [120, 1024]);
      assert.deepEqual(
        weekly.steps.map(({ namespace, disabled, note }: Answer) => [namespace, disabled, note]),
        [
          ['unused', true, 'Not used since spring'],
          ['tell_team', true, null],
          ['sum', false, 'First\n\nSecond'],
        ],
      );
      const quote = await read('Quote');
      assert.deepEqual([quote.settings.timeout_seconds, quote.settings.memory_mb], [40, 256]);
      assert.equal(quote.steps[0].note, '**Each plant** counts.\n\nExtras are added once.');
      const python = await read('Python report');
      assert.deepEqual([python.steps[0].disabled, python.steps[1].disabled], [true, false]);
      assert.match(python.steps[0].code_raw, /requests\.get\(os\.environ\["REPORT_URL"\]/);
      assert.match(python.steps[0].code_raw, /"since": "\{\{steps\.trigger\.event\.body\.since\}\}"/);
      const [timer] = (await read('Clean up')).triggers;
      assert.equal(timer, undefined, 'its schedule is not in a repository');
    });

    for (const [number, recorded] of recordedRequests.entries())
      test(`request ${number + 1}, to ${recorded.workflow}, is answered as there`, async () => {
        world.requests.splice(0);
        const { workflow_id, triggers } = named(recorded.workflow);
        const answer = await send(triggers[0].address, recorded.request);
        matches(answer, recorded.response);
        const run = await waitFor(async () => {
          const runs = await service.runs(workflow_id);
          const ended = recordedRequests
            .slice(0, number + 1)
            .filter((one) => one.workflow === recorded.workflow);
          return runs.length === ended.length && runs[0].ended_at !== null && runs[0];
        });
        assert.equal(run.state, 'succeeded');
        const exports = exportsOf(await service.runDetail(run.id));
        for (const [step, expected] of Object.entries(recorded.exports ?? {})) {
          if (Object.keys(expected).length === 0) assert.deepEqual(exports[step] ?? {}, {}, step);
          for (const [name, value] of Object.entries(expected))
            assert.deepEqual(exports[step]?.[name], value, `${step}.${name}`);
        }
        if (recorded.sent === undefined) return;
        const [sent] = world.requests;
        assert.ok(sent !== undefined, 'a request of the workflow');
        const { method, url, headers, body } = recorded.sent;
        assert.deepEqual([sent.method, sent.url, sent.body.toString()], [method, url, body]);
        for (const [name, value] of Object.entries(headers))
          if (value instanceof RegExp) assert.match(sent.headers[name] as string, value);
          else assert.equal(sent.headers[name], value, name);
      });

    test('a mail to the address of the inbox runs it, and its owner gets a mail', async () => {
      const inbox = named('Inbox');
      // As the report says: a later step would get "[redacted]".
      const { command } = inbox.findings.find(({ step }: Answer) => step === 'triage');
      const [, ...entered] = command.split(' ');
      const set = await runCommand(place, [...entered, '--file', '-'], 'Nursery');
      assert.equal(set.code, 0, set.stderr);
      const transport = nodemailer.createTransport({ host: '127.0.0.1', port: mailPort, ignoreTLS: true });
      const { address: to } = inbox.triggers[0];
      const text = 'On the roses.\n';
      await transport.sendMail({ from: 'Ada <ada@sender.example>', to, subject: 'Aphids', text });
      transport.close();
      const run = await service.runInState(inbox.workflow_id, 'succeeded');
      assert.deepEqual(exportsOf(run).triage?.$return_value, {
        ...{ subject: '[Nursery] Aphids', text: 'ada@sender.example: On the roses.' },
      });
      const mail = await waitFor(() => mails.mails[0], { what: 'a mail' });
      assert.equal(mail.content.subject, '[Nursery] Aphids');
      assert.match(String(mail.content.text), /^ada@sender\.example: On the roses\./);
    });

    for (const [name, event, expected] of testEvents)
      test(`${name}, whose trigger is by hand, runs ${JSON.stringify(event)} as there`, async () => {
        const { workflow_id } = named(name);
        const path = `/v1/workflows/${workflow_id}/test_events/recorded`;
        await data('PUT', path, { event });
        const { run_id } = await data('POST', `${path}/run`);
        const run = await waitFor(async () => {
          const detail = await service.runDetail(run_id);
          return detail.ended_at !== null && detail;
        });
        assert.deepEqual([run.state, exportsOf(run)], ['succeeded', expected]);
      });

    test('secrets that stood in clear are in no answer and in no log', async () => {
      const workflows = await Promise.all(
        report.workflows.map(({ workflow_id }: Answer) => data('GET', `/v1/workflows/${workflow_id}`)),
      );
      const everything = [JSON.stringify([report, workflows]), text.stdout, text.stderr, service.output].join(
        '\n',
      );
      for (const secret of secretsOf25) assert.ok(!everything.includes(secret), secret);
    });

    test('the same command again changes nothing', async () => {
      const again = await runCommand(place, [...words(), '--json']);
      assert.equal(again.code, 0, again.stderr);
      const { counts } = JSON.parse(again.stdout).report;
      assert.deepEqual([counts.unchanged, counts.created, counts.updated, counts.conflict], [25, 0, 0, 0]);
    });
  });
}

async function send(url: string, { path = '', headers, body }: RecordedRequest['request']) {
  const response = await fetch(`${url}${path}`, {
    ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
    headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
  });
  const content = await response.text();
  const isJson = response.headers.get('content-type')?.startsWith('application/json') === true;
  return { status: response.status, headers: response.headers, body: isJson ? JSON.parse(content) : content };
}

function matches(
  answer: Awaited<ReturnType<typeof send>>,
  { status, headers, body }: RecordedRequest['response'],
) {
  assert.equal(answer.status, status, JSON.stringify(answer.body));
  for (const [name, value] of Object.entries(headers ?? {}))
    assert.equal(answer.headers.get(name), value, name);
  if (body instanceof RegExp) return assert.match(answer.body, body);
  if (typeof body !== 'object' || body === null) return assert.equal(answer.body, body);
  for (const [name, value] of Object.entries(body))
    if (value instanceof RegExp) assert.match(answer.body[name], value);
  const fixed = (value: object) =>
    Object.fromEntries(Object.entries(value).filter(([name]) => !(Object(body)[name] instanceof RegExp)));
  assert.deepEqual(
    Array.isArray(body) ? answer.body : fixed(answer.body),
    Array.isArray(body) ? body : fixed(body),
  );
}

/** Every key of the definitions, with how often it stands there; counted by another reader than that of the import. */
function keysIn(files: Record<string, string>): Record<string, number> {
  const counts: Record<string, number> = {};
  const count = (prefix: string, value: unknown) => {
    for (const name of Object.keys(value ?? {})) counts[prefix + name] = (counts[prefix + name] ?? 0) + 1;
  };
  for (const [path, content] of Object.entries(files)) {
    if (path.endsWith('.workflow.state')) count('.workflow.state: ', parse(content));
    if (!path.endsWith('workflow.yaml')) continue;
    const definition = parse(content);
    count('', definition);
    count('settings.', definition.settings);
    for (const trigger of definition.triggers) count('triggers[].', trigger);
    for (const step of definition.steps ?? []) {
      count('steps[].', step);
      for (const _prop of Object.keys(step.props ?? {})) count('steps[].props.', { '*': true });
    }
  }
  return Object.fromEntries(Object.entries(counts).sort());
}
