import assert from 'node:assert/strict';
import { test } from 'node:test';
import { forEachSharedService } from '../support/millrace.ts';
import { secretsInClear, syncedRepository } from '../support/synced-repository.ts';
import { waitFor } from '../support/wait-for.ts';
import { makeZip } from '../support/zip-archive.ts';

forEachSharedService((fixture) => {
  // biome-ignore lint/suspicious/noExplicitAny: reports are looked into.
  type Answer = any;
  const data = async (method: string, path: string, body?: unknown): Promise<Answer> => {
    const answer = await fixture.service.api(method, path, body);
    assert.ok(answer.status < 300, `${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body?.data;
  };
  const settled = (id: string) =>
    waitFor(async () => {
      const row = await data('GET', `/v1/imports/${id}`);
      return ['done', 'failed'].includes(row.state) && row;
    });
  const bring = async (files: Record<string, string>, more: Record<string, unknown> = {}) =>
    settled((await data('POST', '/v1/imports', { files, ...more })).id);
  const named = (row: Answer, name: string) => {
    const found = row.report.workflows.find((one: Answer) => one.name === name);
    assert.ok(found !== undefined, name);
    return found;
  };
  /** A project of its own, so that no test finds what another has imported. */
  const project = async (name: string) => {
    const { orgs } = await data('GET', '/v1/users/me');
    const org_id = orgs[0].id;
    const { id } = await data('POST', `/v1/workspaces/${org_id}/projects`, { name });
    return { org_id, project_id: id };
  };
  const post = async (url: string, body: unknown) => {
    const response = await fetch(url, {
      ...{ method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) },
    });
    return { status: response.status, body: await response.text() };
  };
  const workflowsOf = async (id: string): Promise<Answer[]> =>
    data('GET', `/v1/projects/${id}/workflows?limit=100`);
  const simple = (rest = '', name = 'One') => ({
    'one-p_One111/workflow.yaml': `schema: workflow/2022.04\nname: ${name}\ntriggers:\n- id: hi_One111\nsteps:\n- namespace: answer\n  runtime: nodejs20.x\n  uses: ./answer/entry.js\n${rest}`,
    'one-p_One111/answer/entry.js':
      'export default { async run({ steps, $ }) { await $.respond({ status: 200, body: "first" }); } };',
  });

  test('a synced repository becomes workflows that answer as the originals did', async () => {
    const place = await project('answers');
    await data('PUT', '/v1/variables', {
      ...place,
      variables: ['SHOP_NAME', 'API_HOST', 'OTHER'].map((name) => ({ name, value: `of ${name}` })),
    });
    const archive = makeZip(
      Object.entries(syncedRepository()).map(([path, content]) => ({
        path: `repo-production/${path}`,
        content,
      })),
    ).toString('base64');
    const planned = await data('POST', '/v1/imports', { archive, dry_run: true, ...place });
    assert.equal(planned.id, null);
    assert.deepEqual(await workflowsOf(place.project_id), [], 'a dry run writes nothing');
    const row = await settled((await data('POST', '/v1/imports', { archive, activate: true, ...place })).id);
    assert.deepEqual([row.state, row.error, row.progress], ['done', null, { done: 6, total: 6 }]);
    const found = row.report.workflows.map(({ name, status, outcome, active }: Answer) => [
      name,
      status,
      outcome,
      active,
    ]);
    assert.deepEqual(found, [
      ['Call', 'check', 'created', true],
      ['Empty', 'check', 'created', true],
      ['Legacy', 'check', 'created', true],
      ['Orders', 'check', 'created', true],
      // It was inactive there, and needs a hand.
      ['Yes', 'by_hand', 'created', false],
      ['songs', 'by_hand', 'created', false],
    ]);
    for (const { name, status, was_active } of planned.report.workflows) {
      assert.equal(status, named(row, name).status, name);
      assert.equal(was_active, name !== 'Yes', name);
      assert.equal(named(row, name).was_active, was_active, name);
    }
    assert.deepEqual(row.report.keys, planned.report.keys);

    const orders = await post(named(row, 'Orders').triggers[0].address, { quantity: 4, tag: 'two' });
    assert.deepEqual(
      [orders.status, JSON.parse(orders.body)],
      [200, { total: 12, label: 'piece', tags: ['one', 'two'], shop: 'of SHOP_NAME', host: 'of API_HOST' }],
    );
    const legacy = await post(named(row, 'Legacy').triggers[0].address, { name: 'Ada' });
    assert.deepEqual([legacy.status, JSON.parse(legacy.body)], [201, { hello: 'Ada' }]);
    const run = await fixture.service.runInState(named(row, 'Legacy').workflow_id, 'succeeded');
    const { steps } = await data('GET', `/v1/runs/${run.id}`);
    assert.deepEqual(steps[0].exports, { seen: 'Ada', $return_value: 'greeted' });
    const [python, , , gone] = (await data('GET', `/v1/workflows/${named(row, 'songs').workflow_id}`)).steps;
    assert.equal(python.disabled, true);
    assert.match(python.code_raw, /os\.environ\["PY_HOST"\] {2}# a \* \/ in a comment/);
    assert.match(gone.code_raw, /Not imported: \.\/gone\/entry\.js is not in the export/);
    const digest = await data('GET', `/v1/workflows/${named(row, 'Yes').workflow_id}`);
    assert.deepEqual(digest.settings.timeout_seconds, null);
    assert.deepEqual(JSON.parse(digest.steps[0].configured_props_json), {
      cache: row.report.data_stores[0].data_store_id,
    });
    const settings = (await data('GET', `/v1/workflows/${named(row, 'Orders').workflow_id}`)).settings;
    assert.deepEqual([settings.timeout_seconds, settings.memory_mb], [45, 512]);
  });

  test('secrets that stood in clear are secret variables, and nowhere else', async () => {
    const place = await project('secrets');
    const row = await bring(syncedRepository(), place);
    const variables = row.report.variables.filter(({ secret }: Answer) => secret);
    assert.deepEqual(
      variables.map(({ name, set }: Answer) => [name.replace(/_[0-9A-F]{6}$/, ''), set]),
      [
        ['CALL_API_KEY', true],
        ['CALL_TOKEN', true],
        ['CALL_X_API_KEY', true],
        ['POST_TOKEN', true],
      ],
    );
    const { steps } = await data('GET', `/v1/workflows/${named(row, 'Call').workflow_id}`);
    const { httpRequest } = JSON.parse(steps[0].configured_props_json);
    assert.match(httpRequest.auth.token, /^\{\{process\.env\.CALL_TOKEN_\w+\}\}$/);
    assert.match(httpRequest.url, /\?api_key=\{\{process\.env\.CALL_API_KEY_\w+\}\}&page=1$/);
    assert.deepEqual(httpRequest.headers[1], { name: 'accept', value: 'application/json' });
    const everything = [
      JSON.stringify(row),
      JSON.stringify(await data('GET', `/v1/imports?org_id=${place.org_id}`)),
      JSON.stringify(
        await Promise.all(
          row.report.workflows.map(({ workflow_id }: Answer) => data('GET', `/v1/workflows/${workflow_id}`)),
        ),
      ),
      await fixture.log(),
    ].join('\n');
    for (const secret of secretsInClear) assert.ok(!everything.includes(secret), secret);
  });

  test('an import twice changes nothing, and brings what changed there unless it changed here too', async () => {
    const place = await project('twice');
    const first = await bring(simple(), place);
    const id = named(first, 'One').workflow_id;
    const again = await bring(simple(), place);
    assert.deepEqual([named(again, 'One').outcome, named(again, 'One').workflow_id], ['unchanged', id]);
    assert.equal((await workflowsOf(place.project_id)).length, 1);

    // A trigger that was added here is no change of the definition, and stays.
    const { triggers } = await data('GET', `/v1/workflows/${id}`);
    await data('POST', `/v1/workflows/${id}/deployments`, {
      triggers: [
        { id: triggers[0].id, type: 'http' },
        { type: 'timer', props: { cron: '0 9 * * *' } },
      ],
    });
    const changed = { ...simple('', 'Renamed') };
    changed['one-p_One111/answer/entry.js'] = changed['one-p_One111/answer/entry.js'].replace(
      'first',
      'second',
    );
    const planned = await data('POST', '/v1/imports', { files: changed, dry_run: true, ...place });
    assert.equal(named(planned, 'Renamed').outcome, 'updated');
    assert.deepEqual([named(again, 'One').changes, named(first, 'One').changes], [[], []]);
    const updated = await bring(changed, place);
    for (const report of [planned, updated])
      assert.deepEqual(
        named(report, 'Renamed').changes.map(({ path, what, old, new: wanted, lines }: Answer) => [
          `${what} ${path}`,
          ...[old, wanted],
          lines.map((line: string) => [line[0], /first|second/.exec(line)?.[0]]),
        ]),
        [
          ['changed name', 'One', 'Renamed', []],
          [
            'changed steps.answer.code',
            ...[null, null],
            [
              ['-', 'first'],
              ['+', 'second'],
            ],
          ],
        ],
      );
    assert.deepEqual(
      [named(updated, 'Renamed').outcome, named(updated, 'Renamed').workflow_id],
      ['updated', id],
    );
    const after = await data('GET', `/v1/workflows/${id}`);
    assert.equal(after.name, 'Renamed');
    assert.match(after.steps[0].code_raw, /second/);
    assert.deepEqual(
      after.triggers.map(({ type }: Answer) => type),
      ['http', 'timer'],
    );
    assert.equal(after.triggers[0].id, triggers[0].id);

    await data('POST', `/v1/workflows/${id}/deployments`, {
      steps: [{ namespace: 'answer', code: 'export default { run() { return "mine"; } }' }],
    });
    const third = { ...changed };
    third['one-p_One111/answer/entry.js'] = changed['one-p_One111/answer/entry.js'].replace(
      'second',
      'third',
    );
    const conflict = named(await bring(third, place), 'Renamed');
    assert.deepEqual([conflict.outcome, conflict.workflow_id], ['conflict', id]);
    assert.match(conflict.findings.at(-1).message, /was changed there and here/);
    assert.equal(conflict.changes[0].path, 'steps.answer.code');
    assert.match(conflict.changes[0].lines.join(), /-.*mine.*\+.*third/);
    assert.match((await data('GET', `/v1/workflows/${id}`)).steps[0].code_raw, /mine/);
    // In another project it is another workflow.
    const elsewhere = named(await bring(third, await project('elsewhere')), 'Renamed');
    assert.equal(elsewhere.outcome, 'created');
    // And one that was deleted here is made again.
    await data('DELETE', `/v1/workflows/${id}`);
    assert.equal(named(await bring(third, place), 'Renamed').outcome, 'created');
  });

  test('a report says which props, settings, steps and triggers differ, and never shows a secret of either side', async () => {
    const place = await project('differences');
    const folder = 'two-p_Two2222';
    const code = (name: string) =>
      `export default { props: { key: { type: "string", secret: true }, url: { type: "string" }, more: { type: "object", optional: true } }, run() { return "${name}"; } };`;
    const files = (name: string, yaml: string) => ({
      [`${folder}/workflow.yaml`]: `schema: workflow/2022.04\nname: Two\n${yaml}`,
      [`${folder}/one/entry.js`]: code(name),
      [`${folder}/other/entry.js`]: 'export default { run() {} };',
    });
    const step = (name: string, props = '') => `- namespace: ${name}\n  uses: ./${name}/entry.js\n${props}`;
    const secrets = ['sealed-before-1', 'sealed-after-2', 'Zk3x9QpL7vN2mB8tRw5y', 'correct horse'];
    const [before = '', after = '', random = '', password = ''] = secrets;
    const first = await bring(
      files(
        'first',
        `settings:\n  lambda_timeout: 45\ntriggers:\n- id: hi_Two2222\nsteps:\n${step('one', `  props:\n    key: ${before}\n    url: https://api.example.com/v1\n    more:\n      password: ${password}\n      kept: 1\n`)}${step('other')}`,
      ),
      place,
    );
    assert.deepEqual(named(first, 'Two').changes, []);
    const changed: Record<string, string> = files(
      'second',
      `settings:\n  lambda_timeout: 60\n  lambda_memory: 512\ntriggers:\n- id: hi_Two2222\n- id: ei_Two2222\nsteps:\n${step('fresh')}${step('one', `  props:\n    key: ${after}\n    url: https://api.example.com/v2?id=${random}\n    more:\n      password: another ${password}\n      kept: 2\n`)}`,
    );
    changed[`${folder}/fresh/entry.js`] = 'export default { run() {} };';
    const planned = await data('POST', '/v1/imports', { files: changed, dry_run: true, ...place });
    const found = named(planned, 'Two').changes.map(({ path, what, old, new: wanted }: Answer) =>
      [what, path, old ?? '-', wanted ?? '-'].join(' '),
    );
    assert.deepEqual(found, [
      'removed steps.other code of 1 line -',
      'changed settings.timeout_seconds 45 60',
      'changed settings.memory_mb 256 512',
      'added triggers.1 - {"type":"email","props":{}}',
      'added steps.fresh - code of 1 line',
      'changed steps.one.props.url https://api.example.com/v1 https://api.example.com/v2?id=••••••••',
      'changed steps.one.props.more.password - -',
      'changed steps.one.props.more.kept 1 2',
      'changed steps.one.props.key - -',
      'changed steps.one.code - -',
    ]);
    const updated = await bring(changed, place);
    assert.deepEqual(named(updated, 'Two').changes, named(planned, 'Two').changes);
    // The same again with a change here: nothing of what the first two brought is shown.
    const { steps } = await data('GET', `/v1/workflows/${named(updated, 'Two').workflow_id}`);
    await data('POST', `/v1/workflows/${named(updated, 'Two').workflow_id}/deployments`, {
      steps: [
        {
          namespace: 'one',
          code: steps[1].code_raw,
          props: { key: before, url: 'https://here.example.com' },
        },
      ],
    });
    const third = { ...changed };
    third[`${folder}/one/entry.js`] = code('third');
    const conflict = await bring(third, place);
    assert.equal(named(conflict, 'Two').outcome, 'conflict');
    assert.ok(named(conflict, 'Two').changes.some(({ path }: Answer) => path === 'steps.one.props.key'));
    const everything = JSON.stringify([planned, updated, conflict]);
    for (const secret of secrets) assert.ok(!everything.includes(secret), secret);
  });

  test('an import with activation activates what one without it has made, once', async () => {
    const place = await project('activated');
    const first = named(await bring(simple(), place), 'One');
    const second = named(await bring(simple(), { ...place, activate: true }), 'One');
    assert.deepEqual([first.active, second.active, second.outcome], [false, true, 'unchanged']);
    assert.equal((await post(second.triggers[0].address, {})).body, 'first');
    // One that is deactivated here stays so.
    await data('PUT', `/v1/workflows/${first.workflow_id}`, { active: false });
    assert.equal(named(await bring(simple(), { ...place, activate: true }), 'One').active, false);
  });

  test('a step that cannot be deployed is replaced by one that says so, and tried again by each import', async () => {
    const place = await project('replaced');
    const files = simple('  props:\n    number: not one\n    text: sk-or-any-secret\n');
    const code = (type: string) =>
      `export default { props: { number: { type: "${type}" }, text: { type: "string" } }, run() {} };`;
    files['one-p_One111/answer/entry.js'] = code('integer');
    const first = named(await bring(files, place), 'One');
    assert.deepEqual([first.status, first.outcome], ['by_hand', 'created']);
    assert.equal(
      first.findings[0].message,
      'it cannot be deployed, and throws when it runs: number: expected an integer',
    );
    const codeOf = async () => (await data('GET', `/v1/workflows/${first.workflow_id}`)).steps[0].code_raw;
    assert.match(await codeOf(), /type: "integer"[\s\S]*Not imported: number: expected an integer/);
    const { deployment_id } = await data('GET', `/v1/workflows/${first.workflow_id}`);
    const again = named(await bring(files, place), 'One');
    assert.deepEqual([again.status, again.outcome], ['by_hand', 'unchanged']);
    assert.equal((await data('GET', `/v1/workflows/${first.workflow_id}`)).deployment_id, deployment_id);
    files['one-p_One111/answer/entry.js'] = code('any');
    const repaired = named(await bring(files, place), 'One');
    assert.deepEqual([repaired.status, repaired.outcome], ['converted', 'updated']);
    assert.doesNotMatch(await codeOf(), /Not imported/);
  });

  test('code that imports files of its workflow is one step with them, and a dry run says what would be refused', async () => {
    const place = await project('compiled');
    const step = (name: string, ending = 'js') =>
      `- namespace: ${name}\n  runtime: nodejs20.x\n  uses: ./${name}/entry.${ending}\n`;
    const folder = 'joined-p_Joined1';
    const files: Record<string, string> = {
      [`${folder}/workflow.yaml`]: `schema: workflow/2022.04\nname: Joined\ntriggers:\n- id: hi_Joined1\nsteps:\n${step('common')}${step('answer', 'mjs')}`,
      [`${folder}/common/entry.js`]:
        'const data = require("../texts/data");\nconst { join } = require("node:path");\nmodule.exports = { run: () => join(data.name, "x") };',
      [`${folder}/answer/entry.mjs`]:
        'import { label } from "./lib.mjs";\nimport data from "../texts/data.json" with { type: "json" };\nexport default { async run({ steps, $ }) { await $.respond({ status: 200, body: label(data.name) + steps.common.$return_value }); } };',
      [`${folder}/answer/lib.mjs`]:
        'import { mark } from "../texts/mark.js";\nexport const label = (text) => text + mark;',
      [`${folder}/texts/mark.js`]: 'export const mark = "!";',
      [`${folder}/texts/data.json`]: '{"name":"joined"}',
      'bad-p_Bad1111/workflow.yaml': `schema: workflow/2022.04\nname: Bad\ntriggers:\n- id: hi_Bad1111\nsteps:\n${[
        'syntax',
        'absent',
        'outside',
        'server',
        'parked',
        'sound',
      ]
        .map((name) => step(name))
        .join('')
        .replace('parked\n', 'parked\n  disabled: true\n')}`,
      'bad-p_Bad1111/syntax/entry.js': 'export default { run() { return 1 +; } };',
      'bad-p_Bad1111/absent/entry.js': 'import lib from "./lib.mjs"; export default { run: lib };',
      'bad-p_Bad1111/outside/entry.js': `import lib from "../../${folder}/texts/mark.js"; export default { run: lib };`,
      'bad-p_Bad1111/server/entry.js':
        'import lib from "https://evil.example/lib.js"; export default { run: lib };',
      'bad-p_Bad1111/parked/entry.js': 'export default { run( };',
      'bad-p_Bad1111/sound/entry.js': 'export default { run() {} };',
    };
    const planned = await data('POST', '/v1/imports', { files, dry_run: true, ...place });
    assert.equal(planned.report.not_compiled, 0);
    const row = await bring(files, { ...place, activate: true });
    for (const { report } of [planned, row]) {
      const found = report.workflows.map(({ name, status, findings }: Answer) => [
        name,
        status,
        findings.map(
          ({ step: at, level, message }: Answer) =>
            `${at} ${level}: ${message.replace(/component_code: /, '')}`,
        ),
      ]);
      const [bad, joined] = found;
      assert.deepEqual(joined, ['Joined', 'converted', []]);
      assert.deepEqual([bad[0], bad[1], bad[2].length], ['Bad', 'by_hand', 5], JSON.stringify(bad));
      const told = bad[2].join('\n');
      assert.match(told, /syntax by_hand: it cannot be deployed, and throws when it runs: Unexpected ";"/);
      assert.match(told, /absent by_hand: .*there is no file for the import "\.\/lib\.mjs"/);
      assert.match(told, /outside by_hand: .*leaves the folder/);
      assert.match(told, /server by_hand: .*URLs of other servers cannot be imported/);
      assert.match(told, /parked check: it is disabled, and cannot be deployed as it is: Expected/);
    }
    assert.equal((await post(named(row, 'Joined').triggers[0].address, {})).body, 'joined!joined/x');
    const { steps } = await data('GET', `/v1/workflows/${named(row, 'Joined').workflow_id}`);
    assert.match(steps[0].code_raw, /require\("node:path"\)/);
    const again = await bring(files, place);
    assert.deepEqual(
      again.report.workflows.map(({ outcome }: Answer) => outcome),
      ['unchanged', 'unchanged'],
    );
  });

  test('two imports of one project at the same time make each workflow once', async () => {
    const place = await project('simultaneous');
    const files = Object.fromEntries(
      Array.from({ length: 5 }, (_, at) =>
        Object.entries(simple('', `Number ${at}`)).map(([path, text]) => [
          path.replace('p_One111', `p_One11${at}`),
          text,
        ]),
      ).flat(),
    );
    const rows = await Promise.all([bring(files, place), bring(files, place), bring(files, place)]);
    for (const { state, report } of rows) assert.deepEqual([state, report.counts.failed], ['done', 0]);
    assert.equal((await workflowsOf(place.project_id)).length, 5);
    const created = rows.flatMap(({ report }) =>
      report.workflows.filter(({ outcome }: Answer) => outcome === 'created'),
    );
    assert.equal(created.length, 5);
  });

  test('an account that is chosen fills its slots, and later imports remember it', async () => {
    const place = await project('accounts');
    const { org_id } = place;
    const app = `acme_${Date.now()}`;
    await data('POST', '/v1/apps', {
      ...{
        org_id,
        slug: app,
        name: 'Acme',
        auth_type: 'keys',
        custom_fields: [{ name: 'api_key', label: 'Key' }],
      },
    });
    const account = await data('POST', '/v1/accounts', { org_id, app, credentials: { api_key: 'k' } });
    const files = simple(`  props:\n    acme:\n      authProvisionId: apn_Acme11\n`);
    files['one-p_One111/answer/entry.js'] = `export default { props: { acme: { type: "app", app: "${app}" } },
      async run({ $ }) { await $.respond({ status: 200, body: this.acme.$auth.api_key }); } };`;
    const empty = await bring(files, { ...place, activate: true });
    assert.deepEqual([named(empty, 'One').status, named(empty, 'One').active], ['by_hand', false]);
    assert.deepEqual(
      empty.report.accounts.map(({ app: slug, old_id, account_id, places }: Answer) => [
        slug,
        old_id,
        account_id,
        places,
      ]),
      [[app, 'apn_Acme11', null, ['One: answer.acme']]],
    );
    const filled = await bring(files, { ...place, activate: true, accounts: { [app]: account.id } });
    const one = named(filled, 'One');
    assert.deepEqual([one.status, one.outcome, one.active], ['converted', 'updated', true]);
    assert.equal((await post(one.triggers[0].address, {})).body, 'k');
    assert.equal(named(await bring(files, place), 'One').outcome, 'unchanged');
    const wrong = await fixture.service.api('POST', '/v1/imports', {
      files,
      ...place,
      accounts: { [app]: 'apn_none' },
    });
    assert.deepEqual([wrong.status, wrong.body.details.parameter], [400, `accounts.${app}`]);
  });

  /** An app of a workspace with an account, and a workflow that uses an account there and a variable. */
  const withAccount = async (name: string) => {
    const place = await project(name);
    const { org_id } = place;
    const app = `${name.replaceAll(' ', '_')}_${Date.now()}`;
    const custom_fields = [{ name: 'api_key', label: 'Key' }];
    await data('POST', '/v1/apps', { org_id, slug: app, name, auth_type: 'keys', custom_fields });
    const connect = (key: string) =>
      data('POST', '/v1/accounts', { org_id, app, name: 'Ours', credentials: { api_key: key } });
    const files = simple('  props:\n    acme:\n      authProvisionId: apn_Acme11\n');
    files['one-p_One111/answer/entry.js'] = `export default { props: { acme: { type: "app", app: "${app}" } },
      async run({ $ }) { await $.respond({ status: 200, body: this.acme.$auth.api_key + process.env.ASKED_NAME }); } };`;
    return { place, app, files, connect, account: await connect('k') };
  };

  test('an import that asks keeps the project until it is answered, and begins with the answers', async () => {
    const { place, app, files, account } = await withAccount('asking');
    const ask = (more: object = {}) =>
      fixture.service.api('POST', '/v1/imports', { files, ask: true, activate: true, ...place, ...more });
    const asked = (await ask()).body.data;
    const questions = {
      accounts: [
        {
          ...{ name: app, app, old_id: 'apn_Acme11', places: ['One: answer.acme'] },
          choices: [{ id: account.id, name: 'Ours' }],
        },
      ],
      variables: [{ name: 'ASKED_NAME', workflows: ['One'] }],
    };
    assert.deepEqual([asked.state, asked.report.workflows, asked.questions], ['asking', [], questions]);
    const planned = await data('POST', '/v1/imports', { files, dry_run: true, ...place });
    assert.deepEqual(planned.questions, questions);
    const answer = (id: string, body: object) =>
      fixture.service.api('POST', `/v1/imports/${id}/answers`, body);
    const wrong = await answer(asked.id, { accounts: { [app]: 'apn_none' }, variables: { ASKED_NAME: 'v' } });
    assert.deepEqual([wrong.status, wrong.body.details.parameter], [400, `accounts.${app}`]);
    const unusable = await answer(asked.id, { accounts: {}, variables: { 'no name': 'v' } });
    assert.equal(unusable.status, 400, JSON.stringify(unusable.body));
    const still = await data('GET', `/v1/imports/${asked.id}`);
    assert.deepEqual([still.state, still.questions], ['asking', questions]);

    const answered = await answer(asked.id, {
      accounts: { [app]: account.id },
      variables: { ASKED_NAME: 'v' },
    });
    assert.equal(answered.status, 200, JSON.stringify(answered.body));
    assert.deepEqual(answered.body.data.questions, { accounts: [], variables: [] });
    const one = named(await settled(asked.id), 'One');
    assert.deepEqual([one.status, one.active], ['converted', true]);
    assert.equal((await post(one.triggers[0].address, {})).body, 'kv');
    const { org_id, project_id } = place;
    const variables = await data('GET', `/v1/variables?org_id=${org_id}&project_id=${project_id}`);
    assert.deepEqual(
      variables.map(({ name, secret }: Answer) => [name, secret]),
      [['ASKED_NAME', true]],
    );
    const late = await answer(asked.id, {});
    assert.deepEqual([late.status, late.body.code], [409, 'conflict']);
    assert.match(late.body.error, /is done: it waits for no answers/);
    // With nothing to ask it begins at once.
    assert.notEqual((await ask()).body.data.state, 'asking');
  });

  test('few imports ask at the same time, and one that is undone keeps nothing', async () => {
    const { place, files } = await withAccount('many that ask');
    const ask = () => fixture.service.api('POST', '/v1/imports', { files, ask: true, ...place });
    const ids: string[] = [];
    for (let at = 0; at < 3; at += 1) ids.push((await ask()).body.data.id);
    const refused = await ask();
    assert.deepEqual([refused.status, refused.body.code], [409, 'conflict']);
    assert.match(refused.body.error, /3 imports of this owner wait for answers/);
    for (const id of ids) assert.equal((await data('POST', `/v1/imports/${id}/undo`)).state, 'undone');
    const again = (await ask()).body.data;
    assert.equal(again.state, 'asking');
    await data('POST', `/v1/imports/${again.id}/undo`);
    const late = await fixture.service.api('POST', `/v1/imports/${again.id}/answers`, {});
    assert.match(late.body.error, /is undone: it waits for no answers/);
    assert.deepEqual(await workflowsOf(place.project_id), []);
  });

  test('a bundle remembers the accounts that were chosen, by their ids or by app and name', async () => {
    const { place, app, files, account, connect } = await withAccount('remembered');
    const planned = async (answers: unknown, more: object = {}) => {
      const bundle = { format: 'millrace-import-bundle', version: 1, api: {}, files, answers };
      const archive = Buffer.from(JSON.stringify(bundle)).toString('base64');
      return fixture.service.api('POST', '/v1/imports', { archive, dry_run: true, ...place, ...more });
    };
    const chosen = async (answers: unknown, more: object = {}) => {
      const { body } = await planned(answers, more);
      return [body.data.report.accounts[0].account_id, body.data.questions.accounts.length];
    };
    const of = (saved: object) => ({ accounts: { [app]: saved } });
    assert.deepEqual(await chosen(of({ id: account.id, app, name: 'Ours' })), [account.id, 0]);
    assert.deepEqual(await chosen(of({ id: 'apn_OfElsewhere', app, name: 'Ours' })), [account.id, 0]);
    assert.deepEqual(await chosen(of({ id: 'apn_OfElsewhere', app, name: 'Other' })), [null, 1]);
    const second = await connect('second');
    assert.deepEqual(await chosen(of({ id: 'apn_OfElsewhere', app, name: 'Ours' })), [null, 1]);
    // What is chosen now wins, and is what later imports remember.
    const saved = of({ id: account.id, app, name: 'Ours' });
    const accounts = { [app]: second.id };
    assert.deepEqual(await chosen(saved, { accounts }), [second.id, 0]);
    await bring(files, { ...place, accounts });
    assert.deepEqual(await chosen(saved), [second.id, 0]);
    for (const answers of [5, {}, { accounts: { [app]: { id: 1 } } }, { accounts: { 'a b': {} } }]) {
      const refused = await planned(answers);
      assert.deepEqual([refused.status, refused.body.code], [400, 'invalid_import'], JSON.stringify(answers));
    }
  });

  test('sources that a project export describes come with their workflows, and those it only names are reported', async () => {
    const place = await project('exported sources');
    const answer = 'export default { run({ steps }) { return steps.trigger.event.body.n * 2; } };';
    const source = (id: string, component_key: string, configured_props: object) => ({
      ...{ id: `dc_${id}`, type: 'source', name: id, active: true },
      ...{ component_key, component_version: '1.0.0', configured_props },
    });
    const exported = (name: string, triggers: unknown[]) => ({
      ...{ id: `p_${name}`, name, active: true, triggers },
      steps: [{ namespace: 'twice', lang: 'nodejs20.x', code: answer }],
    });
    const files = {
      'manifest.json': '{}',
      'heard.json': JSON.stringify(
        exported('Heard11', [
          source('Http111', 'http-new-requests', { http: { endpoint_url: 'https://old.example/x' } }),
          source('Tick111', 'schedule-custom-interval', { cron: { cron: null, interval_seconds: 900 } }),
        ]),
      ),
      'lost.json': JSON.stringify(
        exported('Lost111', [
          source('Slack11', 'slack-new-message', {}),
          { id: 'dc_0nlyId', type: 'source' },
        ]),
      ),
    };
    const planned = await data('POST', '/v1/imports', { files, dry_run: true, ...place });
    const objects = ({ report }: Answer) =>
      report.objects.map(({ old_id, outcome, active }: Answer) => [old_id, outcome, active]);
    assert.deepEqual(objects(planned), [
      ['dc_Http111', 'created', false],
      ['dc_Tick111', 'created', false],
      ['dc_Slack11', 'failed', false],
    ]);
    const inactive = await bring(files, place);
    assert.deepEqual(objects(inactive), objects(planned));
    const lost = named(inactive, 'Lost111').findings.map(({ message }: Answer) => message);
    assert.deepEqual(
      lost.map((message: string) => message.replace(/ is not here:.*/, '')),
      ['its source dc_Slack11', 'its source dc_0nlyId'],
    );
    const active = await bring(files, { ...place, activate: true });
    assert.deepEqual(
      objects(active).map(([, outcome, isActive]: Answer) => [outcome, isActive]),
      [
        ['unchanged', true],
        ['unchanged', true],
        ['failed', false],
      ],
    );
    const [{ address, old_address }] = active.report.objects;
    assert.equal(old_address, 'https://old.example/x');
    assert.equal((await post(address, { n: 21 })).status, 200);
    // The timer fires when it becomes active, and its run, which has no body to read, may be the newer one.
    const run = await waitFor(
      async () =>
        (await fixture.service.runs(named(active, 'Heard11').workflow_id)).find(
          ({ state }) => state === 'succeeded',
        ),
      { what: 'a run of Heard11 to have read the request' },
    );
    assert.equal((await data('GET', `/v1/runs/${run.id}`)).steps[0].exports.$return_value, 42);
  });

  test('a workflow that keeps records in a data store moves in and works, with an empty one that the report names', async () => {
    const place = await project('records');
    const step = (namespace: string, uses: string, props: string) =>
      `- namespace: ${namespace}\n  runtime: nodejs20.x\n  uses: ${uses}\n  props:\n${props}`;
    const store = '    dataStore:\n      storeId: ds_0rders1\n';
    const files = {
      'orders-p_0rders1/workflow.yaml': [
        'schema: workflow/2022.04\nname: Orders kept\ntriggers:\n- id: hi_0rders1\nsteps:\n',
        step(
          'keep',
          'data_stores-add-update-record@0.0.9',
          `${store}    key: '{{steps.trigger.event.body.id}}'\n    value: '{{steps.trigger.event.body}}'\n`,
        ),
        step('count', 'data_stores-count-records@0.0.2', store),
        step(
          'answer',
          'http-return-http-response@0.0.1',
          "    resStatusCode: 201\n    resBody: '{{steps.count.$return_value}}'\n",
        ),
      ].join(''),
    };
    const row = await bring(files, { ...place, activate: true });
    const one = named(row, 'Orders kept');
    assert.deepEqual([one.status, one.active], ['converted', true]);
    const [{ old_id, data_store_id }] = row.report.data_stores;
    assert.equal(old_id, 'ds_0rders1');
    for (const [id, count] of [
      ['a', 1],
      ['b', 2],
      ['a', 2],
    ] as const) {
      const { status, body } = await post(one.triggers[0].address, { id, of: count });
      assert.deepEqual([status, JSON.parse(body)], [201, count]);
    }
    const record = await data('GET', `/v1/data_stores/${data_store_id}/entries/a`);
    assert.deepEqual(record.value, { id: 'a', of: 2 });
    // Records there come by the API of data stores, and a later import leaves them as they are.
    await data('PUT', `/v1/data_stores/${data_store_id}/entries/old`, { value: { id: 'old' } });
    assert.equal(named(await bring(files, place), 'Orders kept').outcome, 'unchanged');
    assert.equal(JSON.parse((await post(one.triggers[0].address, { id: 'c' })).body), 4);
  });

  test('an undo removes what was made and not changed since', async () => {
    const place = await project('undone');
    const row = await bring(syncedRepository(), place);
    const songs = named(row, 'songs').workflow_id;
    await data('PUT', `/v1/workflows/${songs}`, { name: 'Mine' });
    const store = row.report.data_stores[0].data_store_id;
    await data('PUT', `/v1/data_stores/${store}/entries/a`, { value: 1 });
    const [secret] = row.report.variables.filter((one: Answer) => one.secret);
    await data('PUT', `/v1/variables/${secret.name}`, { ...place, value: 'mine' });
    const undone = await data('POST', `/v1/imports/${row.id}/undo`);
    assert.deepEqual([undone.state, undone.removed], ['undone', 8]);
    assert.deepEqual(
      undone.kept.map(({ kind, reason }: Answer) => [kind, reason]),
      [
        ['workflow', 'it was renamed since'],
        ['data_store', 'it has entries'],
        ['variable', 'its value was changed since'],
      ],
    );
    assert.deepEqual(
      (await workflowsOf(place.project_id)).map(({ id }: Answer) => id),
      [songs],
    );
    assert.deepEqual((await data('GET', `/v1/imports/${row.id}`)).kept, undone.kept);
    await data('DELETE', `/v1/workflows/${songs}`);
    const repeated = await data('POST', `/v1/imports/${row.id}/undo`);
    assert.deepEqual([repeated.removed, repeated.kept.length], [0, 2]);
    assert.deepEqual((await data('GET', `/v1/imports/${row.id}`)).kept, repeated.kept);
  });

  test('an undo leaves what a later import or a hand changed', async () => {
    const place = await project('changed');
    const files = {
      ...simple('  props:\n    cache:\n      storeId: ds_Later1\n'),
      ...Object.fromEntries(
        Object.entries(simple('', 'Two')).map(([path, text]) => [path.replace('p_One111', 'p_Two222'), text]),
      ),
    };
    files['one-p_One111/answer/entry.js'] =
      'export default { props: { cache: { type: "data_store" } }, run() { return 1; } };';
    const first = await bring(files, place);
    const id = named(first, 'One').workflow_id;
    await data('PUT', `/v1/workflows/${id}`, { active: true, name: 'PROD' });
    const changed = {
      ...files,
      'one-p_One111/answer/entry.js': `${files['one-p_One111/answer/entry.js']} // later`,
    };
    const later = await bring(changed, place);
    assert.equal(named(later, 'One').outcome, 'updated');
    const undone = await data('POST', `/v1/imports/${first.id}/undo`);
    assert.equal(undone.removed, 1, 'only the other workflow');
    assert.deepEqual(
      undone.kept.map(({ kind, reason }: Answer) => [kind, reason]),
      [
        ['workflow', `the import ${later.id} changed it since`],
        ['data_store', 'a workflow that stays uses it'],
      ],
    );
    const left = await data('GET', `/v1/workflows/${id}`);
    assert.deepEqual([left.name, left.active], ['PROD', true]);
    // The later one made nothing, and says so of what it changed.
    const undoneLater = await data('POST', `/v1/imports/${later.id}/undo`);
    assert.deepEqual(
      [undoneLater.removed, undoneLater.kept],
      [
        0,
        [
          {
            kind: 'workflow',
            id,
            reason: 'this import only changed it: what it was before is not brought back',
          },
        ],
      ],
    );
  });

  test('an undo leaves a workflow that was touched by hand in any way', async () => {
    const touches: [name: string, reason: RegExp, touch: (id: string) => Promise<unknown>][] = [
      ['deactivated', /deactivated/, (id) => data('PUT', `/v1/workflows/${id}`, { active: false })],
      [
        'renamed and back',
        /changed here/,
        async (id) => {
          await data('PUT', `/v1/workflows/${id}`, { name: 'Other' });
          await data('PUT', `/v1/workflows/${id}`, { name: 'One' });
        },
      ],
      [
        'a trigger',
        /deployed again/,
        (id) =>
          data('POST', `/v1/workflows/${id}/deployments`, {
            triggers: [{ type: 'timer', props: { cron: '0 9 * * *' } }],
          }),
      ],
    ];
    for (const [name, reason, touch] of touches) {
      const place = await project(`touched: ${name}`);
      const row = await bring(simple(), { ...place, activate: true });
      const id = named(row, 'One').workflow_id;
      await touch(id);
      const undone = await data('POST', `/v1/imports/${row.id}/undo`);
      assert.deepEqual([undone.removed, undone.kept[0]?.id], [0, id], name);
      assert.match(undone.kept[0].reason, reason);
      assert.equal((await workflowsOf(place.project_id)).length, 1);
    }
  });

  test('undos at the same time both answer what was removed', async () => {
    const place = await project('undone together');
    const row = await bring(syncedRepository(), place);
    const undos = await Promise.all(
      [1, 2, 3].map(() => fixture.service.api('POST', `/v1/imports/${row.id}/undo`)),
    );
    for (const { status, body } of undos)
      assert.deepEqual([status, body.data?.removed, body.data?.kept], [200, 11, []], JSON.stringify(body));
    assert.deepEqual(await workflowsOf(place.project_id), []);
  });

  test('an import is found in its workspace, and by strangers nowhere', async () => {
    const place = await project('found');
    const row = await bring(simple(), place);
    const listed = await fixture.service.api('GET', `/v1/imports?org_id=${place.org_id}&limit=1`);
    assert.deepEqual([listed.body.data[0].id, listed.body.data[0].progress], [row.id, { done: 1, total: 1 }]);
    assert.equal(listed.body.data[0].report, undefined);
    const stranger = await fixture.service.createUser('stranger');
    for (const [method, path] of [
      ['GET', ''],
      ['POST', '/undo'],
    ] as const) {
      const answer = await fixture.service.api(method, `/v1/imports/${row.id}${path}`, undefined, {
        key: stranger.key,
      });
      assert.equal(answer.status, 404);
    }
    const other = await fixture.service.api('POST', '/v1/imports', {
      files: simple(),
      project_id: place.project_id,
    });
    assert.equal(
      other.body.details.parameter,
      'project_id',
      'the project is not of this user, but of a workspace',
    );
    const nothing = await fixture.service.api('POST', '/v1/imports', { files: { 'a.txt': '' } });
    assert.deepEqual([nothing.status, nothing.body.code], [400, 'invalid_import']);
    assert.match(nothing.body.error, /there is no workflow\.yaml in it/);
  });
});
