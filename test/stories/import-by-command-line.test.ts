import assert from 'node:assert/strict';
import { mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import { type CommandPlace, endCommands, runAtTerminal, runCommand } from '../support/command-line.ts';
import { forEachSharedService } from '../support/millrace.ts';
import { secretsInClear, syncedRepository } from '../support/synced-repository.ts';
import { createTempFolder, type TempFolder } from '../support/temp-folder.ts';
import { makeZip } from '../support/zip-archive.ts';

/** `millrace import pipedream`. */
forEachSharedService((fixture) => {
  let folder: TempFolder;
  let place: CommandPlace;
  const run = (...words: string[]) => runCommand(place, ['import', 'pipedream', ...words]);

  before(async () => {
    folder = await createTempFolder('import-by-command-line');
    const files = Object.entries(syncedRepository());
    for (const [path, text] of files) {
      await mkdir(join(folder.path, 'clone', dirname(path)), { recursive: true });
      await writeFile(join(folder.path, 'clone', path), text);
    }
    await mkdir(join(folder.path, 'clone/.git'));
    await writeFile(join(folder.path, 'clone/.git/entry.js'), 'x');
    await symlink('/etc/passwd', join(folder.path, 'clone/orders-p_Ord3r1/linked.js'));
    await writeFile(
      join(folder.path, 'clone.zip'),
      makeZip(files.map(([path, content]) => ({ path, content }))),
    );
    await writeFile(join(folder.path, '.env'), 'SHOP_NAME=Corner\nAPI_HOST=h\nNOT_READ=1\n');
    await writeFile(join(folder.path, 'notes.txt'), 'no archive');
    await mkdir(join(folder.path, 'nothing'));
  });
  beforeEach(() => {
    const { url, key } = fixture.service;
    place = { folder: folder.path, environment: { MILLRACE_URL: url, MILLRACE_API_KEY: key } };
  });
  after(async () => {
    await endCommands();
    await folder?.remove();
  });

  test('a dry run reports, an import does, its report is a file, and an undo takes it back', async () => {
    const planned = await run('clone', '--dry-run');
    assert.equal(planned.code, 0, planned.stderr);
    assert.match(
      planned.stdout,
      /^Workflows, as they would be imported\n6 workflows: 0 converted, 4 to check, 2 with/,
    );
    const zipped = await run('clone.zip', '--dry-run');
    assert.equal(zipped.stdout, planned.stdout, 'a folder and a ZIP of it are the same');

    const withVariables = await run('clone', '--dry-run', '--env', '.env');
    assert.match(withVariables.stderr, /^\.env would set API_HOST, SHOP_NAME, as secrets\.$/m);
    const wrongPath = await run('clone', '--dry-run', '--env', 'no.env');
    assert.equal(wrongPath.code, 2);
    assert.match(wrongPath.stderr, /^--env: .*no\.env/);

    const done = await run('clone', '--activate', '--env', '.env', '--markdown', 'report.md');
    assert.equal(done.code, 0, done.stderr);
    assert.match(done.stdout, /\nOrders +check +created +yes +yes +p_\w{12} +p_Ord3r1\n/);
    assert.match(done.stdout, /\nsongs +by hand +created +no /);
    assert.match(done.stdout, /\nNew addresses\nWORKFLOW +TRIGGER THERE +ADDRESS HERE\n/);
    assert.match(done.stdout, /\nOrders +hi_0rdersX +http:\/\/\S+\/in\/eo\w+\n/);
    assert.match(
      done.stdout,
      /\n {6}millrace workflows|\n {6}echo '\{"triggers".* millrace workflows update p_\w{12} --file -\n/,
    );
    assert.match(done.stdout, /\nslack +none +apn_S1ack1 +Yes: post\.slack\n/);
    assert.match(done.stdout, /\nSHOP_NAME +yes +Orders; Yes\n/);
    assert.match(
      done.stdout,
      /- Steps ran on nodejs20\.x \(6\), nodejs18\.x \(4\); they run on the Node\.js of this service\.\n/,
    );
    assert.match(
      done.stdout,
      /127 keys were read, 2 of them unknown: settings\.warm_workers, steps\[\]\.version_policy\./,
    );
    const [, id = ''] = /--undo (imp_\w+)/.exec(done.stderr) ?? [];
    assert.match(done.stderr, /Set 2 variables as secrets\./);
    const report = await readFile(join(folder.path, 'report.md'), 'utf8');
    assert.match(report, /^# Import from Pipedream: imp_\w{12}\n\n## Workflows\n\n6 workflows/);
    assert.match(
      report,
      /\n\| WORKFLOW \| STATUS \| OUTCOME \| ACTIVE \| ACTIVE THERE \| ID \| ID THERE \|\n\| --- \| /,
    );
    for (const secret of secretsInClear) assert.ok(!`${done.stdout}${report}`.includes(secret), secret);

    const again = JSON.parse((await run('clone.zip', '--json')).stdout);
    assert.deepEqual([again.report.counts.unchanged, again.report.counts.created], [6, 0]);

    // Every form of the report again.
    const listed = await runCommand(place, ['import', 'list']);
    assert.match(listed.stdout, /^ID +STATE +DONE +FORMAT +PROJECT +STARTED \(UTC\) +ERROR\n/);
    assert.match(listed.stdout, new RegExp(`\n${id} +done +6 of 6 +synced repository `));
    const shown = await runCommand(place, ['import', 'show', id, '--markdown', 'again.md']);
    assert.equal(shown.stdout, done.stdout);
    assert.equal(await readFile(join(folder.path, 'again.md'), 'utf8'), report);
    const inJson = JSON.parse((await runCommand(place, ['import', 'show', id, '--json'])).stdout);
    assert.equal(inJson.report.counts.created, 6);
    const strange = await runCommand(place, ['import', 'show', 'imp_none11111111']);
    assert.equal(strange.code, 3);
    const undone = await run('--undo', id);
    assert.deepEqual([undone.code, undone.stdout], [0, '']);
    assert.match(undone.stderr, /Removed 11 of the things that import imp_\w+ made, left 0\./);
    const after = await runCommand(place, ['import', 'show', id]);
    assert.match(after.stderr, /It was undone; above is what it had done\./);
  });

  test('the skeleton of an export is written without its content', async () => {
    const project = {
      id: 'p_Exp0rt',
      name: 'Secret name',
      triggers: [{ cron: '0 9 * * *', type: 'cron' }],
      steps: [],
    };
    const files = { 'manifest.json': '{}', 'shop/one.json': JSON.stringify(project) };
    const zip = makeZip(Object.entries(files).map(([path, content]) => ({ path, content })));
    await writeFile(join(folder.path, 'export.zip'), zip);
    const dumped = await run('export.zip', '--dump-skeleton', 'skeleton.json');
    assert.equal(dumped.code, 0, dumped.stderr);
    assert.deepEqual(JSON.parse(await readFile(join(folder.path, 'skeleton.json'), 'utf8')), {
      'manifest.json#1': {},
      'folder/file#2': { id: 'p_…', name: 'text', triggers: [{ cron: 'text', type: 'text' }], steps: [] },
    });
    const done = JSON.parse((await run('export.zip', '--json', '--yes')).stdout);
    const [workflow] = done.report.workflows;
    assert.deepEqual(
      [done.format, workflow.name, workflow.folder],
      ['project_export', 'Secret name', 'shop'],
    );
    assert.match(workflow.triggers[0].trigger_id, /^ti_/);
  });

  test('what cannot be imported is said before anything is sent', async () => {
    const refusal = async (...words: string[]) => {
      const ended = await run(...words);
      assert.notEqual(ended.code, 0);
      return ended.stderr;
    };
    assert.match(await refusal(), /there is no path/);
    assert.match(await refusal('none'), /there is nothing at .*none/);
    assert.match(await refusal('notes.txt'), /notes\.txt is neither a ZIP archive nor a bundle/);
    assert.match(await refusal('nothing'), /there is no workflow\.yaml in it/);
    assert.match(await refusal('clone', '--account', 'slack'), /--account: found slack/);
    assert.match(
      await refusal('clone', '--account', 'slack=apn_none'),
      /accounts\.slack: no account "apn_none"/,
    );
  });

  test('a second import says how what is there differs from what is here', async () => {
    const first = JSON.parse((await run('clone', '--json')).stdout);
    const path = join(folder.path, 'clone/legacy-p_Legacy');
    const [step = ''] = (await readdir(path)).filter((name) => !name.includes('.'));
    const file = join(path, step, 'entry.js');
    const code = await readFile(file, 'utf8');
    try {
      await writeFile(file, `${code}\n// changed there`);
      const planned = await run('clone', '--dry-run');
      assert.match(
        planned.stdout,
        /\nLegacy: would change\n- ~ steps\.\w+\.code\n {4}\| [\s\S]*\n {4}\| \+\/\/ changed there\n/,
      );
      const done = await run('clone', '--markdown', 'changed.md');
      assert.match(done.stdout, /\nLegacy: changed\n- ~ steps\.\w+\.code\n/);
      const report = await readFile(join(folder.path, 'changed.md'), 'utf8');
      assert.match(report, /\n## Legacy: changed\n\n- \\~ steps\.\w+\.code\n/);
      assert.match(report, /\n {2}- ` \+\/\/ changed there `\n/);
    } finally {
      await writeFile(file, code);
      await run('--undo', first.id);
    }
  });

  test('the remark about schedules and tokens follows from what was read', async () => {
    const remarks = async (triggers: object[]) => {
      const files = {
        'manifest.json': '{}',
        'one.json': JSON.stringify({ id: 'p_Remark1', name: 'Remarks', triggers, steps: [] }),
      };
      const content = Object.entries(files).map(([path, text]) => ({ path, content: text }));
      await writeFile(join(folder.path, 'remarks.zip'), makeZip(content));
      return (await run('remarks.zip', '--dry-run')).stdout;
    };
    const told = await remarks([
      { id: 'ti_Known11', cron: '0 9 * * *' },
      { id: 'ti_Lacking' },
      { id: 'hi_One1111' },
    ]);
    assert.match(told, /- The schedule of 1 timer is not in what was read/);
    assert.match(told, /- Whether HTTP triggers ask for a token is in no export/);
    const complete = await remarks([{ id: 'ti_Known11', cron: '0 9 * * *' }]);
    assert.doesNotMatch(complete, /schedule of|ask for a token/);
  });

  test('at a terminal the plan is shown before each account and variable is asked for, and then the import', async () => {
    const { service } = fixture;
    const created = await service.api('POST', '/v1/accounts', {
      app: 'slack',
      name: 'Office',
      credentials: { oauth_access_token: 'token' },
    });
    const account = created.body?.data.id;
    await writeFile(join(folder.path, 'some.env'), 'OTHER=o\nNOT_READ=1\n');
    const down = '\u001b[B';
    const command = runAtTerminal(place, ['import', 'pipedream', 'clone']);
    await command.answer(/Account of slack, used by Yes: post\.slack/, '\r', /Account of slack.*Office/);
    await command.says(/This service has no app spotify_music|Account of spotify_music/);
    if (/\? Account of spotify_music/.test(command.stdout))
      await command.answer(/Account of spotify_music/, `${down}\r`, /spotify_music.*leave empty/);
    await command.answer(/A \.env file with their values/, 'some.env\r', /some\.env sets 1 of them/);
    await command.answer(/Value of PY_HOST, used by songs \(empty: skip\)/, 'never-shown\r', /Import them\?/);
    await command.answer(/Import them\?/, '\r', /New addresses/);
    const { stdout, code } = await command.ended();
    assert.equal(code, 0, stdout);
    assert.match(stdout, /as they would be imported[\s\S]*Account of slack/);
    assert.doesNotMatch(stdout, /never-shown/);
    assert.match(stdout, new RegExp(`slack +${account} `));
    const variables = await service.api('GET', '/v1/variables');
    assert.deepEqual(
      variables.body?.data
        .filter(({ name }: { name: string }) => !/_[0-9A-F]{6}$/.test(name))
        .map(({ name, secret }: { name: string; secret: boolean }) => [name, secret]),
      [
        ['API_HOST', true],
        ['OTHER', true],
        ['PY_HOST', true],
        ['SHOP_NAME', true],
      ],
    );
  });

  test('at a terminal nothing is imported and no variable set when the last question is answered with no', async () => {
    await writeFile(
      join(folder.path, 'one.zip'),
      makeZip([
        {
          path: 'one-p_Refused/workflow.yaml',
          content:
            'schema: workflow/2022.04\nname: Refused\ntriggers:\n- id: hi_Refused\nsteps:\n- namespace: a\n  uses: ./a/entry.js\n',
        },
        {
          path: 'one-p_Refused/a/entry.js',
          content: 'export default { run() { return process.env.REFUSED_NAME; } };',
        },
      ]),
    );
    const command = runAtTerminal(place, ['import', 'pipedream', 'one.zip']);
    await command.answer(/Value of REFUSED_NAME/, 'never\r', /Import them\?/);
    await command.answer(/Import them\?/, 'n\r', /Import them\?.*No/);
    const { stdout } = await command.ended();
    assert.doesNotMatch(stdout, /New addresses/);
    const { body } = await fixture.service.api('GET', '/v1/variables');
    assert.ok(!body?.data.some(({ name }: { name: string }) => name === 'REFUSED_NAME'));
  });
});
