import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { chromiumSkip } from '../support/chromium.ts';
import { useDashboard } from '../support/dashboard-browser.ts';
import { type ServiceClient, testApiKey } from '../support/service-client.ts';
import { makeZip } from '../support/zip-archive.ts';

describe('names in the dashboard', { skip: chromiumSkip() }, () => {
  const dashboard = useDashboard({ ownService: () => ({}) });
  let service: ServiceClient;

  before(() => {
    service = dashboard.service;
  });

  async function done(method: string, path: string, body?: unknown, key = testApiKey) {
    const answer = await service.api(method, path, body, { key });
    assert.ok(answer.status < 300, JSON.stringify(answer.body));
    return answer.body?.data;
  }

  test('no page shows the id of a user or workspace whose name may be seen', async () => {
    const me = await done('GET', '/v1/users/me');
    const team = await done('POST', '/v1/workspaces', { name: 'Night shift' });
    const webhook = await done('POST', '/v1/webhooks', { url: 'http://127.0.0.1:9/hook', name: 'ledger' });
    await done('POST', '/v1/subscriptions', {
      emitter_id: me.id,
      listener_id: webhook.id,
      event_name: '$errors',
    });
    const source = await service.createSource({
      component_code: "export default { name: 'quiet', props: { http: '$.interface.http' }, run() {} };",
      name: 'quiet',
    });
    const workflow = await service.createWorkflow({ settings: { name: 'flow' }, steps: [] });
    const account = await done('POST', '/v1/accounts', {
      app: 'openai',
      name: 'ours',
      credentials: { api_key: 'k' },
    });
    const seen: [string, RegExp][] = [
      ['/', /Home/],
      ['/map', /1 subscription\./],
      ['/sources', /quiet/],
      [`/sources/${source.id}?tab=settings`, /quiet/],
      [`/workflows/${workflow.id}?tab=deployments`, /by admin/],
      [`/webhooks/${webhook.id}?tab=subscriptions`, /Everything of admin/],
      ['/subscriptions', /Everything of admin/],
      [`/accounts/${account.id}?tab=audit`, /by admin/],
      ['/templates', /Templates/],
      [`/instance?tab=quotas&owner=${me.id}`, /^admin$/m],
      ['/instance?tab=quotas', /^Night shift workspace$/m],
      ['/instance?tab=quotas', /^admin user$/m],
      ['/instance?tab=quotas&owner=ADMIN', /^admin$/m],
      [`/instance?tab=quotas&owner=${team.id}`, /^Night shift$/m],
      ['/instance?tab=quotas&owner=night%20shift', /^Night shift$/m],
      ['/instance?tab=quotas&owner=nobody', /No user, and no workspace of yours, has this name/],
    ];
    const page = await dashboard.signedIn('/');
    await visit(page, seen, [me.id, team.id]);
    dashboard.nothingWrong();
  });

  test('no page about people, their audit, their sessions and their imports shows the id of a user', async () => {
    const me = await done('GET', '/v1/users/me');
    const team = await done('POST', '/v1/workspaces', { name: 'Day shift' });
    const ann = await service.createUser('ann');
    await done('POST', `/v1/workspaces/${team.id}/members`, { user_id: ann.id, role: 'member' });
    const bot = await done('POST', `/v1/workspaces/${team.id}/service_accounts`, {
      name: 'day-bot',
      role: 'member',
    });
    const { api_key: botKey } = await done(
      'POST',
      `/v1/workspaces/${team.id}/service_accounts/${bot.id}/keys`,
      { name: 'deploys' },
    );
    for (const [name, key] of [
      ['of ann', ann.key],
      ['of the bot', botKey],
    ]) {
      await done('POST', '/v1/workflows', { org_id: team.id, settings: { name }, steps: [] }, key);
      const credentials = { api_key: 'k' };
      await done('POST', '/v1/accounts', { org_id: team.id, app: 'openai', name, credentials }, key);
    }
    const content = 'schema: workflow/2022.04\nname: Brought\n';
    const archive = makeZip([{ path: 'brought-p_Brought/workflow.yaml', content }]).toString('base64');
    const imported = await done('POST', '/v1/imports', { archive, org_id: team.id }, ann.key);
    const users = [me.id, ann.id, bot.id];

    const page = await dashboard.signedIn('/workspace?tab=audit');
    await visit(
      page,
      [
        ['/workspace?tab=audit', /by admin/],
        ['/workspace?tab=sign-in', /signed in/],
        ['/instance?tab=users', /^ann-\w+@/],
        ['/instance?tab=audit', /by admin/],
      ],
      users,
    );
    await page.getByLabel('Showing').selectOption(team.id);
    await visit(
      page,
      [
        ['/workspace?tab=members', /^ann-\w+@/],
        ['/workspace?tab=service-accounts', /^day-bot/],
        ['/workspace?tab=audit', /by ann-/],
        ['/imports', /1 workflow/],
        [`/imports/${imported.id}`, /Brought/],
      ],
      users,
    );
    await page.goto(`${service.url}/workspace?tab=audit`);
    await page.getByLabel('Records of').selectOption('use of connected accounts');
    await page.getByText('2 entries', { exact: true }).waitFor();
    await mustNotShow(page, users);
    dashboard.nothingWrong();
  });

  /** Shows each page, waits for what is to be seen there, and looks for the ids. */
  async function visit(page: Page, seen: readonly (readonly [string, RegExp])[], ids: readonly string[]) {
    for (const [path, pattern] of seen) {
      await page.goto(service.url + path);
      await page.locator('#main').getByText(pattern).first().waitFor();
      await dashboard.screenshot(page, `names-${path.replaceAll(/\W+/g, '-')}`);
      await mustNotShow(page, ids);
    }
  }

  async function mustNotShow(page: Page, ids: readonly string[]) {
    const text = await page.locator('#main').innerText();
    for (const id of ids) assert.ok(!text.includes(id), `${page.url()} shows ${id}:\n${text}`);
  }
});
