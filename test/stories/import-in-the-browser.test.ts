import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { chromiumSkip } from '../support/chromium.ts';
import { useDashboard } from '../support/dashboard-browser.ts';
import { secretsInClear, syncedRepository } from '../support/synced-repository.ts';
import { makeZip } from '../support/zip-archive.ts';

const zipOf = (files: Record<string, string>) =>
  makeZip(Object.entries(files).map(([path, content]) => ({ path: `shop-main/${path}`, content })));

describe('an import in the dashboard', { skip: chromiumSkip() }, () => {
  const dashboard = useDashboard();

  const choose = (page: Page, name: string, buffer: Buffer) =>
    page.getByLabel('ZIP archive').setInputFiles({ name, mimeType: 'application/zip', buffer });

  test('a page without imports says so, and refused archives are explained', async () => {
    const page = await dashboard.signedIn('/');
    await page.getByRole('link', { name: 'Import them' }).click();
    await page.getByRole('heading', { name: 'Import from Pipedream', level: 1 }).waitFor();
    await page.getByText('Nothing was imported yet.').waitFor();
    await dashboard.screenshot(page, 'import-empty');
    await choose(page, 'notes.zip', Buffer.from('no archive'));
    await page.getByText('The file is neither a ZIP archive nor a bundle.').waitFor();
    await choose(page, 'broken.zip', Buffer.from('PK and nothing else'));
    await page.getByText('it cannot be read as a ZIP archive').waitFor();
    await dashboard.screenshot(page, 'import-refused');
    dashboard.forgetComplaints();
  });

  test('what the workflows need is asked one by one, and what was answered is imported', async () => {
    const { service } = dashboard;
    const created = await service.api('POST', '/v1/accounts', {
      app: 'spotify_music',
      name: 'Office',
      credentials: { oauth_access_token: 'token' },
    });
    assert.equal(created.status, 200, JSON.stringify(created.body));
    const account = created.body?.data.id;
    const page = await dashboard.signedIn('/imports');
    await choose(page, 'shop.zip', zipOf(syncedRepository()));
    const at = (number: number) => page.getByRole('region', { name: `Question ${number} of 8` });
    await at(1).getByLabel('Which account of slack').waitFor();
    await at(1).getByRole('link', { name: 'connect one' }).waitFor();
    await at(1).getByRole('button', { name: 'Skip' }).click();
    await at(2).getByLabel('Which account of spotify_music').selectOption(account);
    await dashboard.screenshot(page, 'import-question-account');
    await at(2).getByRole('button', { name: 'Use this account' }).click();
    await page.waitForFunction("document.activeElement?.textContent === 'Question 3 of 8'");
    const env = { name: '.env', mimeType: 'text/plain' };
    const file = at(3).getByLabel('Is there a .env file');
    await file.setInputFiles({ ...env, buffer: Buffer.from('NOT_READ=1\n') });
    await at(3).getByRole('button', { name: 'Set them' }).click();
    await at(3).getByText('The file sets none of these variables.').waitFor();
    await file.setInputFiles({ ...env, buffer: Buffer.from('OTHER=a\nAPI_HOST="host"\nNOT_READ=1\n') });
    await dashboard.screenshot(page, 'import-question-file');
    await at(3).getByRole('button', { name: 'Set them' }).click();
    // API_HOST and OTHER, questions 4 and 5, are answered.
    await at(6).getByLabel('What is the value of PY_HOST?').waitFor();
    await at(6).getByRole('button', { name: 'Skip' }).click();
    await at(7).getByLabel('What is the value of SHOP_NAME?').fill('Corner');
    await dashboard.screenshot(page, 'import-question-variable');
    await page.keyboard.press('Enter');
    await at(8).getByText('Ask the admin of the instance').waitFor();
    await dashboard.screenshot(page, 'import-question-components');
    await at(8).getByRole('button', { name: 'Skip' }).click();
    const answers = page.getByRole('list', { name: 'Answers' });
    await answers.getByText('Components').waitFor();
    assert.deepEqual(await answers.getByRole('listitem').allInnerTexts(), [
      'Account of slack: skipped',
      `Account of spotify_music: ${account}`,
      '.env file: set 2',
      'Variable API_HOST: set',
      'Variable OTHER: set',
      'Variable PY_HOST: skipped',
      'Variable SHOP_NAME: set',
      'Components: skipped',
    ]);
    await page.getByRole('button', { name: 'Check again with these answers' }).click();
    const accounts = page.getByRole('region', { name: 'Accounts' });
    await accounts.getByRole('row', { name: new RegExp(`spotify_music ${account}`) }).waitFor();
    await page.getByRole('row', { name: 'SHOP_NAME set' }).waitFor();
    await dashboard.screenshot(page, 'import-answered');
    const variables = await service.api('GET', '/v1/variables');
    assert.deepEqual(
      variables.body?.data.map(({ name, secret }: { name: string; secret: boolean }) => [name, secret]),
      [
        ['API_HOST', true],
        ['OTHER', true],
        ['SHOP_NAME', true],
      ],
    );
    await page.getByRole('button', { name: 'Import 6 workflows' }).click();
    await page.getByText('Done', { exact: true }).waitFor();
    await accounts.getByRole('row', { name: new RegExp(`spotify_music ${account}`) }).waitFor();
    await accounts.getByRole('row', { name: /slack none/ }).waitFor();
    await page.getByRole('button', { name: 'Undo import' }).click();
    await page.getByRole('alertdialog').getByRole('button', { name: 'Undo import' }).click();
    await page.getByText('Undone', { exact: true }).waitFor();
    for (const name of ['API_HOST', 'OTHER', 'SHOP_NAME'])
      await service.api('DELETE', `/v1/variables/${name}`);
    dashboard.nothingWrong();
  });

  test('an archive is checked first, then imported, and its report leads to the workflows', async () => {
    const page = await dashboard.signedIn('/workflows');
    await page.getByRole('link', { name: 'Import', exact: true }).click();
    await choose(page, 'shop.zip', zipOf(syncedRepository()));
    await page.getByRole('heading', { name: 'What would be imported' }).waitFor();
    const workflows = page.getByRole('region', { name: 'Workflows' });
    await workflows.getByRole('listitem').filter({ hasText: 'Orders' }).getByText('new').waitFor();
    await workflows.getByText('app spotify').or(workflows.getByText('spotify_music')).first().waitFor();
    await dashboard.screenshot(page, 'import-plan');
    const kept = await dashboard.service.api('GET', '/v1/imports');
    assert.equal(kept.body?.data.length, 1, 'a dry run is not kept');

    await page.getByRole('button', { name: 'Import 6 workflows' }).click();
    await page.getByText('Done', { exact: true }).waitFor();
    const addresses = page.getByRole('region', { name: 'New addresses' });
    await addresses.getByRole('row', { name: /Orders.*hi_0rdersX.*http/ }).waitFor();
    await dashboard.screenshot(page, 'import-report');
    const html = await page.content();
    for (const secret of secretsInClear) assert.ok(!html.includes(secret), secret);
    const report = page.url();
    await page.getByRole('region', { name: 'Workflows' }).getByRole('link', { name: 'Orders' }).click();
    await page.getByRole('heading', { name: 'Orders', level: 1 }).waitFor();
    await page.getByText('Inactive').first().waitFor();

    await page.goto(report);
    await page.getByRole('button', { name: 'Activate all that are ready' }).click();
    const question = page.getByRole('alertdialog');
    await question.getByText('Legacy').waitFor();
    await dashboard.screenshot(page, 'import-activate');
    await question.getByRole('button', { name: 'Activate' }).click();
    await page.getByRole('button', { name: 'Activate all that are ready' }).waitFor({ state: 'detached' });
    await workflows.getByText('created · active').first().waitFor();
    dashboard.nothingWrong();
  });

  test('an import is undone after a question, which leaves what was activated, and stays in the list', async () => {
    const page = await dashboard.signedIn('/imports');
    await page.getByRole('link', { name: /Done.*6 workflows/ }).click();
    await page.getByRole('button', { name: 'Undo import' }).click();
    await page.getByRole('alertdialog').getByRole('button', { name: 'Undo import' }).click();
    const undone = page.getByRole('status').filter({ hasText: 'Undone:' });
    await undone.getByText('workflow Orders: it was activated since').waitFor();
    const workflows = page.getByRole('region', { name: 'Workflows' });
    await workflows.getByText('removed since').first().waitFor();
    assert.equal(await workflows.getByRole('link', { name: 'songs' }).count(), 0);
    assert.equal(await page.getByRole('button', { name: 'Undo import' }).count(), 0);
    await dashboard.screenshot(page, 'import-undone');
    await page.goto(`${dashboard.service.url}/imports`);
    await page
      .getByRole('link', { name: /Undone.*6 workflows/ })
      .nth(1)
      .waitFor();
    dashboard.nothingWrong();
  });

  test('an import under way shows how far it is, and a failed one why', async () => {
    const list = await dashboard.service.api('GET', '/v1/imports');
    const page = await dashboard.signedIn('/imports');
    // An import is over before a page can be opened: what the API answers about a finished one is changed.
    let change: Record<string, unknown> = { state: 'running', progress: { done: 2, total: 6 } };
    await page.route(/\/v1\/imports\/imp_\w+$/, async (route) => {
      const response = await route.fetch();
      const { data } = await response.json();
      const report = { ...data.report, workflows: data.report.workflows.slice(0, 2) };
      await route.fulfill({ response, json: { data: { ...data, report, ...change } } });
    });
    await page.goto(`${dashboard.service.url}/imports/${list.body?.data[0].id}`);
    await page.getByRole('progressbar', { name: '2 of 6 imported' }).waitFor();
    await page.getByRole('region', { name: 'Workflows' }).getByText('findings').first().waitFor();
    assert.equal(await page.getByRole('button', { name: /Undo|Activate/ }).count(), 0);
    await dashboard.screenshot(page, 'import-running');
    change = { state: 'failed', error: 'the disk is full' };
    await page.getByRole('alert').getByText('the disk is full').waitFor();
    await page.getByRole('button', { name: 'Undo import' }).waitFor();
    await dashboard.screenshot(page, 'import-failed');
    dashboard.nothingWrong();
  });

  test('what cannot be read and hostile names are shown as they are, on a narrow dark screen; a viewer only reads', async () => {
    const small = { viewport: { width: 360, height: 740 }, colorScheme: 'dark' } as const;
    const { body } = await dashboard.service.api('GET', '/v1/users/me');
    const workspace = body?.data.orgs[0].id;
    const show = async (page: Page) => {
      await page.getByRole('button', { name: 'Menu' }).click();
      await page.getByLabel('Showing').selectOption(workspace);
      await page.getByRole('button', { name: 'Menu' }).click();
    };
    const fits = async (page: Page) => {
      const tooWide = await page.evaluate('document.documentElement.scrollWidth - window.innerWidth');
      assert.ok(Number(tooWide) <= 0, `${page.url()} is ${tooWide} px too wide`);
    };
    const page = await dashboard.signedIn('/imports', small);
    await show(page);
    const odd = {
      'bad-p_Bad111/workflow.yaml': 'name: [',
      [`${'long'.repeat(40)}-p_Odd111/workflow.yaml`]: `name: "<img src=x onerror=alert(1)> ${'w'.repeat(120)}"\ntriggers:\n- id: hi_Odd111\nsteps:\n- namespace: call\n  uses: acme-gone@1.0.0\n`,
    };
    await choose(page, 'odd.zip', zipOf(odd));
    const workflows = page.getByRole('region', { name: 'Workflows' });
    await workflows.getByText('Unreadable').waitFor();
    await workflows.getByText('<img src=x').first().waitFor();
    await fits(page);
    await dashboard.screenshot(page, 'import-narrow-plan');
    await page.getByRole('button', { name: 'Import 1 workflow' }).click();
    await page.getByText('Done', { exact: true }).waitFor();
    await workflows.getByText('Unreadable').waitFor();
    await page.getByRole('region', { name: 'New addresses' }).getByText('/in/').waitFor();
    await fits(page);
    await dashboard.screenshot(page, 'import-narrow-report');
    const report = page.url();

    const user = await dashboard.service.createUser('iris');
    await dashboard.service.api('POST', `/v1/workspaces/${workspace}/members`, {
      ...{ user_id: user.id, role: 'viewer' },
    });
    const viewer = await dashboard.signedIn('/imports', small, user.key);
    await show(viewer);
    await viewer.getByRole('link', { name: /Done.*1 workflow/ }).waitFor();
    assert.equal(await viewer.getByLabel('ZIP archive').count(), 0);
    await viewer.goto(report);
    await viewer.getByRole('region', { name: 'Workflows' }).getByText('created · inactive').waitFor();
    assert.equal(await viewer.getByRole('button', { name: /Activate|Undo/ }).count(), 0);
    dashboard.nothingWrong();
  });

  test('an import that asks is answered on its page, and a second one shows what differs', async () => {
    const { service } = dashboard;
    const files = (text: string) => ({
      'asks-p_Asks111/workflow.yaml':
        'schema: workflow/2022.04\nname: Asks\ntriggers:\n- id: hi_Asks111\nsteps:\n- namespace: say\n  uses: ./say/entry.js\n',
      'asks-p_Asks111/say/entry.js': `export default { run() { return process.env.ASKED_HERE + "${text}"; } };`,
    });
    const asked = await service.api('POST', '/v1/imports', { files: files('first'), ask: true });
    assert.equal(asked.body?.data.state, 'asking', JSON.stringify(asked.body));
    const page = await dashboard.signedIn(`/imports/${asked.body?.data.id}`);
    await page.getByText('Asking', { exact: true }).waitFor();
    await page.getByText('This import waits for answers.').waitFor();
    const question = page.getByRole('region', { name: 'Question 1 of 1' });
    await question.getByLabel('What is the value of ASKED_HERE?').fill('here');
    await dashboard.screenshot(page, 'import-asking');
    await page.keyboard.press('Enter');
    await page.getByRole('listitem').filter({ hasText: 'Variable ASKED_HERE: set' }).waitFor();
    await page.getByRole('button', { name: 'Import with these answers' }).click();
    await page.getByText('Done', { exact: true }).waitFor();

    await page.goto(`${service.url}/imports`);
    await choose(page, 'asks.zip', zipOf(files('second')));
    const workflows = page.getByRole('region', { name: 'Workflows' });
    await workflows.getByText('will be updated').waitFor();
    await workflows.getByText('1 difference').click();
    await workflows.getByText('Changed steps.say.code').waitFor();
    await workflows.getByText('+ "second"').waitFor();
    await dashboard.screenshot(page, 'import-differences');
    await service.api('DELETE', '/v1/variables/ASKED_HERE');
    dashboard.nothingWrong();
  });
});
