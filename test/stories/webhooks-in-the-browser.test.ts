import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { chromiumSkip } from '../support/chromium.ts';
import { useDashboard } from '../support/dashboard-browser.ts';
import { createEmittingSource, createListeningWebhook } from '../support/emitting-source.ts';
import { HttpReceiver } from '../support/http-receiver.ts';
import type { ServiceClient } from '../support/service-client.ts';
import { waitFor } from '../support/wait-for.ts';

describe('webhooks in the dashboard', { skip: chromiumSkip() }, () => {
  const dashboard = useDashboard();
  let service: ServiceClient;
  let receiver: HttpReceiver;

  before(async () => {
    service = dashboard.service;
    receiver = await HttpReceiver.start();
  });
  after(() => receiver?.close());

  test('a webhook is made, shows its secret once, is subscribed and is sent an event', async () => {
    const source = await createEmittingSource(service);
    const page = await dashboard.signedIn('/webhooks');
    await page.getByText('No webhooks yet').waitFor();
    await page.getByRole('link', { name: 'New webhook' }).click();
    await page.getByLabel('URL').fill('nowhere');
    await page.getByRole('button', { name: 'Create webhook' }).click();
    await page.locator('#webhook-url-problem').waitFor();
    dashboard.forgetComplaints();
    await page.getByLabel('URL').fill(`${receiver.url}/first`);
    await page.getByLabel('Name').fill('<b>first</b> \u202ehook');
    await page.getByRole('button', { name: 'Create webhook' }).click();
    const secret = (await page.locator('.secret pre').textContent()) ?? '';
    assert.match(secret, /^whsec_/);
    await page.getByRole('link', { name: 'I have kept it' }).click();
    await page.getByRole('heading', { name: '<b>first</b> ⟨U+202E⟩hook', level: 1 }).waitFor();
    await page.locator(`#emitter option[value="${source.id}"]`).waitFor({ state: 'attached' });
    await page.getByLabel('Whose events').selectOption(source.id);
    await page.getByRole('button', { name: 'Subscribe' }).click();
    const { body } = await service.api('GET', `/v1/sources/${source.id}`);
    await page
      .getByRole('list', { name: 'Subscriptions' })
      .getByText(body.data.name, { exact: true })
      .waitFor();
    await source.emit([{ html: '<img src=x onerror=alert(1)>' }]);
    await page.getByRole('tab', { name: 'Deliveries' }).click();
    await page.getByRole('button', { name: /delivered.*answered 200/ }).click();
    await page.getByText('"<img src=x onerror=alert(1)>"').waitFor();
    assert.ok(!(await page.content()).includes(secret), 'the secret is shown once');
    dashboard.nothingWrong();
  });

  test('a dead letter is found from home with its reason, and is redelivered once the receiver is well', async () => {
    const source = await createEmittingSource(service);
    receiver.answerAlways({ status: 410, body: 'gone \u001b[31m<script>alert(1)</script>' });
    const webhook = await createListeningWebhook(service, {
      url: `${receiver.url}/second`,
      emitterId: source.id,
    });
    await source.emit([{ order: 1 }, { order: 2 }, { order: 3 }]);
    const path = `/v1/webhooks/${webhook.id}`;
    const dead = () => service.api('GET', `${path}/deliveries?state=failed,blocked`);
    await waitFor(async () => (await dead()).body.page_info.total_count === 3, {
      what: 'three dead letters',
    });
    const page = await dashboard.signedIn('/');
    await page.getByText('the receiver answered 410 Gone').waitFor();
    await page.getByRole('link', { name: '3 deliveries failed' }).click();
    await page
      .getByRole('button', { name: /the receiver answered that it is gone/ })
      .first()
      .click();
    const detail = page.getByRole('region', { name: /^Delivery dlv_/ });
    await detail.getByText('gone \\x1b[31m<script>alert(1)</script>').waitFor();
    await detail.getByText(`POST ${receiver.url}/second`).waitFor();
    assert.equal(await detail.getByRole('button', { name: 'Redeliver' }).count(), 0);
    receiver.answerAlways({ status: 200 });
    await detail.getByRole('link', { name: 'enable it again' }).click();
    await page.getByText('its receiver answered that it is gone').waitFor();
    await page.getByRole('button', { name: 'Enable again' }).click();
    await page.getByText('It was disabled').waitFor({ state: 'detached' });
    await page.getByLabel('Deliveries to show').selectOption({ label: 'dead letters' });
    await page
      .getByRole('button', { name: /the receiver answered that it is gone/ })
      .first()
      .click();
    await detail.getByRole('button', { name: 'Redeliver' }).click();
    await detail.getByText('delivered', { exact: true }).waitFor();
    assert.equal((await dead()).body.page_info.total_count, 2);
    await page.getByRole('button', { name: 'Redeliver all 2 dead letters' }).click();
    await page.getByRole('alertdialog').getByRole('button', { name: 'Redeliver all' }).click();
    await page.getByText('2 queued again.').waitFor();
    await waitFor(async () => (await dead()).body.page_info.total_count === 0, { what: 'no dead letters' });
    await page.getByText('No dead letters').waitFor();
    dashboard.nothingWrong();
  });

  test('a webhook is changed, paused, resumed, given a new secret, and deleted after its consequences were shown', async () => {
    const source = await createEmittingSource(service);
    const webhook = await createListeningWebhook(service, {
      url: `${receiver.url}/third`,
      emitterId: source.id,
    });
    const page = await dashboard.signedIn(`/webhooks/${webhook.id}?tab=settings`);
    await page.getByLabel('Name').fill('third');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Saved.').waitFor();
    await page.getByRole('heading', { name: 'third', level: 1 }).waitFor();
    await page.getByRole('button', { name: 'Pause' }).click();
    await page.getByText('It is paused').waitFor();
    await page.getByRole('button', { name: 'Resume' }).click();
    await page.getByText('It is paused').waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'New secret' }).click();
    await page.getByRole('alertdialog').getByRole('button', { name: 'New secret' }).click();
    const secret = (await page.locator('.secret pre').textContent()) ?? '';
    assert.ok(secret.startsWith('whsec_') && secret !== webhook.signing_secret);
    await page.getByRole('button', { name: 'Delete webhook' }).click();
    const dialog = page.getByRole('alertdialog');
    await dialog.getByText(`1 subscription ends: ${source.id}.`).waitFor();
    await dialog.getByRole('button', { name: 'Delete webhook' }).click();
    await page.waitForURL(`${service.url}/webhooks`);
    assert.equal((await service.api('GET', `/v1/webhooks/${webhook.id}`)).status, 404);
    dashboard.nothingWrong();
  });

  test('a viewer reads webhooks and deliveries of a workspace, without buttons that fail, on a narrow dark screen', async () => {
    const { body: me } = await service.api('GET', '/v1/users/me');
    const workspace = me.data.orgs[0].id;
    const source = await createEmittingSource(service, { workspace });
    const webhook = await createListeningWebhook(service, {
      url: `${receiver.url}/fourth`,
      emitterId: source.id,
      workspace,
    });
    receiver.answerAlways({ status: 410 });
    await source.emit([{ seen: 'by the viewer' }]);
    const user = await service.createUser('vera');
    await service.api('POST', `/v1/workspaces/${workspace}/members`, {
      user_id: user.id,
      role: 'viewer',
    });
    const small = { viewport: { width: 360, height: 740 }, colorScheme: 'dark' } as const;
    const page = await dashboard.signedIn(`/webhooks/${webhook.id}`, small, user.key);
    await page.getByText('It was disabled').waitFor();
    await page.getByRole('button', { name: /the receiver answered/ }).click();
    await page.getByText('"by the viewer"').waitFor();
    const buttons = page.getByRole('button', {
      name: /Redeliver|Enable|Subscribe|End|Save|Pause|New secret|Delete/,
    });
    assert.equal(await buttons.count(), 0);
    for (const path of ['/webhooks', `/webhooks/${webhook.id}`, '/webhooks/new', '/dead-letters']) {
      for (const tab of path.includes('wh_') ? ['deliveries', 'subscriptions', 'settings'] : ['']) {
        await page.goto(`${service.url}${path}?tab=${tab}`);
        await page.getByRole('heading', { level: 1 }).waitFor();
        assert.equal(await buttons.count(), 0, `${path} ${tab}`);
        const tooWide = await page.evaluate('document.documentElement.scrollWidth - window.innerWidth');
        assert.ok(Number(tooWide) <= 0, `${path} ${tab} is ${tooWide} px too wide`);
      }
    }
    dashboard.nothingWrong();
  });
});
