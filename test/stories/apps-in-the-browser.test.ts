import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { chromiumSkip } from '../support/chromium.ts';
import { useDashboard } from '../support/dashboard-browser.ts';
import { HttpReceiver } from '../support/http-receiver.ts';
import { OAuthProvider } from '../support/oauth-provider.ts';
import type { ServiceClient } from '../support/service-client.ts';

describe('apps in the dashboard', { skip: chromiumSkip() }, () => {
  const dashboard = useDashboard();
  let service: ServiceClient;
  let receiver: HttpReceiver;
  let provider: OAuthProvider;

  before(async () => {
    service = dashboard.service;
    receiver = await HttpReceiver.start();
    provider = await OAuthProvider.start([`${service.url}/connect/callback`]);
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

  test('an app of the catalogue is found, and says what an account needs and which components are of it', async () => {
    const page = await dashboard.signedIn('/apps');
    await page.getByText(/Apps you can connect: \d+ apps/).waitFor();
    await dashboard.screenshot(page, 'apps');
    await page.getByLabel('Only with components').check();
    const { page_info } = (await service.api('GET', '/v1/apps?has_components=1')).body;
    assert.ok(page_info.total_count > 3);
    await page.getByText(`Apps you can connect: ${page_info.total_count} apps`).waitFor();
    await page.getByRole('link', { name: /^RSS/ }).click();
    await page.getByRole('tab', { name: 'Components' }).click();
    await page
      .getByRole('link', { name: /new-item-in-feed|rss/i })
      .first()
      .waitFor();
    await page.goto(`${service.url}/apps`);
    await page.getByLabel('Search for an app').fill('gitlab');
    await page.getByRole('link', { name: /GitLab/ }).click();
    await page.getByText(`${service.url}/connect/callback`, { exact: true }).first().waitFor();
    await page.getByText('base_api_url').first().waitFor();
    await dashboard.screenshot(page, 'app-gitlab');
    await page.getByRole('tab', { name: 'OAuth client' }).click();
    await page.getByText('There is none yet').waitFor();
    await dashboard.screenshot(page, 'app-client');
    await page.getByRole('tab', { name: 'Definition' }).click();
    await page.getByText('"https://gitlab.com/oauth/token"').waitFor();
    assert.equal(await page.getByRole('button', { name: 'Delete' }).count(), 0);
    dashboard.nothingWrong();
  });

  test('a custom app is added by its form, has an account, is changed, and is deleted once nothing is of it', async () => {
    const page = await dashboard.signedIn('/apps/new');
    await page.getByLabel('Slug').fill('Not A Slug');
    await page.getByLabel('Name', { exact: true }).fill('Acme <script>alert(1)</script> \u202eseton');
    await page.getByLabel('URL of a test request').fill(`${receiver.url}/me`);
    await page.getByLabel('Authorization header of it').fill('Bearer {{api_key}}');
    await page.getByRole('button', { name: 'Create app' }).click();
    await page.getByText('slug: expected', { exact: false }).waitFor();
    dashboard.forgetComplaints();
    await page.getByLabel('Slug').fill('acme_own');
    await page.getByRole('button', { name: 'Add a field' }).click();
    await page.getByLabel('Name of field 2').fill('region');
    await page.getByLabel('Label of field 2').fill('Region');
    await page.getByRole('checkbox', { name: 'Optional' }).nth(1).check();
    await dashboard.screenshot(page, 'app-new');
    await page.getByRole('button', { name: 'Create app' }).click();
    await page
      .getByRole('heading', { name: 'Acme <script>alert(1)</script> ⟨U+202E⟩seton', level: 1 })
      .waitFor();
    await page.getByText('region', { exact: true }).waitFor();
    await page.getByRole('link', { name: 'Connect an account' }).click();
    await page.getByLabel('Name').fill('first');
    await page.getByLabel('API key').fill('k-1');
    await page.getByRole('button', { name: 'Connect', exact: true }).click();
    await page.getByRole('heading', { name: 'first', level: 1 }).waitFor();
    assert.equal(receiver.requests.at(-1)?.headers.authorization, 'Bearer k-1');
    await page.locator('.facts').getByRole('link').click();
    await page.getByRole('tab', { name: 'Definition' }).click();
    await page.getByText('1 account is of it').waitFor();
    await page.getByRole('link', { name: 'Change' }).click();
    await page.getByLabel('Name', { exact: true }).fill('Acme');
    await page.getByRole('button', { name: 'Save' }).click();
    // The heading of the form has the new name too, before the page of the app comes.
    await page.waitForURL(`${service.url}/apps/acme_own`);
    await page.getByRole('heading', { name: 'Acme', level: 1 }).waitFor();
    const { definition } = await done('GET', '/v1/apps/acme_own');
    assert.deepEqual(
      definition.custom_fields.map((field: { name: string; optional: boolean; secret: boolean }) => [
        field.name,
        field.optional,
        field.secret,
      ]),
      [
        ['api_key', false, true],
        ['region', true, false],
      ],
    );
    for (const { id } of (await service.api('GET', '/v1/accounts?app=acme_own')).body.data)
      await done('DELETE', `/v1/accounts/${id}`);
    await page.reload();
    await page.getByRole('tab', { name: 'Definition' }).click();
    await page.getByRole('button', { name: 'Delete app' }).click();
    await page.getByRole('alertdialog').getByRole('button', { name: 'Delete app' }).click();
    await page.waitForURL(`${service.url}/apps`);
    assert.equal((await service.api('GET', '/v1/apps/acme_own')).status, 404);
    dashboard.nothingWrong();
  });

  test('an app with OAuth is added, its client is set without its secret being shown, and an account is connected with it', async () => {
    const { slug, name, oauth } = provider.app('own_hub');
    const page = await dashboard.signedIn('/apps/new');
    await page.getByLabel('Slug').fill(slug);
    await page.getByLabel('Name', { exact: true }).fill(name);
    await page.getByLabel('How accounts are connected').selectOption('oauth');
    await page.getByLabel('Authorization URL').fill(oauth.authorization_url);
    await page.getByLabel('Token URL').fill(oauth.token_url);
    await page.getByLabel('Scopes').pressSequentially('openid offline_access api');
    await page.getByRole('button', { name: 'Remove' }).click();
    await page.getByText('All of it as JSON').click();
    const json = page.getByLabel('Definition as JSON');
    const typed = JSON.parse(await json.inputValue());
    assert.deepEqual(typed.oauth.scopes, ['openid', 'offline_access', 'api']);
    await json.fill('{ not json');
    await page.getByText('This is no JSON object yet.').waitFor();
    assert.ok(await page.getByRole('button', { name: 'Create app' }).isDisabled());
    await json.fill(
      JSON.stringify({ ...typed, oauth: { ...typed.oauth, client_auth: 'basic', uid: oauth.uid } }),
    );
    await page.getByRole('button', { name: 'Create app' }).click();
    await page.getByRole('heading', { name, level: 1 }).waitFor();
    await page.getByRole('link', { name: 'Connect an account' }).click();
    await page.getByRole('button', { name: `Connect at ${name}` }).click();
    await page.getByText('there is no OAuth client').waitFor();
    dashboard.forgetComplaints();
    await page.getByRole('link', { name: 'see whether there is one' }).click();
    await page.getByRole('tab', { name: 'OAuth client' }).click();
    await page.getByLabel('Client id').fill(provider.clientId);
    await page.getByLabel('Client secret').fill(provider.clientSecret);
    await page.getByRole('button', { name: 'Save the client' }).click();
    await page.getByText('its secret is kept, and never shown').waitFor();
    assert.ok(!(await page.content()).includes(provider.clientSecret));
    assert.equal(await page.getByLabel('Client secret').inputValue(), '');
    await page.getByRole('link', { name: 'Connect an account' }).click();
    const [popup] = await Promise.all([
      page.waitForEvent('popup'),
      page.getByRole('button', { name: `Connect at ${name}` }).click(),
    ]);
    await popup.getByRole('button', { name: `Continue to ${name}` }).click();
    await page.getByText('Untested', { exact: true }).waitFor();
    await page.goto(`${service.url}/apps/${slug}?tab=client`);
    await page.getByRole('button', { name: 'Delete the client' }).click();
    const dialog = page.getByRole('alertdialog');
    await dialog.getByText('1 account was connected with it').waitFor();
    await dashboard.screenshot(page, 'app-client-delete');
    await dialog.getByRole('button', { name: 'Delete it all the same' }).click();
    await page.getByText('There is none yet').waitFor();
    dashboard.nothingWrong();
  });

  test('members and viewers see the apps of a workspace and no buttons that fail, on a narrow dark screen', async () => {
    const { orgs } = await done('GET', '/v1/users/me');
    const workspace = orgs[0].id;
    await done('POST', '/v1/apps', provider.app('team_hub', {}, {}));
    await done('DELETE', '/v1/apps/team_hub');
    await done('POST', '/v1/apps', { ...provider.app('team_hub'), org_id: workspace });
    const user = await service.createUser('mia');
    await done('POST', `/v1/workspaces/${workspace}/members`, { user_id: user.id, role: 'member' });
    const small = { viewport: { width: 360, height: 740 }, colorScheme: 'dark' } as const;
    const page = await dashboard.signedIn('/apps', small, user.key);
    await page.getByRole('button', { name: 'Menu' }).click();
    await page.getByLabel('Showing').selectOption(workspace);
    await page.getByRole('button', { name: 'Menu' }).click();
    await page.getByLabel('Search for an app').fill('team_hub');
    await page.getByRole('link', { name: /Testhub.*own/ }).waitFor();
    const paths = [
      '',
      '/team_hub',
      '/team_hub?tab=client',
      '/team_hub?tab=definition',
      '/team_hub/edit',
      '/new',
    ];
    for (const path of paths) {
      await page.goto(`${service.url}/apps${path}`);
      await page.getByRole('heading', { level: 1 }).waitFor();
      if (path.includes('client')) await page.getByText('An admin of this workspace can set one').waitFor();
      if (/edit|new/.test(path)) await page.getByText('not yours to change').waitFor();
      const buttons = page
        .getByRole('button', { name: /Save|Delete|Create/ })
        .or(page.getByRole('link', { name: /Change|New app|Copy to/ }));
      assert.equal(await buttons.count(), 0, path);
      const tooWide = await page.evaluate('document.documentElement.scrollWidth - window.innerWidth');
      assert.ok(Number(tooWide) <= 0, `${path} is ${tooWide} px too wide`);
      await dashboard.screenshot(page, `app-narrow${path.replaceAll(/\W+/g, '-')}`);
    }
    const own = await dashboard.signedIn('/apps/gitlab', small);
    await own.getByRole('link', { name: 'Duplicate as custom app' }).waitFor();
    const tooWideOwn = await own.evaluate('document.documentElement.scrollWidth - window.innerWidth');
    assert.ok(Number(tooWideOwn) <= 0, `two actions are ${tooWideOwn} px too wide`);
    await own.goto(`${service.url}/apps/new`);
    await own.getByLabel('Slug').waitFor();
    await dashboard.screenshot(own, 'app-new-narrow');
    const tooWide = await own.evaluate('document.documentElement.scrollWidth - window.innerWidth');
    assert.ok(Number(tooWide) <= 0, `the form is ${tooWide} px too wide`);
    dashboard.nothingWrong();
  });
});
