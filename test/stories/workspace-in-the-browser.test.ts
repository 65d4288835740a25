import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { chromiumSkip } from '../support/chromium.ts';
import { useDashboard } from '../support/dashboard-browser.ts';
import { createEmittingSource } from '../support/emitting-source.ts';
import { type ServiceClient, testApiKey } from '../support/service-client.ts';
import { waitFor } from '../support/wait-for.ts';

const hostile = '<img src=x onerror=alert(1)>\u202egnp';
const hostileShown = '<img src=x onerror=alert(1)>⟨U+202E⟩gnp';
const mailPassword = 'canary-of-the-mail-server';

/** From now on the pages wait in vain for what they read, so that they cannot find out that way. */
const holdReads = (page: Page) =>
  page.route('**/v1/**', (route) => (route.request().method() === 'GET' ? undefined : route.continue()));

describe('workspaces, keys, usage and the instance in the dashboard', { skip: chromiumSkip() }, () => {
  const dashboard = useDashboard({
    ownService: () => ({
      MILLRACE_SMTP_URL: `smtp://millrace:${mailPassword}@mail.example:587`,
      MILLRACE_EMAIL_FROM: 'millrace@example.com',
    }),
  });
  let service: ServiceClient;

  before(async () => {
    service = dashboard.service;
  });

  const data = async (method: string, path: string, body?: unknown, key = testApiKey) => {
    const answer = await service.api(method, path, body, { key });
    assert.ok(answer.status < 300, `${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body?.data;
  };
  const addUser = async (username: string, email = `${username}@example.com`) => {
    const made = await data('POST', '/v1/users', { username, email });
    return { id: made.id as string, key: made.api_key as string };
  };
  const list = (page: Page, name: string) => page.getByRole('list', { name });
  const show = (page: Page, owner: string) => page.getByLabel('Showing').selectOption(owner);
  const fits = async (page: Page, what: string) => {
    const tooWide = await page.evaluate('document.documentElement.scrollWidth - window.innerWidth');
    assert.ok(Number(tooWide) <= 0, `${what} is ${tooWide} px too wide`);
  };

  test('a workspace is made, gets members, whose roles change, and is renamed', async () => {
    const ann = await addUser('ann', '<script>alert(1)</script>@example.com');
    const page = await dashboard.signedIn('/workspace');
    await page.getByRole('link', { name: 'New workspace' }).click();
    await page.getByLabel('Name', { exact: true }).fill(hostile);
    await page.getByLabel('Short name').fill('Not Good');
    await page.getByRole('button', { name: 'Create workspace' }).click();
    await page.locator('#orgname-problem').waitFor();
    dashboard.forgetComplaints();
    await page.getByLabel('Short name').fill('team-one');
    await page.getByRole('button', { name: 'Create workspace' }).click();
    await page.getByRole('heading', { name: hostileShown, level: 1 }).waitFor();
    const me = await data('GET', '/v1/users/me');
    const { id: workspace } = me.orgs.find(({ orgname }: { orgname: string }) => orgname === 'team-one');
    const members = list(page, 'Members');
    await members.getByText('admin (you)').waitFor();
    // The only admin can neither leave nor give up the role.
    assert.equal(await members.getByRole('button').count(), 0);
    assert.equal(await members.getByRole('combobox').count(), 0);

    await page.getByLabel('E-mail address or user id').fill('nobody@example.com');
    await page.getByRole('button', { name: 'Add', exact: true }).click();
    await page.getByText('There is no such user').waitFor();
    await page.getByText('Create the user under').waitFor();
    dashboard.forgetComplaints();
    await page.getByLabel('E-mail address or user id').fill(ann.id);
    await page.getByLabel('viewer').check();
    await page.getByRole('button', { name: 'Add', exact: true }).click();
    await page.getByText('is viewer now').waitFor();
    await members.getByText('<script>alert(1)</script>@example.com').waitFor();
    const role = async () =>
      (await data('GET', `/v1/workspaces/${workspace}/members`)).find(
        ({ user_id }: { user_id: string }) => user_id === ann.id,
      )?.role;
    assert.equal(await role(), 'viewer');
    await page.getByLabel('Role of ann').selectOption('member');
    await waitFor(async () => (await role()) === 'member');
    await page.getByLabel('Role of ann').selectOption('admin');
    // With a second admin the first may go, and is asked before.
    await page.getByLabel('Role of admin').selectOption('viewer');
    const dialog = page.getByRole('alertdialog');
    await dialog.getByText('You cannot change it back yourself').waitFor();
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    await dialog.waitFor({ state: 'detached' });
    await dashboard.screenshot(page, 'workspace-members');

    await page.getByRole('tab', { name: 'Settings' }).click();
    await page.getByLabel('Name', { exact: true }).fill('Team one');
    await page.getByRole('button', { name: 'Save' }).first().click();
    await page.getByRole('heading', { name: 'Team one', level: 1 }).waitFor();
    await page.getByText('Saved.').waitFor();
    const retention = page.getByRole('form', { name: 'How long it keeps what happened' });
    await retention.getByLabel('Audit log, in days').fill('366');
    await retention.getByText('Expected a number of days from 1 to 365.').waitFor();
    await retention.getByLabel('Audit log, in days').fill('90');
    await retention.getByRole('button', { name: 'Save' }).click();
    await retention.getByText('Saved.').waitFor();

    await page.getByRole('tab', { name: 'Members' }).click();
    await page.getByRole('button', { name: 'Remove ann' }).click();
    await dialog.getByText('personal accounts are taken out').waitFor();
    await dialog.getByRole('button', { name: 'Remove' }).click();
    await dialog.waitFor({ state: 'detached' });
    await members.getByText('ann', { exact: true }).waitFor({ state: 'detached' });
    assert.equal(await role(), undefined);
    dashboard.nothingWrong();
  });

  test('who leaves a workspace sees their own things again', async () => {
    const ben = await addUser('ben');
    const { id: workspace } = await data('POST', '/v1/workspaces', { name: 'To be left' });
    await data('POST', `/v1/workspaces/${workspace}/members`, { user_id: ben.id, role: 'member' });
    const page = await dashboard.signedIn('/workspace', {}, ben.key);
    await show(page, workspace);
    await page.getByRole('heading', { name: 'To be left', level: 1 }).waitFor();
    await page.getByRole('button', { name: 'Leave the workspace' }).click();
    await page.getByRole('alertdialog').getByRole('button', { name: 'Leave' }).click();
    await page.getByRole('heading', { name: 'My own (ben)', level: 1 }).waitFor();
    assert.deepEqual((await data('GET', '/v1/users/me', undefined, ben.key)).orgs, []);
    dashboard.forgetComplaints();
  });

  test('a user on the paid plan finds their workspaces too, and usage without a quota of their own', async () => {
    const paul = await addUser('paul');
    const { id: workspace } = await data('POST', '/v1/workspaces', { name: 'Of the payers' }, paul.key);
    await data('PUT', `/v1/quotas/${paul.id}`, { plan: 'paid' });
    const page = await dashboard.signedIn('/workspace?tab=usage', {}, paul.key);
    const invocations = page.getByRole('region', { name: 'Invocations' });
    await invocations.getByText('0 in 30 days').waitFor();
    assert.equal(await page.getByText('a day may use').count(), 0);
    await show(page, workspace);
    await page.getByRole('heading', { name: 'Of the payers', level: 1 }).waitFor();
    await invocations.getByText('a day may use').waitFor();
    dashboard.nothingWrong();
  });

  test('projects are made, show what is in them, are renamed, and deleted once they are empty', async () => {
    const { id: workspace } = await data('POST', '/v1/workspaces', { name: 'With projects' });
    const page = await dashboard.signedIn('/workspace?tab=projects');
    await show(page, workspace);
    await page.getByRole('tab', { name: 'Projects' }).click();
    await page.getByText('No projects yet').waitFor();
    await page.getByLabel('Name').fill(hostile);
    await page.getByRole('button', { name: 'Create project' }).click();
    const projects = list(page, 'Projects');
    await projects.getByText(hostileShown).click();
    await projects.getByText('It has no workflows.').waitFor();
    const [project] = await data('GET', `/v1/workspaces/${workspace}/projects`);
    const workflow = await service.createWorkflow({
      ...{ org_id: workspace, project_id: project.id, steps: [], triggers: [] },
      settings: { name: '<b>inside</b>' },
    });
    await page.reload();
    await projects.getByText(hostileShown).click();
    await projects.getByRole('link', { name: '<b>inside</b>' }).waitFor();
    assert.equal(await projects.getByRole('button', { name: 'Delete project' }).count(), 0);
    await projects.getByLabel('Name').fill('Renamed');
    await projects.getByRole('button', { name: 'Rename' }).click();
    await projects.locator('summary', { hasText: 'Renamed' }).waitFor();
    await dashboard.screenshot(page, 'workspace-projects');
    await data('DELETE', `/v1/workflows/${workflow.id}`);
    await page.reload();
    await projects.getByText('Renamed').click();
    await projects.getByRole('button', { name: 'Delete project' }).click();
    await page.getByRole('alertdialog').getByRole('button', { name: 'Delete project' }).click();
    await page.getByText('No projects yet').waitFor();
    assert.deepEqual(await data('GET', `/v1/workspaces/${workspace}/projects`), []);
    dashboard.nothingWrong();
  });

  test('variables are set, changed and deleted, secret ones are never shown, and a project has its own', async () => {
    const { id: workspace } = await data('POST', '/v1/workspaces', { name: 'With variables' });
    const { id: project } = await data('POST', `/v1/workspaces/${workspace}/projects`, { name: 'Orders' });
    const page = await dashboard.signedIn('/workspace?tab=variables');
    await show(page, workspace);
    await page.getByRole('tab', { name: 'Variables' }).click();
    await page.getByText('No variables yet').waitFor();
    const form = page.getByRole('form', { name: 'New variable' });
    const create = async (name: string, value: string, secret: boolean) => {
      await form.getByLabel('Name').fill(name);
      await form.getByLabel('Secret').setChecked(secret);
      await form.getByLabel('Value').fill(value);
      await form.getByRole('button', { name: 'Set variable' }).click();
    };
    await create('PATH', '/bin', false);
    await form.getByText('expected another name').waitFor();
    dashboard.forgetComplaints();
    await create('BASE_URL', hostile, false);
    const variables = list(page, 'Variables');
    await variables.getByText(hostileShown).waitFor();
    await create('API_KEY', 'k-1234567890', true);
    await variables.getByText('API_KEY').click();
    assert.ok(!(await page.content()).includes('k-1234567890'), 'the secret is not shown');
    await dashboard.screenshot(page, 'workspace-variables');

    // An empty value keeps the one that is there.
    const row = variables.getByRole('listitem').filter({ hasText: 'API_KEY' });
    await row.getByLabel('Description').fill('of the shop');
    await row.getByRole('button', { name: 'Save' }).click();
    await row.locator('summary', { hasText: 'of the shop' }).waitFor();
    const audit = async () =>
      (await data('GET', `/v1/variable_audit?org_id=${workspace}`)).map(
        (entry: { name: string; details: { changed?: string[] } }) => [entry.name, entry.details.changed],
      );
    assert.deepEqual((await audit())[0], ['API_KEY', ['description']]);
    await row.getByLabel('Value').fill('k-another');
    await row.getByRole('button', { name: 'Save' }).click();
    await waitFor(async () => (await audit())[0][1]?.[0] === 'value');
    await page.getByText('Who changed variables').click();
    await list(page, 'Changes of variables').getByText('BASE_URL').waitFor();

    await page.getByLabel('Variables of').selectOption(project);
    await page.getByText('No variables yet').waitFor();
    await page.getByText(`--project ${project}`).waitFor();
    await create('BASE_URL', 'of the project', false);
    await variables.getByText('of the project').waitFor();
    await page.getByLabel('Variables of').selectOption('');
    await variables.getByText(hostileShown).click();
    await variables.getByRole('button', { name: 'Delete variable' }).first().click();
    await page.getByRole('alertdialog').getByRole('button', { name: 'Delete variable' }).click();
    await variables.getByText('BASE_URL').waitFor({ state: 'detached' });
    assert.equal((await data('GET', `/v1/variables?project_id=${project}`)).length, 1);

    const viewer = await addUser('vic');
    await data('POST', `/v1/workspaces/${workspace}/members`, { user_id: viewer.id, role: 'viewer' });
    await data('PUT', `/v1/variables/PLAIN?org_id=${workspace}`, { value: 'plain-canary' });
    const other = await dashboard.signedIn('/workspace?tab=variables', {}, viewer.key);
    await show(other, workspace);
    await other.getByRole('tab', { name: 'Variables' }).click();
    await list(other, 'Variables').getByText('value not shown').waitFor();
    assert.equal(await other.getByRole('form', { name: 'New variable' }).count(), 0);
    assert.ok(!(await other.content()).includes('plain-canary'));
    dashboard.nothingWrong();
  });

  test('a key is made, shown once, used, and revoked; the one in use here says so before it ends', async () => {
    const cleo = await addUser('cleo');
    const page = await dashboard.signedIn('/workspace?tab=keys', {}, cleo.key);
    const keys = list(page, 'Your API keys');
    await keys.getByText('in use here').waitFor();
    await page.getByText('Your last key cannot be revoked').waitFor();
    assert.equal(await keys.getByRole('button').count(), 0);
    await page.getByText('New key').click();
    await page.getByLabel('What it is for').fill(hostile);
    for (const scope of ['run', 'write', 'credentials', 'admin'])
      await page.getByRole('checkbox', { name: new RegExp(`^${scope} `) }).uncheck();
    await page.getByRole('checkbox', { name: /^read see everything/ }).uncheck();
    await page.getByText('Choose at least one scope.').waitFor();
    assert.ok(await page.getByRole('button', { name: 'Create key' }).isDisabled());
    await page.getByRole('checkbox', { name: /^read see everything/ }).check();
    await page.getByLabel('Expires').selectOption('in 30 days');
    await page.getByText(/^Refused from /).waitFor();
    await page.getByRole('button', { name: 'Create key' }).click();
    const secret = (await page.locator('.secret pre').textContent()) ?? '';
    assert.ok(secret.length >= 20);
    const row = keys.getByRole('listitem').filter({ hasText: hostileShown });
    await row.getByText('not used yet').waitFor();
    await row.getByText(/^read · expires in 29 d 23 h/).waitFor();
    const [latest] = await data('GET', '/v1/users/me/api_keys', undefined, cleo.key);
    assert.deepEqual(latest.scopes, ['read']);
    assert.ok(Math.abs(latest.expires_at - Date.now() / 1000 - 30 * 86_400) < 600);
    await dashboard.screenshot(page, 'workspace-key-once');
    await page.getByRole('button', { name: 'I have kept it' }).click();
    await page.locator('.secret').waitFor({ state: 'detached' });
    assert.ok(!(await page.content()).includes(secret), 'the key is shown once');

    assert.equal((await service.api('GET', '/v1/users/me', undefined, { key: secret })).status, 200);
    await waitFor(async () => {
      const mine = await data('GET', '/v1/users/me/api_keys', undefined, cleo.key);
      return mine[0].last_used_at !== null;
    });
    await page.reload();
    await row.getByText(/used (just now|\d+ (s|min) ago)/).waitFor();
    await dashboard.screenshot(page, 'workspace-keys');
    await row.getByRole('button', { name: /^Revoke/ }).click();
    const dialog = page.getByRole('alertdialog');
    await dialog.getByText('ends at once').waitFor();
    assert.equal(await dialog.getByText('the key you are signed in with').count(), 0);
    await dialog.getByRole('button', { name: 'Revoke key' }).click();
    await dialog.waitFor({ state: 'detached' });
    await row.waitFor({ state: 'detached' });
    assert.equal((await service.api('GET', '/v1/users/me', undefined, { key: secret })).status, 401);

    // A key until the end of today, which warns.
    await page.getByText('New key').click();
    await page.getByLabel('What it is for').fill('today');
    await page.getByLabel('Expires').selectOption('on a date');
    assert.ok(await page.getByRole('button', { name: 'Create key' }).isDisabled());
    const today = await page.evaluate('new Date().toLocaleDateString("sv")');
    await page.getByLabel('Last day').fill(String(today));
    await page.getByRole('button', { name: 'Create key' }).click();
    await page.getByRole('button', { name: 'I have kept it' }).click();
    const ofToday = keys.getByRole('listitem').filter({ hasText: 'today' });
    await ofToday.locator('.state.warn', { hasText: /^expires in / }).waitFor();
    const gone = await data('GET', '/v1/users/me/api_keys', undefined, cleo.key);
    await page.route('**/v1/users/me/api_keys?**', (route) =>
      route.fulfill({
        json: {
          page_info: { total_count: 2, count: 2, start_cursor: '', end_cursor: '' },
          data: [{ ...gone[0], expires_at: 1_700_000_000 }, gone[1]],
        },
      }),
    );
    await ofToday.locator('.state.bad', { hasText: /^expired / }).waitFor();
    // An expired key is no way in, so the other one is the last.
    await page.getByText('Your last key cannot be revoked').waitFor();
    await page.unrouteAll();

    const spare = await data('POST', '/v1/users/me/api_keys', { name: 'spare' }, cleo.key);
    await page.reload();
    await keys.getByRole('button', { name: 'Revoke first key' }).click();
    await dialog.getByText('This is the key you are signed in with').waitFor();
    await dialog.getByRole('button', { name: 'Revoke key' }).click();
    await page.getByLabel('API key', { exact: true }).waitFor();
    assert.equal(await page.getByText('Your session has ended').count(), 0, 'it was said before');
    await dashboard.signIn(page, spare.api_key);
    await page.getByRole('heading', { name: 'Home' }).waitFor();
    dashboard.nothingWrong();
  });

  test('a session has the scopes of its key: what it may not do is said, and no new key gets more', async () => {
    const rita = await addUser('rita');
    const keyWith = async (scopes: string[]) =>
      (await data('POST', '/v1/users/me/api_keys', { name: 'less', scopes }, rita.key)).api_key as string;
    const reader = await dashboard.signedIn('/workspace?tab=keys', {}, await keyWith(['read']));
    await reader.getByRole('alert').getByText('insufficient_scope').waitFor();
    assert.equal(await reader.getByText('New key').count(), 0);
    await reader.getByRole('tab', { name: 'Sign-in' }).click();
    // Links to a provider and sessions ask for the same scope.
    await reader.getByRole('alert').getByText('insufficient_scope').nth(1).waitFor();
    // Left open, it would ask again while the rest of the test runs, and be refused again.
    await reader.close();
    dashboard.forgetComplaints();

    const page = await dashboard.signedIn('/workspace?tab=keys', {}, await keyWith(['read', 'admin']));
    await page.getByText('New key').click();
    await page.getByText('The key you are signed in with has no other scopes to give.').waitFor();
    assert.ok(await page.getByRole('checkbox', { name: /^write / }).isDisabled());
    await page.getByLabel('What it is for').fill('as much as it may');
    await page.getByRole('button', { name: 'Create key' }).click();
    await page.getByRole('button', { name: 'I have kept it' }).click();
    const [latest] = await data('GET', '/v1/users/me/api_keys', undefined, rita.key);
    assert.deepEqual([...latest.scopes].sort(), ['admin', 'read']);
    dashboard.nothingWrong();
  });

  test('usage shows what just happened, against the quota, as bars and as a table', async () => {
    const { id: workspace } = await data('POST', '/v1/workspaces', { name: 'Busy' });
    await data('PUT', `/v1/quotas/${workspace}`, { invocations: 4, credits: 9 });
    const page = await dashboard.signedIn('/workspace');
    await show(page, workspace);
    await page.getByRole('tab', { name: 'Usage' }).click();
    const invocations = page.getByRole('region', { name: 'Invocations' });
    await invocations.getByText('0 in 30 days, 0 today.').waitFor();
    const source = await createEmittingSource(service, { workspace });
    for (const n of [1, 2, 3]) await source.emit([n]);
    await invocations.getByText('3 in 30 days, 3 today.').waitFor();
    await invocations.getByText('a day may use 4').waitFor();
    assert.equal(await invocations.locator('line.quota-mark').count(), 1);
    // The run time has the quota of the settings, which no line can show.
    assert.equal(await page.getByRole('region', { name: 'Run time' }).locator('line').count(), 0);
    await page.getByText('The same as a table').click();
    const today = page.getByRole('row').nth(1);
    assert.match((await today.textContent()) ?? '', /^\w+ \d+3/);
    assert.equal(await page.getByRole('row').count(), 31);
    await dashboard.screenshot(page, 'workspace-usage');
    await page.getByLabel('Days to show').selectOption('7');
    await invocations.getByText('3 in 7 days').waitFor();
    assert.equal(await page.getByRole('row').count(), 8);
    dashboard.nothingWrong();
  });

  test('a user sees where they are signed in, ends one session, and then all others', async () => {
    const sue = await addUser('sue');
    const page = await dashboard.signedIn('/workspace?tab=sign-in', {}, sue.key);
    const sessions = list(page, 'Sessions');
    await sessions.getByText(/^Chrome on /).waitFor();
    await sessions.getByText('this one').waitFor();
    await sessions.getByText('with the key first key').waitFor();
    assert.equal(await sessions.getByRole('button').count(), 0);
    assert.equal(await page.getByRole('button', { name: 'End all other sessions' }).count(), 0);
    const others: Page[] = [];
    for (const _ of [1, 2, 3]) {
      const other = await dashboard.open();
      await other.goto(`${service.url}/sign-in`);
      await dashboard.signIn(other, sue.key);
      await other.getByRole('heading', { name: 'Home' }).waitFor();
      others.push(other);
    }
    await page.reload();
    await sessions
      .getByRole('button', { name: /^End the session of Chrome/ })
      .nth(2)
      .waitFor();
    await dashboard.screenshot(page, 'sessions');
    await sessions.getByRole('button').first().click();
    const dialog = page.getByRole('alertdialog');
    await dialog.getByRole('button', { name: 'End session' }).click();
    await dialog.waitFor({ state: 'detached' });
    await sessions.getByRole('button').nth(2).waitFor({ state: 'detached' });
    // The newest is the first of the list.
    await others[2]?.getByText('Your session has ended').waitFor();
    const endAll = page.getByRole('button', { name: 'End all other sessions' });
    await endAll.click();
    await dialog.getByText('2 browsers are signed out').waitFor();
    await page.route('**/v1/users/me/sessions', (route) =>
      route.request().method() === 'DELETE'
        ? route.fulfill({ status: 409, json: { error: 'try it again', code: 'conflict', details: {} } })
        : route.continue(),
    );
    await dialog.getByRole('button', { name: 'End them' }).click();
    await dialog.getByText('try it again').waitFor();
    dashboard.forgetComplaints();
    await page.unrouteAll();
    await dialog.getByRole('button', { name: 'End them' }).click();
    await dialog.waitFor({ state: 'detached' });
    await endAll.waitFor({ state: 'detached' });
    await others[0]?.getByText('Your session has ended').waitFor();
    assert.equal((await data('GET', '/v1/users/me/sessions', undefined, sue.key)).length, 1);
    await page.reload();
    await sessions.getByText('this one').waitFor();
    dashboard.nothingWrong();
  });

  test('an admin adds a service account, gives it another role and a key, revokes the key and deletes it', async () => {
    const { id: workspace } = await data('POST', '/v1/workspaces', { name: 'With robots' });
    const page = await dashboard.signedIn('/workspace');
    await show(page, workspace);
    await page.getByRole('tab', { name: 'Service accounts' }).click();
    await page.getByText('No service accounts yet').waitFor();
    const form = page.getByRole('form', { name: 'Add a service account' });
    await form.getByLabel('Name').fill('not good');
    await form.getByRole('button', { name: 'Add' }).click();
    await page.getByText('The service account was not added.').waitFor();
    dashboard.forgetComplaints();
    await form.getByLabel('Name').fill('deploy-bot');
    await form.getByLabel('viewer').check();
    await form.getByRole('button', { name: 'Add' }).click();
    const account = list(page, 'Service accounts').getByRole('listitem').filter({ hasText: 'deploy-bot.' });
    await account.getByText('It has no keys').waitFor();
    await account.getByLabel('Role').selectOption('member');
    await account.locator('summary .state', { hasText: 'member' }).waitFor();

    await account.getByText('New key').click();
    await account.getByLabel('What it is for').fill('ci');
    await account.getByRole('checkbox', { name: /^admin / }).uncheck();
    await account.getByRole('button', { name: 'Create key' }).click();
    const secret = (await account.locator('.secret pre').textContent()) ?? '';
    await account.getByRole('button', { name: 'I have kept it' }).click();
    assert.ok(!(await page.content()).includes(secret), 'the key is shown once');
    const robot = await data('GET', '/v1/users/me', undefined, secret);
    assert.match(robot.username, /^deploy-bot\.\w+$/);
    await account.getByText('read, run, write, credentials · never expires').waitFor();
    await dashboard.screenshot(page, 'service-accounts');

    // Members have it too, without controls that the service refuses.
    await page.getByRole('tab', { name: 'Members' }).click();
    const member = list(page, 'Members').getByRole('listitem').filter({ hasText: 'deploy-bot.' });
    await member.getByText('service account').waitFor();
    assert.equal(await member.getByRole('button').count(), 0);
    assert.equal(await member.getByRole('combobox').count(), 0);
    await page.getByRole('tab', { name: 'Service accounts' }).click();

    await account.locator('summary').first().click();
    await account.getByRole('button', { name: 'Revoke ci' }).click();
    const dialog = page.getByRole('alertdialog');
    await dialog.getByRole('button', { name: 'Revoke key' }).click();
    await account.getByText('It has no keys').waitFor();
    assert.equal((await service.api('GET', '/v1/users/me', undefined, { key: secret })).status, 401);
    await account.getByRole('button', { name: 'Delete service account' }).click();
    await dialog.getByText('What it made stays with the workspace').waitFor();
    await dialog.getByRole('button', { name: 'Delete service account' }).click();
    await page.getByText('No service accounts yet').waitFor();
    assert.deepEqual(await data('GET', `/v1/workspaces/${workspace}/service_accounts`), []);
    dashboard.nothingWrong();
  });

  test('the admin disables a user with a reason, sees what still runs, pauses it, and enables the user', async () => {
    const leo = await addUser('leo-who-leaves');
    const own = { key: leo.key };
    const made = await service.api('POST', '/v1/workflows', { steps: [], triggers: [] }, own);
    assert.equal(made.status, 200, JSON.stringify(made.body));
    const theirs = await dashboard.signedIn('/', {}, leo.key);
    const page = await dashboard.signedIn('/instance?tab=users');
    await page.getByLabel('Search users').fill('leo-who');
    const row = list(page, 'Users').getByRole('button', { name: /^leo-who-leaves/ });
    await row.click();
    const detail = page.getByRole('region', { name: 'User leo-who-leaves' });
    const dialog = page.getByRole('alertdialog');
    await detail.getByRole('button', { name: 'Change e-mail' }).click();
    const change = dialog.getByRole('button', { name: 'Change e-mail' });
    assert.ok(await change.isDisabled(), 'no address is given');
    await dialog.getByLabel('New address').fill('admin@localhost');
    await change.click();
    await dialog.getByText('a user with this email exists already').waitFor();
    await dialog.getByLabel('New address').fill('leo@moved.example');
    await dashboard.screenshot(page, 'instance-user-email');
    await page.keyboard.press('Enter');
    await dialog.waitFor({ state: 'detached' });
    await row.getByText('leo@moved.example').waitFor();
    // The browser reports the refusal.
    dashboard.forgetComplaints();
    await detail.getByRole('button', { name: 'Disable user' }).click();
    await dialog.getByLabel('Reason (optional)').fill(hostile);
    await dialog.getByRole('button', { name: 'Disable user' }).click();
    await dialog.waitFor({ state: 'detached' });
    await row.getByText('disabled').waitFor();
    await detail.getByText(hostileShown).waitFor();
    await theirs.getByText('Your session has ended').waitFor();
    assert.equal((await service.api('GET', '/v1/users/me', undefined, own)).status, 401);
    await dashboard.screenshot(page, 'instance-user-disabled');
    await detail.getByRole('button', { name: 'Enable user' }).click();
    await row.getByText('disabled').waitFor({ state: 'detached' });
    assert.equal((await service.api('GET', '/v1/users/me', undefined, own)).status, 200);

    await data('PUT', `/v1/workflows/${made.body.data.id}`, { active: true }, leo.key);
    await detail.getByRole('button', { name: 'Disable user' }).click();
    await dialog.getByRole('button', { name: 'Disable user' }).click();
    await detail.getByRole('list', { name: 'Still running' }).getByText(made.body.data.id).waitFor();
    await detail.getByRole('button', { name: 'Enable user' }).click();
    await detail.getByRole('button', { name: 'Disable user' }).click();
    await dialog.getByLabel('Pause their deployments').check();
    await dialog.getByRole('button', { name: 'Disable user' }).click();
    await detail.getByText('Nothing of theirs is running.').waitFor();
    await page.getByLabel('Search users').fill('deploy-bot.');
    await list(page, 'Users')
      .getByRole('button', { name: /service account.*disabled$/ })
      .waitFor();
    // Admins of the instance cannot disable themselves, so there is no button.
    await page.getByLabel('Search users').fill('admin@');
    await list(page, 'Users')
      .getByRole('button', { name: /^admin/ })
      .click();
    await page.getByText('This is you: another admin of the instance can disable or delete you.').waitFor();
    assert.equal(await page.getByRole('button', { name: 'Disable user' }).count(), 0);

    await page.getByRole('tab', { name: 'Audit log' }).click();
    const log = list(page, 'Audit log');
    await page.getByLabel('What', { exact: true }).selectOption('Disable user');
    await page.getByText('3 changes', { exact: true }).waitFor();
    assert.equal(await log.locator('summary', { hasText: 'leo-who-leaves' }).count(), 3);
    await log.locator('summary').last().click();
    const fields = page.getByRole('table', { name: 'Changed fields' });
    await fields
      .getByRole('row', { name: /^disabled_reason/ })
      .getByText(hostileShown)
      .waitFor();
    dashboard.nothingWrong();
  });

  test('a workspace, a user, and those who go themselves are deleted once the name is typed', async () => {
    const gone = await addUser('gone-soon');
    const kim = await addUser('kim-who-goes');
    const { id: shop } = await data(
      'POST',
      '/v1/workspaces',
      { name: 'Closing shop', orgname: 'closing' },
      kim.key,
    );
    const status = async (path: string, key: string) =>
      (await service.api('GET', path, undefined, { key })).status;
    const theirs = await dashboard.signedIn('/workspace', {}, kim.key);
    await show(theirs, shop);
    await theirs.getByRole('tab', { name: 'Settings' }).click();
    const confirm = async (page: Page, what: string, nearly: string, name: string) => {
      const dialog = page.getByRole('alertdialog', { name: `Delete this ${what}?` });
      const button = dialog.getByRole('button', { name: `Delete ${what}` });
      await dialog.getByText('It cannot be undone').waitFor();
      assert.ok(await button.isDisabled());
      await dialog.getByRole('textbox').fill(nearly);
      assert.ok(await button.isDisabled(), nearly);
      await dialog.getByRole('textbox').fill(name);
      await dashboard.screenshot(page, `delete-${what}`);
      await button.click();
    };
    await theirs.getByRole('button', { name: 'Delete workspace' }).click();
    await confirm(theirs, 'workspace', 'Closing shop', 'closing');
    await theirs.getByRole('heading', { name: 'Home' }).waitFor();
    assert.equal(await status(`/v1/workspaces/${shop}`, kim.key), 404);
    assert.equal(await theirs.getByRole('option', { name: 'Closing shop' }).count(), 0);

    const page = await dashboard.signedIn('/instance?tab=users');
    await page.getByLabel('Search users').fill('gone-soon');
    await list(page, 'Users')
      .getByRole('button', { name: /^gone-soon/ })
      .click();
    await page
      .getByRole('region', { name: 'User gone-soon' })
      .getByRole('button', { name: 'Delete user' })
      .click();
    await confirm(page, 'user', 'gone', 'gone-soon');
    await list(page, 'Users')
      .getByRole('button', { name: /^gone-soon/ })
      .waitFor({ state: 'detached' });
    assert.equal(await status('/v1/users/me', gone.key), 401);
    // No button for the admin who looks.
    await page.getByLabel('Search users').fill('admin@');
    await list(page, 'Users')
      .getByRole('button', { name: /^admin/ })
      .click();
    await page.getByText('This is you: another admin of the instance can disable or delete you.').waitFor();
    assert.equal(await page.getByRole('button', { name: 'Delete user' }).count(), 0);

    await theirs.goto(`${service.url}/workspace?tab=sign-in`);
    await theirs.getByRole('button', { name: 'Delete user' }).click();
    await confirm(theirs, 'user', 'kim-who', 'kim-who-goes');
    await theirs.getByLabel('API key').waitFor();
    assert.equal(await status('/v1/users/me', kim.key), 401);
  });

  test('the audit says who changed what, before and after, is filtered, paged and downloaded', async () => {
    const { id: workspace } = await data('POST', '/v1/workspaces', { name: 'All audited' });
    const olga = await addUser('olga');
    await data('POST', `/v1/workspaces/${workspace}/members`, { user_id: olga.id, role: 'member' });
    const project = await data('POST', `/v1/workspaces/${workspace}/projects`, { name: 'Before' }, olga.key);
    await data('PUT', `/v1/projects/${project.id}`, { name: hostile }, olga.key);
    for (const n of Array(55).keys())
      await data('PUT', `/v1/variables/V${n}?org_id=${workspace}`, { value: 'canary-value', secret: true });
    const page = await dashboard.signedIn('/workspace');
    await show(page, workspace);
    await page.getByRole('tab', { name: 'Audit log' }).click();
    const log = list(page, 'Audit log');
    await page.getByText('59 changes').waitFor();
    assert.equal(await log.locator('summary').count(), 50);
    await page.getByRole('button', { name: 'Show older' }).click();
    await log.locator('summary').nth(58).waitFor();
    await page.getByRole('button', { name: 'Show older' }).waitFor({ state: 'detached' });

    await page.getByLabel('What', { exact: true }).selectOption('Update project');
    await page.getByText('1 change', { exact: true }).waitFor();
    const change = log.locator('summary', { hasText: `Update project ${hostileShown}` });
    await change.getByText('by olga').waitFor();
    const fields = page.getByRole('table', { name: 'Changed fields' });
    assert.equal(await fields.count(), 0, 'before and after are folded');
    await change.click();
    await fields.getByRole('cell', { name: 'Before', exact: true }).waitFor();
    await fields.getByText(hostileShown).waitFor();
    await dashboard.screenshot(page, 'workspace-audit-change');
    const downloading = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Download' }).click();
    const download = await downloading;
    assert.equal(download.suggestedFilename(), 'audit.ndjson');
    const lines = (await readFile(await download.path(), 'utf8')).trim().split('\n');
    assert.deepEqual(
      lines.map((line) => JSON.parse(line).operation),
      ['updateProject'],
    );
    await page.getByRole('button', { name: 'Only this object' }).click();
    await page.getByLabel('What', { exact: true }).selectOption('every change');
    await page.getByText('2 changes', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Clear filters' }).click();
    await page.getByLabel('Who', { exact: true }).selectOption('olga');
    await page.getByText('2 changes', { exact: true }).waitFor();
    await page.getByLabel('Who', { exact: true }).selectOption('everyone');
    const today = String(await page.evaluate('new Date().toLocaleDateString("sv")'));
    await page.getByLabel('From', { exact: true }).fill(today);
    await page.getByText('59 changes').waitFor();
    await page.getByLabel('To', { exact: true }).fill('2020-01-01');
    await page.getByText('No such change').waitFor();
    assert.ok(!(await page.content()).includes('canary-value'));
    // What the service refuses is said.
    await page.route('**/v1/audit/export**', (route) =>
      route.fulfill({ status: 403, json: { error: 'no longer an admin', code: 'forbidden', details: {} } }),
    );
    await page.getByRole('button', { name: 'Download' }).click();
    await page.getByText('no longer an admin').waitFor();
    dashboard.forgetComplaints();

    // Users have one of their own; of the workspace it is for its admins.
    const own = await dashboard.signedIn('/workspace?tab=audit', {}, olga.key);
    await list(own, 'Audit log').getByText('Sign in').first().waitFor();
    await show(own, workspace);
    await own.getByRole('tab', { name: 'Members' }).waitFor();
    assert.equal(await own.getByRole('tab', { name: 'Audit log' }).count(), 0);
    dashboard.nothingWrong();
  });

  test('the audit log shows who did what with accounts, and is narrowed', async () => {
    const { id: workspace } = await data('POST', '/v1/workspaces', { name: 'Audited' });
    const dora = await addUser('dora');
    await data('POST', `/v1/workspaces/${workspace}/members`, { user_id: dora.id, role: 'member' });
    const account = await data(
      'POST',
      `/v1/accounts?org_id=${workspace}`,
      { app: 'acme_vault', name: 'first', credentials: { token: 'canary-of-the-account' } },
      dora.key,
    );
    await data('PUT', `/v1/accounts/${account.id}`, { name: hostile }, dora.key);
    await data('DELETE', `/v1/accounts/${account.id}?force=true`);
    const page = await dashboard.signedIn('/workspace');
    await show(page, workspace);
    await page.getByRole('tab', { name: 'Audit log' }).click();
    await page.getByLabel('Records of').selectOption('use of connected accounts');
    const log = list(page, 'Use of accounts');
    await log.getByRole('button', { name: /^admin deleted the account/ }).waitFor();
    await log.getByRole('button', { name: /^dora renamed or changed it/ }).click();
    const detail = page.getByRole('region', { name: 'Entry of the audit log' });
    await detail.getByText(`"${hostileShown}"`).waitFor();
    await detail.getByText('dora', { exact: true }).waitFor();
    assert.ok(!(await detail.innerText()).includes(dora.id));
    await dashboard.screenshot(page, 'workspace-audit');
    await page.getByLabel('Who did it').selectOption({ label: 'admin' });
    await log.getByRole('button', { name: /^dora/ }).first().waitFor({ state: 'detached' });
    await log.getByRole('button', { name: /deleted/ }).waitFor();
    await page.getByLabel('What was done').selectOption('became_unhealthy');
    await page.getByText('Nothing of that kind').waitFor();
    assert.ok(!(await page.content()).includes('canary-of-the-account'));
    dashboard.nothingWrong();
  });

  test('the admin sees what runs and every setting without secrets, makes a user, and sets a quota', async () => {
    const page = await dashboard.signedIn('/');
    await page.getByRole('link', { name: 'Instance' }).click();
    await page.getByText('SQLite, in the data folder').waitFor();
    await page.getByRole('heading', { name: 'Infrastructure' }).waitFor();
    await page.getByText(`${process.version} on ${process.platform}`).waitFor();
    await page.getByRole('meter', { name: 'Disk' }).waitFor();
    await dashboard.screenshot(page, 'instance-running');

    await page.getByRole('tab', { name: 'Settings' }).click();
    const settings = list(page, 'Settings');
    const setting = (env: string) =>
      settings.getByRole('listitem').filter({ has: page.getByText(env, { exact: true }) });
    await setting('MILLRACE_SMTP_URL').getByText('smtp://mail.example:587').waitFor();
    await setting('MILLRACE_API_KEY').getByText('is set, and not shown').waitFor();
    await setting('MILLRACE_RUN_DEADLINE').getByText('default').waitFor();
    await setting('MILLRACE_RUN_DEADLINE').getByText('5 minutes').waitFor();
    const content = await page.content();
    for (const secret of [mailPassword, testApiKey]) assert.ok(!content.includes(secret));
    const all = await settings.getByRole('listitem').count();
    await dashboard.screenshot(page, 'instance-settings');
    await page.getByLabel('only those that were set').check();
    await setting('MILLRACE_RUN_DEADLINE').waitFor({ state: 'detached' });
    assert.ok((await settings.getByRole('listitem').count()) < all);

    await page.getByRole('tab', { name: 'Users' }).click();
    await page.getByText('New user').click();
    await page.getByLabel('User name').fill('not good');
    await page.getByLabel('E-mail address').fill('emil@example.com');
    await page.getByRole('button', { name: 'Create user' }).click();
    await page.locator('#username-problem').waitFor();
    dashboard.forgetComplaints();
    await page.getByLabel('User name').fill('emil');
    await page.getByRole('button', { name: 'Create user' }).click();
    const key = (await page.locator('.secret pre').textContent()) ?? '';
    const { id } = await data('GET', '/v1/users/me', undefined, key);
    await page.getByRole('button', { name: 'I have kept it' }).click();
    assert.ok(!(await page.content()).includes(key));
    await page.getByLabel('Search users').fill('EMIL@');
    await page.getByText('1 user', { exact: true }).waitFor();
    await dashboard.screenshot(page, 'instance-users');
    await list(page, 'Users').getByRole('button', { name: /^emil/ }).click();
    await page.getByRole('link', { name: 'Quotas of emil' }).click();
    await page.getByRole('heading', { name: 'emil', exact: true }).waitFor();
    await page.getByLabel('Invocations a day').fill('500');
    await page.getByLabel('Run time a day, in hours').fill('1.5');
    await page.getByLabel('What goes beyond').selectOption({ label: 'is refused' });
    const processesMax = page.getByLabel('Busy processes on each node');
    const memoryMbMax = page.getByLabel('Memory on each node, in MB');
    await processesMax.fill('3');
    await memoryMbMax.fill('63');
    await page.getByText('Expected a whole number from 64 to 1,000,000.').waitFor();
    assert.ok(await page.getByRole('button', { name: 'Save' }).isDisabled());
    await memoryMbMax.fill('64');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Saved.').waitFor();
    await page.getByText('Used today: 0 of 500').waitFor();
    await dashboard.screenshot(page, 'instance-quotas');
    const quota = await data('GET', `/v1/quotas/${id}`);
    assert.equal(quota.own.compute_ms, 5_400_000);
    assert.deepEqual([quota.invocations, quota.enforced, quota.own.credits], [500, true, null]);
    assert.deepEqual([quota.own.processes_max, quota.own.memory_mb_max], [3, 64]);
    await page.reload();
    await page.getByRole('heading', { name: 'emil', exact: true }).waitFor();
    assert.deepEqual([await processesMax.inputValue(), await memoryMbMax.inputValue()], ['3', '64']);
    await processesMax.fill('');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Saved.').waitFor();
    const { own } = await data('GET', `/v1/quotas/${id}`);
    assert.deepEqual([own.processes_max, own.memory_mb_max], [null, 64]);
    dashboard.nothingWrong();
  });

  test('the admin sees in which process code runs, and which deployment was set apart and why', async () => {
    const source = async (name: string, run: string) => {
      const { id, configured_props } = await service.createSource({
        name,
        component_code: `export default { name: 'Code', props: { http: '$.interface.http' }, run() { ${run} } };`,
      });
      return { id, call: () => fetch(configured_props.http.endpoint_url) };
    };
    const good = await source('calm', '');
    const bad = await source(hostile, 'process.exit(7)');
    await good.call();
    const page = await dashboard.signedIn('/instance');
    await page.getByRole('link', { name: 'Processes of user code' }).click();
    await page.getByRole('tab', { name: 'Processes', selected: true }).waitFor();
    const rows = (table: string) =>
      page.getByRole('table', { name: table }).getByRole('row').filter({ hasText: 'admin' });
    const ofGood = rows('Processes').filter({ has: page.getByRole('link', { name: 'calm' }) });
    await ofGood.getByText('Shared').waitFor();
    await ofGood.getByText(/^(Idle|Busy)$/).waitFor();
    await ofGood.getByText(/^\d+ MB$/).waitFor();
    await rows('Shares of owners').getByRole('link', { name: 'Quotas of admin' }).waitFor();

    // Nothing is clicked or reloaded: the page finds out itself.
    await bad.call();
    const apart = rows('Set apart').filter({ hasText: hostileShown });
    await apart.getByText('the process ended with code 7').waitFor();
    await good.call();
    await ofGood.getByText('Shared').waitFor();
    await dashboard.screenshot(page, 'instance-processes');
    await apart.getByRole('link', { name: 'Change its code' }).click();
    await page.getByRole('heading', { name: hostileShown, level: 1 }).waitFor();
    assert.match(page.url(), new RegExp(`/sources/${bad.id}\\?tab=code$`));
    dashboard.nothingWrong();
  });

  test('what stands out among many processes is seen first, and a node without any says so', async () => {
    const now = Math.floor(Date.now() / 1000);
    const owner = (n: number) =>
      n % 3 === 0
        ? { owner_id: 'o_AbCdEf123456', owner_name: null }
        : { owner_id: `u_${n % 3}`, owner_name: `person ${n % 3}` };
    const bounds = {
      node: 'node_1',
      sandbox: 'kernel',
      processes_max: 128,
      ready: 2,
      memory_bytes_max: 2 ** 31,
    };
    const empty = {
      ...{ ...bounds, memory_bytes: 0, set_apart_count: 0 },
      ...{ processes: [], owners: [], set_apart: [], deployments: [] },
    };
    const many = {
      ...{ ...bounds, memory_bytes: 3 * 2 ** 29, set_apart_count: 140 },
      processes: Array.from({ length: 128 }, (_, n) => ({
        ...{ pid: n === 0 ? null : 4000 + n, ...owner(n), shared: n % 2 === 0, calls: n === 90 ? 3 : n % 2 },
        state:
          n === 90
            ? 'blocked'
            : n === 91
              ? 'leaving'
              : n === 92
                ? 'background'
                : n % 2 === 1
                  ? 'busy'
                  : 'idle',
        purpose: n === 93 ? 'evaluation' : 'deployments',
        ...{ cpu_cores: n === 92 ? 0.98 : 0, priority: n === 92 ? 'low' : 'usual' },
        deployment_count: n % 5,
        deployment_ids: Array.from({ length: n % 5 }, (_, i) => `dc_AbCdEfGhI${n}_${i}`),
        trust_domain: [owner(n).owner_id, ...(n === 4 ? ['u_AbCdEfGh1234', 'u_AbCdEfGh5678'] : [])],
        trust_domain_names: [owner(n).owner_name, ...(n === 4 ? ['ann', null] : [])],
        last_blame:
          n === 2
            ? { deployment_id: 'd_AbCdEfGhIj2', reason: 'the process ended with code 9', at: now - 60 }
            : null,
        ...{ memory_bytes: n === 1 ? null : n * 2 ** 20, started_at: now - n * 60 },
      })),
      owners: [1, 2, 3].map((n) => ({
        ...{ ...owner(n), processes: n * 10, memory_bytes: n * 2 ** 27 },
        ...{ delayed: n === 1 ? 12_345 : 0, refused: n === 1 ? 678 : 0 },
      })),
      set_apart: Array.from({ length: 100 }, (_, n) => ({
        ...{ deployment_id: `d_AbCdEfGhIj${n}`, ...owner(n), at: now - n * 3600 },
        reason: n === 1 ? 'e'.repeat(400) : 'the process ended with code 1',
      })),
      deployments: [
        { id: 'dc_AbCdEfGhI2_0', object_id: 'dc_AbCdEfGhI2_0', name: 'n'.repeat(90) },
        { id: 'd_AbCdEfGhIj2', object_id: 'p_AbCdEfGhIj2', name: 'Night report' },
      ],
    };
    const screens = {
      wide: { viewport: { width: 1280, height: 860 }, colorScheme: 'light' },
      tablet: { viewport: { width: 900, height: 1000 }, colorScheme: 'light' },
      phone: { viewport: { width: 390, height: 844 }, colorScheme: 'dark' },
    } as const;
    for (const [name, screen] of Object.entries(screens)) {
      const page = await dashboard.signedIn('/', screen);
      let shown: object = many;
      await page.route('**/v1/instance/processes', (route) => route.fulfill({ json: { data: shown } }));
      await page.goto(`${service.url}/instance?tab=processes`);
      const processes = page.getByRole('table', { name: 'Processes' }).getByRole('row');
      await processes.nth(1).getByText('Blocked').waitFor();
      assert.equal(await processes.count(), 129);
      await processes.getByText('Last blamed: Night report').waitFor();
      await processes.getByText('code that is being deployed').waitFor();
      const inBackground = processes.filter({ hasText: 'Background' });
      await inBackground.getByText('0.98 cores, low priority').waitFor();
      await processes.getByText('With accounts of ann, u_AbCdEfGh5678').waitFor();
      const owners = page.getByRole('table', { name: 'Shares of owners' });
      await owners.locator('.state.bad', { hasText: '678' }).waitFor();
      assert.equal(await owners.locator('.state').count(), 2);
      await page.getByText('The latest 100 of 140 are shown.').waitFor();
      const apart = page.getByRole('table', { name: 'Set apart' });
      assert.equal(
        await apart.getByRole('link', { name: 'Night report' }).getAttribute('href'),
        '/workflows/p_AbCdEfGhIj2',
      );
      await fits(page, `many processes, ${name}`);
      const cutOff = await page.evaluate(
        `Math.max(...[...document.querySelectorAll('.table-scroll')].map((one) => one.scrollWidth - one.clientWidth))`,
      );
      assert.ok(Number(cutOff) <= 0, `${name}: ${cutOff} px of a table are cut off`);
      await dashboard.screenshot(page, `instance-processes-many-${name}`);
      shown = empty;
      await page.reload();
      await page.getByText('No process has user code.').waitFor();
      await page.getByText('A deployment whose code ends a process').waitFor();
      assert.equal(await page.getByRole('table').count(), 0);
      await fits(page, `no processes, ${name}`);
      await dashboard.screenshot(page, `instance-processes-none-${name}`);
    }
    dashboard.nothingWrong();
  });

  test('the admin sees that the clock of a machine is off, by how much, and what stands still', async () => {
    const page = await dashboard.signedIn('/');
    let clock: object | null = null;
    await page.route('**/v1/instance', async (route) => {
      const response = await route.fetch();
      const { data: instance } = await response.json();
      await route.fulfill({ response, json: { data: { ...instance, clock } } });
    });
    const says = async (state: string, offsetMs: number, text: string) => {
      clock = { state, offset_ms: offsetMs, checked_at: Math.floor(Date.now() / 1000) };
      await page.goto(`${service.url}/instance`);
      await page.getByText(state, { exact: true }).waitFor();
      await page.getByText(text).waitFor();
    };
    await says('synchronized', 12, 'It agrees with the clock of the database.');
    await says(
      'corrected',
      -4_000,
      'It is 4 s behind the clock of the database, which this process uses instead.',
    );
    await says(
      'unreliable',
      3_600_000,
      'It is 1 h ahead of the clock of the database. No timer fires on this node',
    );
    await dashboard.screenshot(page, 'instance-clock');
    dashboard.nothingWrong();
  });

  test('a viewer sees no buttons that fail, on a narrow dark screen that shows all of it', async () => {
    const { id: workspace } = await data('POST', '/v1/workspaces', { name: `${hostile}${'w'.repeat(150)}` });
    const vera = await addUser('vera', `${'v'.repeat(200)}@example.com`);
    await data('POST', `/v1/workspaces/${workspace}/members`, { user_id: vera.id, role: 'viewer' });
    await data('POST', `/v1/workspaces/${workspace}/projects`, { name: 'p'.repeat(200) });
    await data('POST', '/v1/users/me/api_keys', { name: 'k'.repeat(100) }, vera.key);
    const long = { name: 'V'.repeat(256), value: 'v'.repeat(2_000), description: 'd'.repeat(500) };
    await data('PUT', `/v1/variables?org_id=${workspace}`, { variables: [long] });
    const small = { viewport: { width: 360, height: 740 }, colorScheme: 'dark' } as const;
    const page = await dashboard.signedIn('/workspace', small, vera.key);
    await page.getByRole('button', { name: 'Menu' }).click();
    await show(page, workspace);
    assert.equal(await page.getByRole('link', { name: 'Instance' }).count(), 0);
    await page.getByRole('button', { name: 'Menu' }).click();
    const forbidden = page.getByRole('button', { name: /^(Add|Remove|Create project|Rename|Delete|Save)/ });
    for (const tab of ['members', 'projects', 'variables', 'usage', 'keys', 'sign-in']) {
      await page.goto(`${service.url}/workspace?tab=${tab}`);
      await page.locator('.panel:not([hidden]) .card').first().waitFor();
      if (tab === 'projects') await page.locator('summary').click();
      // Users delete themselves, whatever their role is.
      const own = tab === 'sign-in' ? ['Delete user'] : [];
      assert.deepEqual(await forbidden.allTextContents(), own, tab);
      await fits(page, tab);
      await dashboard.screenshot(page, `narrow-${tab}`);
    }
    for (const name of ['Service accounts', 'Audit log', 'Settings'])
      assert.equal(await page.getByRole('tab', { name }).count(), 0);
    await page.goto(`${service.url}/instance`);
    await page.getByText('For the admin of this instance').waitFor();
    assert.equal(await page.getByRole('tab').count(), 0);
    await page.goto(`${service.url}/workspace/new`);
    await page.getByRole('heading', { name: 'New workspace' }).waitFor();
    await fits(page, 'new workspace');
    dashboard.nothingWrong();

    const robots = `/v1/workspaces/${workspace}/service_accounts`;
    const robot = await data('POST', robots, { name: 'r'.repeat(50) });
    await data('POST', `${robots}/${robot.id}/keys`, { name: 'k'.repeat(100) });
    await data('POST', `/v1/users/${robot.id}/disable`, { reason: 'w'.repeat(500) });
    const admin = await dashboard.signedIn('/instance', small);
    await admin.getByRole('button', { name: 'Menu' }).click();
    await show(admin, workspace);
    for (const tab of ['members', 'service-accounts', 'projects', 'keys', 'audit', 'settings']) {
      await admin.goto(`${service.url}/workspace?tab=${tab}`);
      await admin.getByRole('tab', { selected: true }).waitFor();
      await admin.locator('.panel:not([hidden]) :is(.card, .empty)').first().waitFor();
      if (tab === 'service-accounts') {
        await admin.locator('summary').first().click();
        await list(admin, 'Service accounts').getByText('New key').click();
      }
      if (tab === 'audit') await admin.locator('summary').first().click();
      await fits(admin, `${tab} of an admin`);
      await dashboard.screenshot(admin, `narrow-admin-${tab}`);
    }
    for (const tab of ['running', 'processes', 'settings', 'users', 'quotas', 'audit']) {
      await admin.goto(`${service.url}/instance?tab=${tab}&owner=${vera.id}`);
      await admin.getByRole('tab', { selected: true }).waitFor();
      await admin.locator('.panel:not([hidden]) .card').first().waitFor();
      if (tab === 'users') await list(admin, 'Users').getByRole('button').first().click();
      if (tab === 'audit') await list(admin, 'Audit log').locator('summary').first().click();
      await fits(admin, tab);
      await dashboard.screenshot(admin, `narrow-instance-${tab}`);
    }
    dashboard.nothingWrong();
  });

  test('a session that ends while a page is open leads to signing in and back, revoked or expired', async () => {
    const fred = await addUser('fred');
    const { id, api_key: key } = await data('POST', '/v1/users/me/api_keys', { name: 'soon gone' }, fred.key);
    const page = await dashboard.signedIn('/workspace?tab=usage', {}, key);
    const usage = page.getByRole('region', { name: 'Invocations' });
    await usage.waitFor();
    // No reload and no click: the next read finds out.
    await data('DELETE', `/v1/users/me/api_keys/${id}`, undefined, fred.key);
    await page.getByText('Your session has ended. Sign in again').waitFor();
    assert.equal(await usage.count(), 0);
    await dashboard.screenshot(page, 'session-ended');
    await dashboard.signIn(page, key);
    await page.getByText('This is no API key of this service, or it was revoked').waitFor();
    await dashboard.signIn(page, fred.key);
    await usage.waitFor();
    assert.match(page.url(), /\/workspace\?tab=usage$/);
    // A browser drops a cookie when its time is over.
    await page.context().clearCookies();
    await page.getByText('Your session has ended').waitFor();
    await dashboard.signIn(page, fred.key);
    await usage.waitFor();
    dashboard.nothingWrong();
  });

  test('a wrong key is distinguished from a service that is away', async () => {
    const page = await dashboard.open();
    await page.goto(`${service.url}/sign-in`);
    await dashboard.signIn(page, '  no-such-key-0123456789  ');
    await page.getByText('This is no API key of this service').waitFor();
    assert.equal(await page.getByLabel('API key').getAttribute('aria-invalid'), 'true');
    await page.context().setOffline(true);
    await dashboard.signIn(page, testApiKey);
    await page.getByText('The service does not answer').waitFor();
    assert.equal(await page.getByText('This is no API key of this service').count(), 0);
    await page.context().setOffline(false);
    dashboard.forgetComplaints();
    // What was copied with spaces around it is taken.
    await dashboard.signIn(page, ` ${testApiKey} `);
    await page.getByRole('heading', { name: 'Home' }).waitFor();
    dashboard.nothingWrong();
  });

  test('signing out takes cookie and data away, in every tab, and leaves nothing to who signs in next', async () => {
    await service.createSource({ name: 'secret plans', key: 'http-new-requests-payload-only' });
    const gina = await addUser('gina');
    const page = await dashboard.signedIn('/webhooks');
    await page.goto(`${service.url}/sources`);
    await page.getByText('secret plans').waitFor();
    const second = await page.context().newPage();
    await second.goto(`${service.url}/sources`);
    await second.getByText('secret plans').waitFor();
    const third = await page.context().newPage();
    await third.goto(`${service.url}/workflows/new`);
    await third.getByRole('button', { name: /^An HTTP request/ }).click();
    await third.getByLabel('Name', { exact: true }).fill('a draft of secret plans');
    for (const tab of [page, second, third]) await holdReads(tab);
    await page.getByRole('button', { name: 'admin' }).click();
    await page.getByRole('button', { name: 'Sign out' }).click();
    for (const tab of [page, second, third]) {
      await tab.getByLabel('API key').waitFor();
      assert.deepEqual(await tab.evaluate('Object.keys(sessionStorage)'), []);
      assert.equal(await tab.getByText('secret plans').count(), 0);
      assert.equal(await tab.getByText('Your session has ended').count(), 0);
    }
    assert.deepEqual(await page.context().cookies(`${service.url}/v1/`), []);
    await page.unrouteAll();
    await page.goBack().catch(() => undefined);
    await page.goto(`${service.url}/sources`);
    await page.getByLabel('API key').waitFor();
    await dashboard.signIn(page, gina.key);
    await page.getByText('No sources yet').waitFor();
    assert.equal(await page.getByText('secret plans').count(), 0);
    // Signing out of a session that has ended meanwhile is no failure.
    await holdReads(page);
    await page.context().clearCookies();
    await page.getByRole('button', { name: 'gina' }).click();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByLabel('API key').waitFor();
    assert.equal(await page.getByText('You are still signed in').count(), 0);
    dashboard.nothingWrong();
  });
});
