import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { chromiumSkip } from '../support/chromium.ts';
import { useDashboard } from '../support/dashboard-browser.ts';
import type { ServiceClient } from '../support/service-client.ts';

describe('names in the dashboard', { skip: chromiumSkip() }, () => {
  const dashboard = useDashboard({ ownService: () => ({}) });
  let service: ServiceClient;

  before(() => {
    service = dashboard.service;
  });

  async function done(method: string, path: string, body?: unknown) {
    const answer = await service.api(method, path, body);
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
      ['/instance?tab=quotas&owner=ADMIN', /^admin$/m],
      [`/instance?tab=quotas&owner=${team.id}`, /^Night shift$/m],
      ['/instance?tab=quotas&owner=night%20shift', /^Night shift$/m],
      ['/instance?tab=quotas&owner=nobody', /No user, and no workspace of yours, has this name/],
    ];
    const page = await dashboard.signedIn('/');
    for (const [index, [path, pattern]] of seen.entries()) {
      await page.goto(service.url + path);
      await page.locator('#main').getByText(pattern).first().waitFor();
      await dashboard.screenshot(page, `names-${index}`);
      const text = await page.locator('#main').innerText();
      for (const id of [me.id, team.id]) assert.ok(!text.includes(id), `${path} shows ${id}:\n${text}`);
    }
    dashboard.nothingWrong();
  });
});
