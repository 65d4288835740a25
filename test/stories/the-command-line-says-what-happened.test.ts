import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import { type CommandPlace, type Ended, endCommands, runCommand } from '../support/command-line.ts';
import { HttpReceiver } from '../support/http-receiver.ts';
import { forEachSharedService } from '../support/millrace.ts';
import { createTempFolder, type TempFolder } from '../support/temp-folder.ts';
import { waitFor } from '../support/wait-for.ts';

/** What commands show of workflows, runs, sends and variables. */
forEachSharedService((fixture) => {
  let folder: TempFolder;
  let place: CommandPlace;
  const run = (...words: string[]): Promise<Ended> => runCommand(place, words);
  const ok = async (...words: string[]): Promise<string> => {
    const ended = await run(...words);
    assert.equal(ended.code, 0, `millrace ${words.join(' ')}\n${ended.stderr}${ended.stdout}`);
    return ended.stdout;
  };

  before(async () => {
    folder = await createTempFolder('command-line-says');
  });
  beforeEach(() => {
    const { url, key } = fixture.service;
    place = { folder: folder.path, environment: { MILLRACE_URL: url, MILLRACE_API_KEY: key } };
  });
  after(async () => {
    await endCommands();
    await folder?.remove();
  });

  test('a workflow is described with the props of its steps', async () => {
    const { id } = await fixture.service.createWorkflow({
      triggers: [{ type: 'http' }],
      steps: [
        {
          namespace: 'mail',
          component: 'email-send-email-to-self',
          props: { subject: 'New order', text: 'x' },
        },
      ],
    });
    assert.match(await ok('workflows', 'describe', id), /email-send-email-to-self +\{"subject":"New order"/);
  });

  test('who deactivates a source is told that runs of it continue', async () => {
    await using receiver = await HttpReceiver.start();
    const { promise, resolve: letGo } = Promise.withResolvers<{ body: string }>();
    receiver.answerOnce(() => promise);
    const slow = `export default { name: 'Slow', props: { http: '$.interface.http' },
      async run() { await fetch('${receiver.url}'); } };`;
    const { id, configured_props } = await fixture.service.createSource({ component_code: slow });
    await fetch(configured_props.http.endpoint_url, { method: 'POST', body: '{}' });
    await receiver.waitForRequest();
    assert.match(
      (await run('sources', 'update', id, '--inactive')).stderr,
      new RegExp(
        `it is inactive\\. Runs of it .* continue \\(1\\); .millrace sources delete ${id}. ends them`,
      ),
    );
    letGo({ body: '' });
    await waitFor(async () =>
      /it is inactive\.$/.test((await run('sources', 'update', id, '--inactive')).stderr.trim()),
    );
  });

  test('a send that failed is on the list of runs, and an action whose send failed ends with 1', async () => {
    const { id, triggers } = await fixture.service.createWorkflow({
      triggers: [{ type: 'http' }],
      steps: [
        { namespace: 'mail', component: 'email-send-email-to-self', props: { subject: 's', text: 'x' } },
      ],
    });
    await fetch(triggers[0].endpoint_url);
    await waitFor(async () => (await fixture.service.runs(id))[0]?.failed_sends === 1);
    assert.match(await ok('runs', 'list', id), /succeeded, 1 send failed +HTTP /);
    assert.match(await ok('logs', id), /\$\.send\.email error +no mail server is set/);
    assert.match(await ok('workflows', 'describe', id), /failing: .*email: no mail server is set/);
    assert.match(await ok('workflows', 'list'), /failing .* succeeded .*email: no mail server is set/);
    const ended = await run(
      'invoke',
      'email-send-email-to-self',
      '--prop',
      'subject=s',
      '--prop',
      'text=x',
      '-y',
    );
    assert.equal(ended.code, 1, ended.stderr);
    assert.match(ended.stderr, /^send email: failed: no mail server is set/m);
  });

  test('runs say how they were made, and take their event from a file', async () => {
    const { id, triggers } = await fixture.service.createWorkflow({
      triggers: [{ type: 'http' }],
      steps: [
        {
          namespace: 'leave',
          code: `export default defineComponent({ async run({ $ }) { return $.flow.exit('nothing to do'); } });`,
        },
      ],
    });
    await fetch(triggers[0].endpoint_url);
    const first = await fixture.service.runInState(id, 'succeeded');
    await writeFile(join(folder.path, 'event.json'), '{"from":"a file"}');
    const again = (await ok('runs', 'replay', first.id, '-e', '@event.json')).trim();
    await waitFor(async () => (await fixture.service.runDetail(again)).state === 'succeeded');
    assert.deepEqual((await fixture.service.runDetail(again)).event, { from: 'a file' });
    await ok('test-events', 'put', id, 'sample', '--run', first.id);
    await ok('test-events', 'run', id, 'sample');
    const listed = await ok('runs', 'list', id);
    assert.match(listed, /REASON/);
    assert.doesNotMatch(listed, /ERROR/);
    assert.match(listed, / HTTP, again /);
    assert.match(listed, / HTTP, test event /);
    assert.match(listed, / HTTP {2,}.*nothing to do/);
  });

  test('a name outside of the settings is reported, because nothing reads it', async () => {
    const definition = { name: 'orders', triggers: [], steps: [] };
    await writeFile(join(folder.path, 'named.json'), JSON.stringify(definition));
    const made = await run('workflows', 'create', '--file', 'named.json', '--inactive');
    assert.match(made.stderr, /name is not used; the name of a workflow is settings\.name/);
    await writeFile(
      join(folder.path, 'named.json'),
      JSON.stringify({ ...definition, settings: { name: 'orders' } }),
    );
    const right = await run('workflows', 'create', '--file', 'named.json', '--inactive');
    assert.doesNotMatch(right.stderr, /name is not used/);
  });

  test('a step that calls a workflow which is not there is a warning of create, update and describe', async () => {
    const definition = { steps: [{ namespace: 'ask', block: 'call', workflow: 'p_none' }] };
    await writeFile(join(folder.path, 'calls.json'), JSON.stringify(definition));
    const made = await run('workflows', 'create', '--file', 'calls.json');
    const warning = /Warning: steps\.ask calls the workflow "p_none", which does not exist among your own\./;
    assert.equal(made.code, 0, made.stderr);
    assert.match(made.stderr, warning);
    const id = made.stdout.trim().split(/\s/)[0] ?? '';
    assert.match((await run('workflows', 'update', id, '--file', 'calls.json')).stderr, warning);
    assert.match((await run('workflows', 'describe', id)).stderr, warning);
  });

  test('a variable that is secret gets no value as an argument, and a .env file is named by its lines', async () => {
    await fixture.service.api('PUT', '/v1/variables/API_KEY', { value: 'k-1', secret: true });
    const refused = await run('env', 'set', 'API_KEY', 'k-2');
    assert.equal(refused.code, 2);
    assert.match(
      refused.stderr,
      /API_KEY is secret, and its value was given as an argument[\s\S]*--file FILE/,
    );
    await ok('env', 'set', 'API_KEY', 'k-2', '--plain');
    await writeFile(join(folder.path, 'odd.env'), 'FINE=1\nno equals sign\nFINE=2\n');
    const odd = await run('env', 'import', 'odd.env');
    assert.match(odd.stderr, /^odd\.env: line 2 sets nothing/m);
    assert.match(odd.stderr, /^odd\.env: line 3 sets FINE again/m);
    await writeFile(join(folder.path, 'bad.env'), 'FINE=1\n\n# a comment\nPATH=/bin\nB-D=1\n');
    assert.match((await run('env', 'import', 'bad.env')).stderr, /bad\.env, line [45]: (?:PATH|B-D): name: /);
    for (const name of ['API_KEY', 'FINE']) await ok('env', 'unset', name);
    assert.match((await run('env', 'unset', 'FINE')).stderr, /`millrace env list` shows/);
  });

  test('what is not there is answered with the command that lists what is', async () => {
    const hints: [string[], RegExp][] = [
      [['runs', 'describe', 'run_x'], /^no run "run_x"\n`millrace runs list WORKFLOW` shows/],
      [['apps', 'describe', 'nope'], /^no app "nope"\n`millrace apps list WORDS` shows/],
      [
        ['accounts', 'create', 'nope'],
        /^the app nope is not in the catalogue, .*\n`millrace apps list WORDS` shows the apps\. An account of another app works too/,
      ],
      [
        ['deploy', '@pipedream/rss'],
        /^there is no component "@pipedream\/rss"\nThat is the name of an npm package\. `millrace registry add @pipedream\/rss`/,
      ],
      [['deploy', 'nope'], /^there is no component "nope"\n`millrace components list WORDS` shows/],
      [['subscriptions', 'describe', 'sub_x'], /`millrace subscriptions list` shows/],
      [['deliveries', 'list', 'nope'], /^no webhook, workflow or source has the name "nope"/],
    ];
    for (const [words, hint] of hints) {
      const ended = await run(...words);
      assert.equal(ended.code, 3, words.join(' '));
      assert.match(ended.stderr, hint, words.join(' '));
    }
    const { MILLRACE_URL: url, ...rest } = place.environment ?? {};
    const elsewhere = await runCommand({ ...place, environment: { ...rest, MILLRACE_URL: `${url}/api` } }, [
      'whoami',
    ]);
    assert.match(elsewhere.stderr, /Check the URL of the login/);
  });

  test('a file that is deployed again is another source, and the older one is named with how to change it in place', async () => {
    const code = (word: string) =>
      `export default { key: 'again', version: '0.0.1', props: { http: '$.interface.http' }, run() { this.$emit('${word}'); } };`;
    await writeFile(join(folder.path, 'again.mjs'), code('one'));
    const first = await run('deploy', 'again.mjs');
    assert.equal(first.code, 0, first.stderr);
    assert.doesNotMatch(first.stderr, /another source/);
    const [id = ''] = first.stdout.split(' ');
    await writeFile(join(folder.path, 'again.mjs'), code('two'));
    const second = await run('deploy', 'again.mjs');
    assert.match(
      second.stderr,
      new RegExp(`another source: ${id} \\(again\\) keeps its code.* update ${id} --code again.mjs`),
    );
    const codeOf = async () => JSON.parse(await ok('sources', 'describe', id, '--json')).component_id;
    const before = await codeOf();
    await ok('sources', 'update', id, '--code', 'again.mjs');
    assert.notEqual(await codeOf(), before);
  });
});
