import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { chromiumSkip } from '../support/chromium.ts';
import { useDashboard } from '../support/dashboard-browser.ts';
import type { ServiceClient } from '../support/service-client.ts';
import { waitFor } from '../support/wait-for.ts';

const suspends =
  'export default defineComponent({ async run({ steps, $ }) { return $.flow.suspend(600000); } });';

describe('flow control in the dashboard', { skip: chromiumSkip() }, () => {
  const dashboard = useDashboard();
  let service: ServiceClient;
  before(() => {
    service = dashboard.service;
  });

  test('is set in the editor, and the runs of the workflow show what waits and why', async () => {
    const workflow = await service.createWorkflow({
      steps: [{ namespace: 'a', code: suspends }],
      triggers: [{ type: 'http' }],
    });
    const page = await dashboard.signedIn(`/workflows/${workflow.id}/edit`);
    await page.getByText('Run settings').click();
    await page.getByLabel('Concurrency', { exact: true }).check();
    await page.getByLabel('Concurrency: Runs').fill('2');
    await page.getByLabel('Concurrency: key').fill('customer');
    await page.getByLabel('Singleton', { exact: true }).check();
    await page.getByLabel('Singleton', { exact: true }).uncheck();
    await page.getByLabel('Priority: seconds').fill('-5');
    await page.getByRole('button', { name: 'Deploy' }).click();
    await page.getByText('expected an expression such as').first().waitFor();
    dashboard.forgetComplaints();
    await page.getByLabel('Concurrency: key').fill('{{event.body.customer}}');
    await dashboard.screenshot(page, 'flow-control-editor');
    await page.getByRole('button', { name: 'Deploy' }).click();
    await page.getByText('Deployed. New runs have it').waitFor();
    const { data } = (await service.api('GET', `/v1/workflows/${workflow.id}`)).body;
    assert.deepEqual(data.settings.flow_control, {
      concurrency: { limit: 2, key: '{{event.body.customer}}' },
      priority: -5,
    });
    for (let n = 0; n < 5; n += 1)
      await fetch(workflow.triggers[0].endpoint_url, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ customer: '<b>acme' }),
      });
    await waitFor(
      async () => (await service.api('GET', `/v1/workflows/${workflow.id}/queue`)).body.data.waiting === 3,
    );
    await page.goto(`${service.url}/workflows/${workflow.id}`);
    const queue = page.getByRole('region', { name: 'Queue' });
    await queue.getByText('2 of 2 runs with key "<b>acme" are under way').waitFor();
    await queue.getByText('3 waiting').waitFor();
    await dashboard.screenshot(page, 'flow-control-queue');
    const [waiting] = await service.runs(workflow.id, '&state=queued');
    await page.goto(`${service.url}/runs/${waiting.id}`);
    await page.getByText('Waits for its turn').waitFor();
    await page.goto(`${service.url}/workflows/${workflow.id}?tab=settings`);
    await page.getByText('2 runs of each {{event.body.customer}} at the same time').waitFor();
    dashboard.nothingWrong();
  });

  test('is set in the settings of a source, which show what waits and what did not run', async () => {
    const source = await service.createSource({
      component_code: `export default {
        name: 'emits', version: '0.0.1', type: 'source',
        props: { http: { type: '$.interface.http' } },
        run(event) { this.$emit(event.body); },
      };`,
    });
    const page = await dashboard.signedIn(`/sources/${source.id}?tab=settings`);
    await page.getByLabel('Concurrency', { exact: true }).check();
    const save = page
      .locator('form')
      .filter({ hasText: 'Flow control' })
      .getByRole('button', { name: 'Save' });
    await save.click();
    await page.getByText('set the concurrency of the source above 1').waitFor();
    dashboard.forgetComplaints();
    await page.getByLabel('Concurrency', { exact: true }).uncheck();
    await page.getByLabel('Throttle', { exact: true }).check();
    await page.getByLabel('Throttle: Runs').fill('1');
    await page.getByLabel('Throttle: Seconds').fill('3600');
    await page.getByLabel('Singleton', { exact: true }).check();
    await page.getByLabel('Singleton: key').fill('{{event.body.customer}}');
    await save.click();
    await page.getByText('Saved.').waitFor();
    const { data } = (await service.api('GET', `/v1/sources/${source.id}`)).body;
    assert.deepEqual(data.flow_control, {
      throttle: { limit: 1, seconds: 3600 },
      singleton: { mode: 'skip', key: '{{event.body.customer}}' },
    });
    // The first one begins; of the others, which wait, the second finds the first.
    for (const n of [1, 2, 3]) {
      await fetch(source.configured_props.http.endpoint_url, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ customer: 'acme', n }),
      });
      if (n === 1)
        await waitFor(
          async () =>
            (await service.api('GET', `/v1/sources/${source.id}/event_summaries`)).body.data.length === 1,
        );
    }
    const queue = page.getByRole('region', { name: 'Queue' });
    await queue.getByText('have begun within 3600 seconds').waitFor();
    await queue.getByText('has the singleton key "acme"').waitFor();
    await dashboard.screenshot(page, 'flow-control-source');
  });
});
