import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { chromiumSkip } from '../support/chromium.ts';
import { pasteCode, useDashboard } from '../support/dashboard-browser.ts';
import { HttpReceiver } from '../support/http-receiver.ts';
import { OAuthProvider } from '../support/oauth-provider.ts';
import type { ServiceClient } from '../support/service-client.ts';
import { waitFor } from '../support/wait-for.ts';

const hostileName = 'Acme <img src=x onerror=alert(1)> \u202eseton';
const shownName = 'Acme <img src=x onerror=alert(1)> ⟨U+202E⟩seton';

describe('accounts in the dashboard', { skip: chromiumSkip() }, () => {
  // New accounts are tested unasked, as on every real service.
  const dashboard = useDashboard({ ownService: () => ({ MILLRACE_ACCOUNT_CHECK_HOURS: '24' }) });
  let service: ServiceClient;
  let receiver: HttpReceiver;
  let provider: OAuthProvider;

  before(async () => {
    service = dashboard.service;
    receiver = await HttpReceiver.start();
    provider = await OAuthProvider.start([`${service.url}/connect/callback`]);
    await done('POST', '/v1/apps', {
      slug: 'acme_notes',
      name: hostileName,
      auth_type: 'keys',
      custom_fields: [
        { name: 'api_key', label: 'API key of Acme', secret: true },
        { name: 'region', label: 'Region', default: 'eu' },
      ],
      test_request: { url: `${receiver.url}/me`, headers: { authorization: 'Bearer {{api_key}}' } },
    });
    await done('POST', '/v1/apps', provider.app('testhub'));
    const client = { client_id: provider.clientId, client_secret: provider.clientSecret };
    await done('PUT', '/v1/apps/testhub/oauth_client', client);
  });
  after(async () => {
    await provider?.close();
    await receiver?.close();
  });

  async function done(method: string, path: string, body?: unknown) {
    const answer = await service.api(method, path, body);
    assert.ok(answer.status < 300, JSON.stringify(answer.body));
    return answer.body?.data;
  }

  /** Presses the button, and says yes in the window that opens, as far as the provider lets it. */
  async function inWindow(page: Page, button: string): Promise<Page> {
    const [popup] = await Promise.all([
      page.waitForEvent('popup'),
      page.getByRole('button', { name: button }).click(),
    ]);
    const goOn = popup.getByRole('button', { name: 'Continue to Testhub' });
    await goOn.waitFor();
    assert.equal(await popup.evaluate('opener === null'), true, 'it could lead our page elsewhere');
    await goOn.click();
    return popup;
  }

  test('an account with a key is made from the form of its app, tested, given another key, renamed and deleted', async () => {
    receiver.answerAlways({ status: 401 });
    const page = await dashboard.signedIn('/accounts');
    await page.getByText('No accounts yet').waitFor();
    await page.getByRole('link', { name: 'Connect an account' }).click();
    await page.getByLabel('Search for an app').fill('acme');
    await page.getByRole('link', { name: shownName }).click();
    await page.getByLabel('Name').fill('ours <b>');
    await page.getByLabel('API key of Acme').fill('very-secret-key');
    await dashboard.screenshot(page, 'account-new');
    await page.getByRole('button', { name: 'Connect', exact: true }).click();
    await page.getByRole('heading', { name: 'ours <b>', level: 1 }).waitFor();
    await page.getByText('Failing', { exact: true }).waitFor();
    assert.equal(receiver.requests.at(-1)?.headers.authorization, 'Bearer very-secret-key');

    receiver.answerAlways({ status: 200, body: { ok: true } });
    await page.getByRole('tab', { name: 'Settings' }).click();
    await page.getByLabel('API key of Acme').fill('another-secret-key');
    await page.getByRole('button', { name: 'Replace the keys' }).click();
    await page.getByText('Replaced.', { exact: true }).waitFor();
    await page.getByText('Healthy', { exact: true }).waitFor();
    assert.equal(receiver.requests.at(-1)?.headers.authorization, 'Bearer another-secret-key');
    assert.equal(await page.getByLabel('API key of Acme').inputValue(), '');
    await page.getByRole('button', { name: 'Test now' }).click();
    await page.getByText('Tested: it works.').waitFor();
    await page.getByLabel('Name of the account').fill('renamed');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('heading', { name: 'renamed', level: 1 }).waitFor();
    await page.getByRole('tab', { name: 'Audit' }).click();
    await page.getByText('credentials replaced').waitFor();
    const html = await page.content();
    for (const secret of ['very-secret-key', 'another-secret-key']) assert.ok(!html.includes(secret));

    await page.getByRole('tab', { name: 'Settings' }).click();
    await page.getByRole('button', { name: 'Delete account' }).click();
    const dialog = page.getByRole('alertdialog');
    await dialog.getByText('Nothing uses it.').waitFor();
    await dialog.getByRole('button', { name: 'Delete account' }).click();
    await page.getByText('No accounts yet').waitFor();
    dashboard.nothingWrong();
  });

  test('an account of an app that is not in the catalogue is connected with the fields that the user names', async () => {
    const page = await dashboard.signedIn('/accounts/new');
    await page.getByLabel('Search for an app').fill('acme_internal');
    await page.getByRole('link', { name: 'Connect an account of acme_internal' }).click();
    await page.getByText('This app is not in the catalogue.').waitFor();
    await page.getByLabel('Field 1', { exact: false }).first().fill('api_key');
    await page.getByLabel('Value of field 1').fill('k-1');
    await page.getByRole('button', { name: 'Add field' }).click();
    await page.locator('#field-name-1').fill('domain');
    await page.getByLabel('Value of field 2').fill('acme.example');
    await dashboard.screenshot(page, 'account-uncatalogued');
    await page.getByRole('button', { name: 'Connect', exact: true }).click();
    await page.waitForURL(/\/accounts\/apn_/);
    const id = page.url().split('/').at(-1);
    const { body } = await service.api('GET', `/v1/accounts/${id}?include_credentials=1`);
    assert.deepEqual(
      [body.data.app.name_slug, body.data.credentials],
      ['acme_internal', { api_key: 'k-1', domain: 'acme.example' }],
    );
    await page.getByText('Settings').first().click();
    await dashboard.screenshot(page, 'account-uncatalogued-made');
    await page.close();
    await service.api('DELETE', `/v1/accounts/${id}`);
    // The browser reports that there is no such app.
    dashboard.forgetComplaints();
  });

  test('a source says which account it is without, and which events of an app it waits for', async () => {
    const code = `export default { name: 'Channel', version: '0.0.1', props: {
      notes: { type: 'app', app: 'acme_notes' }, maybe: { type: 'app', app: 'acme_notes', optional: true },
      events: { type: '$.interface.apphook', appProp: 'notes', eventNames: ['note.made', 'note.moved'] } },
      async run(event) { this.$emit(event); } };`;
    const page = await dashboard.signedIn('/sources/new');
    await pasteCode(page, /^Code of the component/, code);
    await page.getByRole('button', { name: 'Use this code' }).click();
    await page.getByText('It runs with events of its app, which a program of yours receives').waitFor();
    await page.getByRole('button', { name: 'Create source' }).click();
    const missing = page.locator('.note', { hasText: 'is chosen for the prop notes' });
    await missing.waitFor();
    assert.equal(
      await page.locator('.note', { hasText: 'is chosen for the prop' }).count(),
      1,
      'the optional one is none',
    );
    const events = page.getByRole('region', { name: 'App events' });
    await events.getByText('note.made, note.moved').waitFor();
    await events.getByText('"event_name":"note.made"').waitFor();
    await dashboard.screenshot(page, 'source-app-events');
    const id = /sources\/(dc_\w+)/.exec(page.url())?.[1];
    await page.close();
    await done('DELETE', `/v1/sources/${id}`);
    dashboard.nothingWrong();
  });

  test('an account that was made elsewhere becomes unhealthy by itself, is found from home, and its page follows', async () => {
    receiver.answerAlways({ status: 401 });
    const account = await done('POST', '/v1/accounts', {
      app: 'acme_notes',
      name: 'x'.repeat(200),
      credentials: { api_key: 'refused' },
    });
    const page = await dashboard.signedIn('/');
    await page.getByRole('link', { name: /^Account / }).click();
    await page.getByText('Failing', { exact: true }).waitFor();
    await dashboard.screenshot(page, 'account-unhealthy');
    receiver.answerAlways({ status: 200 });
    await done('POST', `/v1/accounts/${account.id}/test`);
    await page.getByText('Healthy', { exact: true }).waitFor();
    await page.getByText('It does not work.').waitFor({ state: 'detached' });
    await page.close();
    await done('DELETE', `/v1/accounts/${account.id}`);
    dashboard.nothingWrong();
  });

  test('an account is connected in the window of a provider, and the page continues by itself', async () => {
    provider.decision = { login: 'ada' };
    const page = await dashboard.signedIn('/accounts/new?app=testhub');
    await page.getByLabel('Name').fill('Ada at Testhub');
    const popup = await inWindow(page, 'Connect at Testhub');
    await page.getByRole('heading', { name: 'Ada at Testhub', level: 1 }).waitFor();
    await page.getByText('Untested', { exact: true }).waitFor();
    await waitFor(() => popup.isClosed(), { what: 'the window to close by itself' });
    await page.getByText('next refresh').waitFor();
    await dashboard.screenshot(page, 'account-oauth');
    dashboard.nothingWrong();
  });

  test('a user who says no at the provider sees that on the page, and can try again', async () => {
    provider.decision = 'deny';
    const page = await dashboard.signedIn('/accounts/new?app=testhub');
    await page.getByLabel('Name').fill('refused');
    await inWindow(page, 'Connect at Testhub');
    await page.getByText('No account was connected.').waitFor();
    await page.getByText('Access was not granted at Testhub').waitFor();
    await dashboard.screenshot(page, 'account-refused');
    provider.decision = { login: 'grace' };
    await inWindow(page, 'Connect at Testhub');
    await page.getByRole('heading', { name: 'refused', level: 1 }).waitFor();
    dashboard.nothingWrong();
  });

  test('an account that ended says so, and is connected again under the same id, by the same user only', async () => {
    provider.decision = { login: 'ada' };
    provider.accessTokenSeconds = 2;
    const page = await dashboard.signedIn('/accounts/new?app=testhub');
    await page.getByLabel('Name').fill('short-lived');
    await inWindow(page, 'Connect at Testhub');
    await page.getByRole('heading', { name: 'short-lived', level: 1 }).waitFor();
    provider.intercept = (_request, response) => {
      response.writeHead(400, { 'content-type': 'application/json' }).end('{"error":"invalid_grant"}');
      return true;
    };
    await page.getByText('Failing', { exact: true }).waitFor();
    await page.getByText('connect it again, under Settings').waitFor();
    await dashboard.screenshot(page, 'account-ended');
    provider.intercept = undefined;
    provider.accessTokenSeconds = 3600;
    const address = page.url();
    await page.getByRole('tab', { name: 'Settings' }).click();
    provider.decision = { login: 'mallory' };
    await inWindow(page, 'Connect again');
    await page.getByText('No account was connected.').waitFor();
    await page.getByText('Failing', { exact: true }).waitFor();
    provider.decision = { login: 'ada' };
    await inWindow(page, 'Connect again');
    await page.getByText('It was connected again.').waitFor();
    await page.getByText('Untested', { exact: true }).waitFor();
    await page.getByRole('tab', { name: 'Audit' }).click();
    await page.getByText('reconnected').waitFor();
    assert.equal(page.url().split('?')[0], address);
    dashboard.nothingWrong();
  });

  test('a link that is opened elsewhere is found too', async () => {
    provider.decision = { login: 'joan' };
    const page = await dashboard.signedIn('/accounts/new?app=testhub');
    await page.getByLabel('Name').fill('elsewhere');
    const [popup] = await Promise.all([
      page.waitForEvent('popup'),
      page.getByRole('button', { name: 'Connect at Testhub' }).click(),
    ]);
    await popup.close();
    const url = await page.getByRole('link', { name: 'Open it' }).getAttribute('href');
    const other = await dashboard.open();
    await other.goto(url ?? '');
    await other.getByRole('button', { name: 'Continue to Testhub' }).click();
    await other.getByText('The account is connected').waitFor();
    await page.getByRole('heading', { name: 'elsewhere', level: 1 }).waitFor();
    // The other browser went to the provider, as it should.
    dashboard.forgetComplaints();
  });

  test('what uses an account is shown before it is deleted, and a viewer has no buttons that fail, on a narrow dark screen', async () => {
    const { orgs } = await done('GET', '/v1/users/me');
    const workspace = orgs[0].id;
    receiver.answerAlways({ status: 200 });
    await done('POST', '/v1/apps', {
      org_id: workspace,
      slug: 'team_notes',
      name: 'Team notes',
      auth_type: 'keys',
      custom_fields: [{ name: 'api_key', label: 'API key' }],
      test_request: { url: `${receiver.url}/me` },
    });
    const account = await done('POST', '/v1/accounts', {
      org_id: workspace,
      app: 'team_notes',
      name: 'of the team',
      credentials: { api_key: 'k' },
    });
    await service.createSource({
      org_id: workspace,
      name: 'reader <i>',
      component_code: `export default { name: 'Reader', version: '0.0.1', type: 'source',
        props: { notes: { type: 'app', app: 'team_notes' }, http: '$.interface.http' }, run() {} };`,
      configured_props: { notes: { authProvisionId: account.id } },
    });
    const user = await service.createUser('vera');
    await done('POST', `/v1/workspaces/${workspace}/members`, { user_id: user.id, role: 'viewer' });
    const buttons = (page: Page) =>
      page.getByRole('button', { name: /Test|Save|Connect|Replace|Delete|Audit/ });
    const small = { viewport: { width: 360, height: 740 }, colorScheme: 'dark' } as const;
    const page = await dashboard.signedIn(`/accounts/${account.id}`, small, user.key);
    await page.getByText('reader <i>').waitFor();
    for (const path of [
      '/accounts',
      '/accounts/new',
      `/accounts/${account.id}`,
      `/accounts/${account.id}?tab=settings`,
    ]) {
      await page.goto(service.url + path);
      await page.getByRole('heading', { level: 1 }).waitFor();
      if (path === '/accounts') {
        await page.getByRole('button', { name: 'Menu' }).click();
        await page.getByLabel('Showing').selectOption(workspace);
        await page.getByRole('button', { name: 'Menu' }).click();
        await page.getByText('of the team').waitFor();
      }
      if (path === '/accounts/new') await page.getByText('and not change it').waitFor();
      if (path.includes('settings')) await page.getByText('Only who connected it').waitFor();
      assert.equal(await buttons(page).count(), 0, path);
      const tooWide = await page.evaluate('document.documentElement.scrollWidth - window.innerWidth');
      assert.ok(Number(tooWide) <= 0, `${path} is ${tooWide} px too wide`);
      await dashboard.screenshot(page, `account-viewer${path.replaceAll(/\W+/g, '-')}`.slice(0, 40));
    }
    const own = await dashboard.signedIn(`/accounts/${account.id}`);
    await own.getByRole('list', { name: 'Sources and workflows' }).getByRole('link').click();
    await own.getByRole('tab', { name: 'Settings' }).click();
    await own.getByRole('link', { name: account.id }).click();
    await own.getByRole('heading', { name: 'of the team', level: 1 }).waitFor();
    await own.getByRole('tab', { name: 'Settings' }).click();
    await own.getByRole('button', { name: 'Delete account' }).click();
    const dialog = own.getByRole('alertdialog');
    await dialog.getByText('1 source or workflow uses it, and its next runs end with an error:').waitFor();
    await dialog.getByText('reader <i>').waitFor();
    await dashboard.screenshot(own, 'account-delete');
    await dialog.getByRole('button', { name: 'Delete it all the same' }).click();
    await own.waitForURL(`${service.url}/accounts`);
    assert.equal((await service.api('GET', `/v1/accounts/${account.id}`)).status, 404);
    dashboard.nothingWrong();
  });
});
