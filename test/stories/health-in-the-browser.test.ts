import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { chromiumSkip } from '../support/chromium.ts';
import { useDashboard } from '../support/dashboard-browser.ts';
import { HttpReceiver } from '../support/http-receiver.ts';
import type { ServiceClient } from '../support/service-client.ts';
import { waitFor } from '../support/wait-for.ts';

const code = `export default {
  name: 'Told', props: { http: { type: '$.interface.http', customResponse: true } },
  run(event) {
    this.http.respond({ status: 200, body: {} });
    if (event.body.throws) throw new Error(event.body.throws);
    this.$emit(event.body);
  },
};`;

describe('health in the dashboard', { skip: chromiumSkip() }, () => {
  const dashboard = useDashboard();
  let service: ServiceClient;

  before(() => {
    service = dashboard.service;
  });

  test('home says all is well only after it looked, and names what fails with its reason and what to do', async () => {
    const source = await service.createSource({ component_code: code, name: 'orders <b>' });
    const run = async (body: object, state: string) => {
      await fetch(source.configured_props.http.endpoint_url, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });
      const one = async () => (await service.api('GET', `/v1/sources/${source.id}`)).body.data.health.state;
      await waitFor(async () => (await one()) === state, { what: `the source to be ${state}` });
    };
    await run({ n: 1 }, 'healthy');
    const page = await dashboard.signedIn('/');
    await page.getByText('Nothing fails, and nothing waits.').waitFor();
    await page.getByText('Sources, workflows, webhooks and accounts: 1 healthy.').waitFor();
    await dashboard.screenshot(page, 'home-all-well');
    await run({ throws: 'no such list' }, 'failing');
    await page.reload();
    const attention = page.getByRole('region', { name: 'Needs attention' });
    await attention.getByText('Failing', { exact: true }).waitFor();
    await attention.getByText('Error: no such list').waitFor();
    await attention.getByRole('link', { name: 'See its errors' }).waitFor();
    await dashboard.screenshot(page, 'home-failing');
    await attention.getByRole('link', { name: 'Source orders <b>' }).click();
    await page.getByRole('status').getByText('Error: no such list').waitFor();
    await dashboard.screenshot(page, 'source-failing');
    await page.getByRole('link', { name: 'Sources', exact: true }).first().click();
    await page.getByRole('list', { name: 'Sources' }).getByText('Failing', { exact: true }).waitFor();
    await dashboard.screenshot(page, 'sources-failing');
    dashboard.nothingWrong();
  });

  test('home says that deliveries wait, and since when, once the oldest has waited for a minute', async () => {
    await using silent = await HttpReceiver.start({ answer: () => new Promise(() => {}) });
    const source = await service.createSource({ component_code: code, name: 'unheard' });
    const { id: webhook } = (await service.api('POST', '/v1/webhooks', { url: silent.url, name: 'silent' }))
      .body.data;
    await service.api('POST', '/v1/subscriptions', { emitter_id: source.id, listener_id: webhook });
    for (let n = 0; n < 60; n += 1)
      await fetch(source.configured_props.http.endpoint_url, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ n }),
      });
    const waiting = await waitFor(async () => {
      const { deliveries_waiting } = (await service.api('GET', '/v1/users/me/overview')).body.data;
      return deliveries_waiting.oldest_at !== null && deliveries_waiting;
    });
    const page = await dashboard.signedIn('/');
    await page.clock.setSystemTime((waiting.oldest_at + 50) * 1000);
    await page.reload();
    await page
      .getByText('Nothing fails')
      .or(page.getByRole('region', { name: 'Needs attention' }))
      .first()
      .waitFor();
    assert.equal(await page.getByText(/deliver(?:y waits|ies wait)$/).count(), 0);
    await page.clock.setSystemTime((waiting.oldest_at + 62) * 1000);
    await page.reload();
    await page.getByText(/^\d+ deliver(?:y waits|ies wait)/).waitFor();
    await page.getByText(/the oldest since/).waitFor();
    assert.equal(await page.getByText('Nothing fails, and nothing waits.').count(), 0);
    await dashboard.screenshot(page, 'home-deliveries-wait');
    await service.api('DELETE', `/v1/webhooks/${webhook}`);
  });

  test('the editor knows that a subscription triggers the workflow, and calls its emitter by its name', async () => {
    const source = await service.createSource({ component_code: code, name: 'orders' });
    const workflow = await service.createWorkflow({
      steps: [{ namespace: 'code', code: 'export default defineComponent({ run() {} })' }],
    });
    const page = await dashboard.signedIn(`/workflows/${workflow.id}/edit`);
    await page.getByText('No trigger yet.').waitFor();
    await service.api('POST', '/v1/subscriptions', { emitter_id: source.id, listener_id: workflow.id });
    await page.reload();
    await page.getByText(/^Subscriptions trigger it too/).waitFor();
    await page.getByText('No trigger yet.').waitFor({ state: 'detached' });
    await page.getByRole('link', { name: 'orders', exact: true }).waitFor();
    await dashboard.screenshot(page, 'editor-subscribed');
    dashboard.nothingWrong();
  });

  test('lists of sources, workflows, webhooks and accounts are filtered by health, which the address keeps', async () => {
    const quiet = await service.createSource({ component_code: code, name: 'quiet one' });
    const broken = await service.createSource({ component_code: code, name: 'broken one' });
    await fetch(broken.configured_props.http.endpoint_url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ throws: 'on purpose' }),
    });
    const state = async () => (await service.api('GET', `/v1/sources/${broken.id}`)).body.data.health.state;
    await waitFor(async () => (await state()) === 'failing', { what: 'the source to fail' });
    const page = await dashboard.signedIn('/sources?q=one');
    const list = page.getByRole('list', { name: 'Sources' });
    await list.getByText('quiet one').waitFor();
    await list.getByText('broken one').waitFor();
    await page.getByLabel('Health').selectOption('Failing');
    await list.getByText('quiet one').waitFor({ state: 'detached' });
    await list.getByText('broken one').waitFor();
    await page.getByText('1 found').waitFor();
    assert.equal(new URL(page.url()).search, '?q=one&health=failing');
    await dashboard.screenshot(page, 'sources-by-health');
    await page.reload();
    await list.getByText('broken one').waitFor();
    assert.equal(await page.getByLabel('Health').inputValue(), 'failing');
    await page.getByLabel('Health').selectOption('Paused');
    await page.getByText('No sources found').waitFor();
    await dashboard.screenshot(page, 'sources-none-found');
    await page.getByRole('link', { name: 'Show all sources' }).click();
    await list.getByText('quiet one').waitFor();
    assert.equal(new URL(page.url()).search, '');
    assert.equal(await page.getByRole('searchbox').inputValue(), '');

    const url = 'http://127.0.0.1:9/hook';
    const webhook = (await service.api('POST', '/v1/webhooks', { url, name: 'stopped' })).body.data;
    await service.api('POST', '/v1/webhooks', { url, name: 'going' });
    await service.api('POST', `/v1/webhooks/${webhook.id}/pause`, {});
    await page.goto(`${service.url}/webhooks?health=paused`);
    const webhooks = page.getByRole('list', { name: 'Webhooks' });
    await webhooks.getByText('stopped').waitFor();
    assert.equal(await webhooks.getByText('going').count(), 0);
    await dashboard.screenshot(page, 'webhooks-by-health');
    await service.api('POST', `/v1/webhooks/${webhook.id}/resume`, {});
    await service.api('POST', '/v1/subscriptions', { emitter_id: quiet.id, listener_id: webhook.id });
    await fetch(quiet.configured_props.http.endpoint_url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{}',
    });
    const ofWebhook = async () =>
      (await service.api('GET', `/v1/webhooks/${webhook.id}`)).body.data.health.state;
    await waitFor(async () => (await ofWebhook()) === 'failing', { what: 'the webhook to fail' });
    await page.goto(`${service.url}/webhooks?q=stopped`);
    await webhooks.getByText('stopped').waitFor();
    await webhooks.getByText('Failing', { exact: true }).waitFor();
    assert.equal(await webhooks.getByText('Active', { exact: true }).count(), 0);
    await service.createWorkflow({ settings: { name: 'standing by' }, steps: [] });
    await page.goto(`${service.url}/workflows?health=failing`);
    await page.getByText('No workflows found').waitFor();
    await page.getByLabel('Health').selectOption('Untested');
    await page.getByRole('list', { name: 'Workflows' }).getByText('standing by').waitFor();
    await service.api('POST', '/v1/accounts', {
      app: 'openai',
      name: 'ours',
      credentials: { api_key: 'k' },
    });
    await page.goto(`${service.url}/accounts?health=disabled`);
    await page.getByText('No accounts found').waitFor();
    await page.getByLabel('Health').selectOption('Any');
    await page.getByRole('list', { name: 'Accounts' }).getByText('ours').waitFor();
    await dashboard.screenshot(page, 'accounts-by-health');
    await service.api('DELETE', `/v1/sources/${quiet.id}`);
    dashboard.nothingWrong();
  });

  test('the page of a source says while a run of it is under way, and since when', async () => {
    await using receiver = await HttpReceiver.start();
    const { promise, resolve: letGo } = Promise.withResolvers<{ body: string }>();
    receiver.answerOnce(() => promise);
    const slow = `export default { name: 'Slow', props: { http: '$.interface.http' },
      async run(event) { await fetch('${receiver.url}'); this.$emit({ done: true }); } };`;
    const source = await service.createSource({ component_code: slow, name: 'slow' });
    await fetch(source.configured_props.http.endpoint_url, { method: 'POST', body: '{}' });
    await receiver.waitForRequest();
    const page = await dashboard.signedIn(`/sources/${source.id}`);
    await page.getByText('A run is under way. It began').waitFor();
    const { runs } = (await service.api('GET', `/v1/sources/${source.id}`)).body.data;
    assert.deepEqual([runs.under_way, runs.queued], [1, 0]);
    assert.ok(Math.abs(Date.now() / 1000 - runs.since) < 300, String(runs.since));
    await dashboard.screenshot(page, 'source-run-under-way');
    assert.equal((await service.api('PUT', `/v1/sources/${source.id}`, { active: false })).status, 200);
    await page.getByText('The source is inactive, and what was accepted before continues').waitFor();
    letGo({ body: '' });
    await page.getByText('A run is under way.').waitFor({ state: 'detached' });
    const after = (await service.api('GET', `/v1/sources/${source.id}`)).body.data.runs;
    assert.deepEqual(after, { under_way: 0, queued: 0, since: null });
    dashboard.nothingWrong();
  });

  test('a send that failed after its run succeeded is on the page of the run with its reason, and the workflow leads there', async () => {
    const { id, triggers } = await service.createWorkflow({
      triggers: [{ type: 'http' }],
      steps: [
        { namespace: 'mail', component: 'email-send-email-to-self', props: { subject: 's', text: 'x' } },
      ],
    });
    await fetch(triggers[0].endpoint_url);
    await waitFor(async () => (await service.runs(id))[0]?.failed_sends === 1);
    const page = await dashboard.signedIn(`/workflows/${id}`);
    await page.getByText('the run succeeded, and says which send failed').waitFor();
    const [run] = await service.runs(id);
    await page.goto(`${service.url}/runs/${run?.id}`);
    await page.locator('.state.bad', { hasText: '1 send failed' }).waitFor();
    const sent = page.getByRole('region', { name: 'What it sent' });
    await sent.locator('p.hint', { hasText: 'no mail server is set' }).waitFor();
    await dashboard.screenshot(page, 'run-send-failed');
    dashboard.nothingWrong();
  });
});
