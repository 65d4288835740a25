import assert from 'node:assert/strict';
import { mkdir, readFile, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import { type CommandPlace, endCommands, runCommand } from '../support/command-line.ts';
import { createEmittingSource } from '../support/emitting-source.ts';
import { HttpReceiver } from '../support/http-receiver.ts';
import { forEachSharedService } from '../support/millrace.ts';
import { startPipedream, vendorKey, vendorSecret, watchRepository } from '../support/pipedream-stand-in.ts';
import type { ServiceClient } from '../support/service-client.ts';
import { createTempFolder, type TempFolder } from '../support/temp-folder.ts';
import { waitFor } from '../support/wait-for.ts';

/** `millrace import pipedream --api-key-file`. */
forEachSharedService((fixture) => {
  // biome-ignore lint/suspicious/noExplicitAny: reports are looked into.
  type Answer = any;
  let folder: TempFolder;
  let place: CommandPlace;
  let receiver: HttpReceiver;
  const run = (...words: string[]) => runCommand(place, ['import', 'pipedream', ...words]);
  const report = async (...words: string[]): Promise<Answer> => {
    const ended = await run(...words, '--json', '--yes');
    assert.equal(ended.code, 0, ended.stderr);
    return JSON.parse(ended.stdout);
  };
  const data = async (
    service: ServiceClient,
    method: string,
    path: string,
    body?: unknown,
  ): Promise<Answer> => {
    const answer = await service.api(method, path, body);
    assert.ok(answer.status < 300, `${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body?.data ?? answer.body;
  };
  const outcomes = ({ report: { objects } }: Answer) =>
    objects.map(({ kind, old_id, outcome, active }: Answer) => [kind, old_id, outcome, active]);
  const write = async (file: string, text: string) => {
    await mkdir(dirname(join(folder.path, file)), { recursive: true });
    await writeFile(join(folder.path, file), text);
  };

  before(async () => {
    folder = await createTempFolder('what-only-the-api-has');
    receiver = await HttpReceiver.start({ answer: { status: 204 } });
    for (const [path, text] of Object.entries(watchRepository)) await write(`clone/${path}`, text);
    await write('key', `${vendorKey}\n`);
  });
  beforeEach(() => {
    const { url, key } = fixture.service;
    place = { folder: folder.path, environment: { MILLRACE_URL: url, MILLRACE_API_KEY: key } };
  });
  after(async () => {
    await endCommands();
    await receiver?.close();
    await folder?.remove();
  });

  test('what a user of another Millrace has works here after one import, without a repository', async () => {
    const there = fixture.service.as(await fixture.service.createUser('there'));
    const source = await createEmittingSource(there);
    await source.emit([{ n: 1 }, { n: 2 }]);
    // The answer goes out before they are stored, and none of them is for those who subscribe below.
    await waitFor(async () => (await there.events(source.id)).length === 2);
    const workflow = await data(there, 'POST', '/v1/workflows', {
      steps: [
        {
          namespace: 'twice',
          code: 'export default { run({ steps }) { return steps.trigger.event.n * 2; } }',
        },
      ],
      triggers: [
        { type: 'source', props: { source_id: source.id } },
        { type: 'timer', props: { cron: '0 9 * * *', timezone: 'Europe/Berlin' } },
      ],
      settings: { name: 'Twice', auto_deploy: true },
    });
    const webhook = await data(there, 'POST', '/v1/webhooks', { url: receiver.url, name: 'Receiver' });
    await data(there, 'POST', '/v1/subscriptions', { emitter_id: source.id, listener_id: webhook.id });
    await write('there.key', there.key);

    const words = ['--api-key-file', 'there.key', '--api-url', fixture.service.url];
    const done = await report(...words, '--save', 'there.json', '--activate');
    assert.deepEqual(
      outcomes(done).filter(([kind]: string[]) => kind !== 'subscription'),
      [
        ['source', source.id, 'created', true],
        ['webhook', webhook.id, 'created', true],
      ],
    );
    const [moved] = done.report.objects;
    const [twice] = done.report.workflows;
    assert.deepEqual([twice.old_id, twice.outcome, twice.active], [workflow.id, 'created', true]);
    assert.deepEqual(twice.findings, []);
    const triggers = (await data(fixture.service, 'GET', `/v1/workflows/${twice.workflow_id}`)).triggers;
    assert.deepEqual(
      triggers.map((trigger: Answer) => trigger.cron ?? trigger.id),
      [moved.id, '0 9 * * *'],
    );
    const sent = await fetch(moved.address, {
      ...{ method: 'POST', headers: { 'content-type': 'application/json' } },
      body: JSON.stringify({ values: [{ n: 21 }] }),
    });
    assert.equal(sent.status, 200);
    const { steps } = await fixture.service.runInState(twice.workflow_id, 'succeeded');
    assert.equal(steps[0].exports.$return_value, 42);
    assert.equal((await receiver.waitForRequest(1)).headers['x-pd-emitter-id'], moved.id);
    const tests = await data(fixture.service, 'GET', `/v1/workflows/${twice.workflow_id}/test_events`);
    assert.equal(tests.length, 2);

    const saved = await readFile(join(folder.path, 'there.json'), 'utf8');
    assert.equal((await stat(join(folder.path, 'there.json'))).mode & 0o777, 0o600);
    assert.ok(!saved.includes(there.key) && !(await fixture.log()).includes(there.key));
    const again = await report('there.json');
    assert.deepEqual([again.format, again.report.counts.unchanged], ['bundle', 1]);
    for (const [, , outcome] of outcomes(again)) assert.equal(outcome, 'unchanged');

    const undone = JSON.parse((await run('--undo', done.id, '--json', '--yes')).stdout);
    assert.deepEqual([undone.kept, undone.state], [[], 'undone']);
    for (const path of ['sources', 'webhooks', 'subscriptions'])
      assert.deepEqual(await data(fixture.service, 'GET', `/v1/users/me/${path}`), [], path);
  });

  test('an access token may not start an import, and undoes one of its workspace whole', async () => {
    const { service } = fixture;
    const workspace = await data(service, 'POST', '/v1/workspaces', { name: 'Moving by token' });
    const { client_id, client_secret } = await data(
      service,
      'POST',
      `/v1/workspaces/${workspace.id}/oauth_clients`,
      { name: 'mover' },
    );
    const grant = { grant_type: 'client_credentials', client_id, client_secret };
    const { access_token } = await data(service, 'POST', '/v1/oauth/token', grant);
    const byToken = service.as({ key: access_token });
    const archive = (await readFile(join(folder.path, 'there.json'))).toString('base64');
    const refused = await byToken.api('POST', '/v1/imports', { archive, org_id: workspace.id });
    assert.deepEqual([refused.status, refused.body.code], [403, 'user_key_required']);
    const { id } = await data(service, 'POST', '/v1/imports', { archive, org_id: workspace.id });
    const done = await waitFor(async () => {
      const row = await data(byToken, 'GET', `/v1/imports/${id}`);
      return ['done', 'failed'].includes(row.state) && row;
    });
    assert.deepEqual([done.state, done.report.counts.created], ['done', 1]);
    const undone = await data(byToken, 'POST', `/v1/imports/${id}/undo`);
    assert.deepEqual([undone.state, undone.kept], ['undone', []]);
    const kinds = ['webhooks', 'subscriptions', 'workflows'];
    const made = outcomes(done).filter(([, , outcome]: string[]) => outcome === 'created');
    assert.equal(undone.removed, done.report.counts.created + made.length);
    const { id: owner } = workspace;
    for (const path of ['orgs/:id/sources', ...kinds.map((kind) => `workspaces/:id/${kind}`)])
      assert.deepEqual(await data(service, 'GET', `/v1/${path.replace(':id', owner)}`), [], path);
  });

  test('a repository is completed by the API, and a later import of the bundle brings what was missing', async () => {
    const pipedream = await startPipedream({ hookUrl: receiver.url });
    try {
      const words = [
        'clone',
        '--api-key-file',
        'key',
        '--api-url',
        pipedream.url,
        '--api-workspace',
        'o_Team111',
      ];
      const done = await report(...words, '--save', 'watch.json');
      const asked = pipedream.requests.map(({ url }) => url.split('?', 1)[0]);
      assert.equal(asked.filter((path) => path === '/v1/users/me').length, 2, 'once more after 429');
      assert.equal(asked.filter((path) => path === '/v1/users/me/sources').length, 4, 'page by page');
      assert.deepEqual(outcomes(done), [
        ['source', 'dc_Feed111', 'created', false],
        ['source', 'dc_Issue11', 'created', false],
        ['source', 'dc_Lost111', 'failed', false],
        ['webhook', 'wh_Hook111', 'created', true],
        ['webhook', 'wh_Bad1111', 'failed', false],
        ['subscription', 'sub_Feed111', 'created', true],
        ['subscription', 'sub_Issue11', 'created', true],
      ]);
      const parts = done.report.unreadable.map(({ part, reason }: Answer) => `${part}: ${reason}`);
      assert.deepEqual(parts, [
        'sources of workspace o_Team111: the key lacks the right to read sources of workspace o_Team111',
        'webhooks of workspace o_Team111: the API does not have it',
        'component sc_Lost111: the API does not have it',
        'events of source dc_Issue11: the API does not have it',
      ]);
      const [feed, issues] = done.report.objects;
      assert.deepEqual([feed.name, feed.old_address], ['Feed of news', 'https://feed.m.pipedream.net']);
      assert.match(issues.findings[0].message, /gitlab needs an account of gitlab: connect it/);
      assert.deepEqual(
        done.report.accounts.map(({ app, old_id, name }: Answer) => [app, old_id, name]),
        [['gitlab', 'apn_Git1ab', 'Team']],
      );
      const { configured_props: props, active } = await data(
        fixture.service,
        'GET',
        `/v1/sources/${feed.id}`,
      );
      assert.deepEqual(
        [active, props.timer.interval_seconds, props.url],
        [false, 900, 'https://news.example/feed'],
      );
      const [watch] = done.report.workflows;
      const found = await data(fixture.service, 'GET', `/v1/workflows/${watch.workflow_id}`);
      assert.deepEqual(
        found.triggers.map((trigger: Answer) => trigger.cron ?? trigger.id),
        ['0 9 * * *', feed.id],
      );
      const event = await data(
        fixture.service,
        'GET',
        `/v1/workflows/${watch.workflow_id}/test_events/imported%201700000000000-0`,
      );
      assert.deepEqual(event.event, { title: 'An item' });

      const bundle = await readFile(join(folder.path, 'watch.json'), 'utf8');
      for (const secret of [vendorKey, vendorSecret])
        assert.ok(!bundle.includes(secret) && !JSON.stringify(done).includes(secret), secret);
      await pipedream.close();
      const account = await data(fixture.service, 'POST', '/v1/accounts', {
        ...{ app: 'gitlab', name: 'Here', credentials: { token: 'of-here' } },
      });
      const later = await report(
        ...['watch.json', '--account', `gitlab=${account.id}`, '--save', 'remembered.json'],
      );
      const remembered = await readFile(join(folder.path, 'remembered.json'), 'utf8');
      assert.deepEqual(JSON.parse(remembered).answers, {
        accounts: { gitlab: { id: account.id, app: 'gitlab', name: 'Here' } },
      });
      assert.doesNotMatch(remembered, /of-here/);
      assert.deepEqual(
        { ...JSON.parse(remembered), answers: undefined },
        { ...JSON.parse(bundle), answers: undefined },
      );
      assert.deepEqual(
        outcomes(later).filter(([, , outcome]: string[]) => outcome !== 'unchanged' && outcome !== 'failed'),
        [['source', 'dc_Issue11', 'updated', false]],
      );
      assert.deepEqual([later.report.counts.unchanged, later.report.workflows[0].outcome], [1, 'unchanged']);

      // What was changed since stays: by hand, or by the later import.
      await data(fixture.service, 'PUT', `/v1/sources/${feed.id}`, { active: false, name: 'Mine' });
      const undone = JSON.parse((await run('--undo', done.id, '--json', '--yes')).stdout);
      assert.deepEqual(
        undone.kept.map(({ kind, id }: Answer) => [kind, id]),
        [
          ['source', feed.id],
          ['source', issues.id],
        ],
      );
    } finally {
      await pipedream.close();
    }
  });

  test('a key goes only where it may, and a refusal says what is wrong', async () => {
    const elsewhere = await HttpReceiver.start({
      answer: { status: 302, headers: { location: 'http://127.0.0.1:1/' } },
    });
    try {
      const refusal = async (...words: string[]) => {
        const ended = await run(...words);
        assert.notEqual(ended.code, 0, words.join(' '));
        return ended.stderr;
      };
      const key = ['--api-key-file', 'key', '--api-url'];
      assert.match(await refusal(...key, 'http://api.example.com'), /--api-url: expected an https address/);
      assert.match(await refusal(...key, elsewhere.url), /redirects, expected an answer of the API itself/);
      assert.match(
        await refusal(...key, fixture.service.url),
        /the user of the API key: the key is not accepted/,
      );
      assert.match(await refusal('--save', 'none.json', 'clone'), /--save: expected --api-key-file with it/);
      await write('bad.json', '{"format":"millrace-import-bundle","version":9,"api":{}}');
      assert.match(await refusal('bad.json'), /version: found 9, expected 1/);
      await write('empty.json', '{"format":"millrace-import-bundle","version":1,"api":{}}');
      assert.match(await refusal('empty.json'), /there is nothing to import in the bundle/);
      assert.match(
        await refusal('empty.json', ...key, elsewhere.url),
        /a bundle has what the API answered already/,
      );
    } finally {
      await elsewhere.close();
    }
  });
});
