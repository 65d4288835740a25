import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { chromiumSkip } from '../support/chromium.ts';
import { useDashboard } from '../support/dashboard-browser.ts';
import type { ServiceClient } from '../support/service-client.ts';
import { waitFor } from '../support/wait-for.ts';

const http = { type: 'http' };

/** Fails the first time, and is right from then on. */
const onceWrong = `export default defineComponent({
  props: { db: '$.service.db', amount: { type: 'string' } },
  async run({ $ }) {
    console.log('paying', this.amount);
    const before = await this.db.get('tried');
    await this.db.set('tried', true);
    if (!before) throw new Error('the bank is closed');
    return 'paid ' + this.amount;
  },
});`;

/** Workflows and their runs, as a user sees them. */
describe('the pages of workflows', { skip: chromiumSkip() }, () => {
  const dashboard = useDashboard();
  let service: ServiceClient;

  before(async () => {
    service = dashboard.service;
  });

  function send(workflow: { triggers: { endpoint_url: string }[] }, body: unknown): Promise<Response> {
    return fetch(workflow.triggers[0]?.endpoint_url ?? '', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
  }

  test('where there is no workflow, the page has a command that makes one, and then shows it', async () => {
    const page = await dashboard.signedIn('/workflows');
    await page.getByText('No workflows yet').waitFor();
    await dashboard.screenshot(page, 'workflows-empty');
    const command = (await page.locator('.command code').textContent()) ?? '';
    const definition = /-d '(.*)'$/s.exec(command)?.[1] ?? '';
    const made = await service.api('POST', '/v1/workflows', JSON.parse(definition));
    assert.equal(made.status, 200);
    await page.getByRole('link', { name: 'hello' }).click();
    await page.getByText('Nothing has run yet').waitFor();
    await send(made.body.data, { name: 'Ada' });
    await page.getByRole('link', { name: /Succeeded/ }).click();
    await page.getByText('Exports').click();
    await page.getByText('"Hello Ada"').waitFor();
    dashboard.nothingWrong();
  });

  test('a failing workflow is found from Home, understood, and restarted where it failed', async () => {
    const workflow = await service.createWorkflow({
      settings: { name: 'pay the bills' },
      triggers: [http],
      steps: [
        {
          namespace: 'read',
          code: 'export default defineComponent({ run({ steps }) { return steps.trigger.event.body.amount; } })',
        },
        { namespace: 'pay', code: onceWrong, props: { amount: '{{steps.read.$return_value}}' } },
        { namespace: 'thank', code: 'export default defineComponent({ run() { return "thanks"; } })' },
      ],
    });
    await send(workflow, { amount: '12 francs' });
    const failed = await service.runInState(workflow.id, 'failed');
    const page = await dashboard.signedIn('/');
    await page.getByRole('link', { name: 'Workflow pay the bills' }).click();
    await dashboard.screenshot(page, 'workflow-runs');
    await page.getByRole('link', { name: /Failed.*pay: the bank is closed/ }).click();
    const failure = page.getByRole('region', { name: 'Failed in pay' });
    await failure.getByText('Error: the bank is closed').waitFor();
    await failure.locator('.excerpt-line.here', { hasText: 'throw new Error' }).waitFor();
    await page.getByText('paying 12 francs').waitFor();
    await page.getByRole('region', { name: 'Input of pay' }).getByText('"12 francs"').waitFor();
    await page.getByText('Not reached').waitFor();
    await dashboard.screenshot(page, 'run-failed');
    await page.getByRole('button', { name: 'Restart' }).click();
    const dialog = page.getByRole('alertdialog');
    assert.equal(await dialog.getByLabel('From step').inputValue(), 'pay');
    assert.equal(await dialog.getByRole('option').count(), 2, 'not from a step that was never reached');
    await dialog.getByText('what they exported is taken over').waitFor();
    await dashboard.screenshot(page, 'run-restart');
    await dialog.getByRole('button', { name: 'Restart' }).click();
    await page.locator('.page-title').getByText('Succeeded').waitFor();
    assert.ok(!page.url().endsWith(failed.id));
    await page.getByRole('link', { name: 'The run that it repeats' }).click();
    await failure.waitFor();
    const again = await service.runInState(workflow.id, 'succeeded');
    assert.equal(again.replay_of, failed.id);
    dashboard.nothingWrong();
  });

  test('a run that waits is cancelled, and one that ended is replayed with the present version', async () => {
    const workflow = await service.createWorkflow({
      settings: { name: 'waits' },
      triggers: [http],
      steps: [
        {
          namespace: 'wait',
          code: 'export default defineComponent({ run({ $ }) { return $.flow.delay(3600000); } })',
        },
      ],
    });
    await send(workflow, {});
    const run = await service.runInState(workflow.id, 'waiting');
    const page = await dashboard.signedIn(`/runs/${run.id}`);
    await page.getByText('It waits (delay) until').waitFor();
    await page.getByRole('button', { name: 'Cancel run' }).click();
    const dialog = page.getByRole('alertdialog');
    await dialog.getByText('Effects of its finished steps stay.').waitFor();
    await dialog.getByRole('button', { name: 'Cancel run' }).click();
    await page.locator('.page-title').getByText('Cancelled').waitFor();
    const { status } = await service.api('POST', `/v1/workflows/${workflow.id}/deployments`, {
      steps: [{ namespace: 'wait', code: 'export default defineComponent({ run() { return "at once"; } })' }],
    });
    assert.equal(status, 200);
    await page.getByRole('button', { name: 'Replay' }).click();
    await dialog.getByRole('button', { name: 'Replay' }).click();
    await page.locator('.page-title').getByText('Succeeded').waitFor();
    await page.getByText('version 2').waitFor();
    await page.goto(`${service.url}/workflows/${workflow.id}?tab=deployments`);
    await page.getByText('Step wait changed: code.').waitFor();
    await dashboard.screenshot(page, 'workflow-deployments');
    await page.goto(`${service.url}/workflows/${workflow.id}?state=cancelled`);
    await page.getByRole('link', { name: /Cancelled/ }).waitFor();
    assert.equal(await page.getByRole('link', { name: /Succeeded/ }).count(), 0);
    dashboard.nothingWrong();
  });

  test('failed runs are run again all together, and one with another event', async () => {
    const workflow = await service.createWorkflow({
      settings: { name: 'many failures' },
      triggers: [http],
      steps: [
        {
          namespace: 'check',
          code: 'export default defineComponent({ run({ steps }) { if (!steps.trigger.event.good) throw new Error("no good"); return "good"; } })',
        },
      ],
    });
    for (let n = 0; n < 3; n += 1) await send(workflow, { n });
    const runsIn = async (state: string) =>
      (await service.api('GET', `/v1/workflows/${workflow.id}/runs?state=${state}`)).body.data;
    await waitFor(async () => (await runsIn('failed')).length === 3);
    const page = await dashboard.signedIn(`/workflows/${workflow.id}?state=failed`);
    await page.getByRole('button', { name: 'Replay all' }).click();
    const dialog = page.getByRole('alertdialog');
    await dialog.getByText('3 runs in the state “Failed”').waitFor();
    await dashboard.screenshot(page, 'runs-replay-all');
    await dialog.getByRole('button', { name: 'Replay all' }).click();
    await page.getByText('3 replayed').waitFor();
    await waitFor(async () => (await runsIn('failed')).length === 6);

    const [failed] = await runsIn('failed');
    await page.goto(`${service.url}/runs/${failed.id}`);
    await page.getByRole('button', { name: 'Replay' }).click();
    await dialog.getByText('With another event').click();
    const event = dialog.getByLabel('Event, as JSON');
    await event.fill('{ "good": ');
    await dialog.getByText('This is not JSON.').waitFor();
    assert.equal(await dialog.getByRole('button', { name: 'Replay' }).isDisabled(), true);
    await event.fill('{ "good": true }');
    await dashboard.screenshot(page, 'run-replay-edited');
    await dialog.getByRole('button', { name: 'Replay' }).click();
    await page.locator('.page-title').getByText('Succeeded').waitFor();
    await page.getByRole('button', { name: 'Keep event' }).click();
    await dialog.getByLabel('Name').fill('a good one');
    await dialog.getByRole('button', { name: 'Keep event' }).click();
    await page.getByText('Kept.').waitFor();
    await page.goto(`${service.url}/workflows/${workflow.id}?tab=test-events`);
    const kept = page.getByRole('region', { name: 'Test event a good one' });
    await kept.getByText(/^Event, \d+ B$/).click();
    await kept.getByText('"good"').waitFor();
    await dashboard.screenshot(page, 'workflow-test-events');
    await page.goto(`${service.url}/workflows/${workflow.id}/edit`);
    await page.getByText('Test this step').first().click();
    await page.getByLabel('With what came before it').first().selectOption('Test event a good one');
    await page.getByRole('button', { name: 'Run this step' }).first().click();
    await page.getByText('"good"').first().waitFor();
    await page.goto(`${service.url}/workflows/${workflow.id}?tab=test-events`);
    await kept.getByRole('button', { name: 'Run the workflow' }).click();
    await page.locator('.page-title').getByText('Succeeded').waitFor();
    dashboard.nothingWrong();
  });

  test('the steps of a workflow are shown as they run, and it is deactivated and deleted', async () => {
    const source = await service.createSource({ name: 'the inbox', key: 'http-new-requests-payload-only' });
    const workflow = await service.createWorkflow({
      settings: { name: 'many triggers' },
      triggers: [
        http,
        { type: 'timer', props: { cron: '0 5 * * *', timezone: 'Europe/Zurich' } },
        { type: 'source', props: { source_id: source.id } },
      ],
      steps: [
        { namespace: 'first', code: 'export default defineComponent({ run() { return 1; } })' },
        {
          namespace: 'left_out',
          disabled: true,
          code: 'export default defineComponent({ run() { return 2; } })',
        },
        { namespace: 'ask', block: 'call', workflow: 'p_none' },
      ],
    });
    const page = await dashboard.signedIn(`/workflows/${workflow.id}?tab=steps`);
    const warnings = page.getByRole('list', { name: 'Warnings' });
    await warnings.getByText('steps.ask calls the workflow "p_none", which does not exist').waitFor();
    const graph = page.getByRole('list', { name: 'Triggers and steps' });
    await graph.getByText('cron 0 5 * * *, Europe/Zurich').waitFor();
    await graph.getByRole('link', { name: 'the inbox' }).waitFor();
    await graph.getByRole('region', { name: 'Step left_out' }).getByText('Disabled: left out').waitFor();
    await dashboard.screenshot(page, 'workflow-steps');
    await page.getByRole('tab', { name: 'Settings' }).click();
    await page.getByRole('button', { name: 'Deactivate' }).click();
    await page.getByRole('button', { name: 'Activate', exact: true }).waitFor();
    await dashboard.screenshot(page, 'workflow-settings');
    assert.equal((await service.api('GET', `/v1/workflows/${workflow.id}`)).body.data.active, false);
    await page.getByRole('button', { name: 'Delete workflow' }).click();
    const dialog = page.getByRole('alertdialog');
    await dialog.getByText('this cannot be undone').waitFor();
    await dialog.getByRole('button', { name: 'Delete workflow' }).click();
    await page.waitForURL(`${service.url}/workflows`);
    assert.equal((await service.api('GET', `/v1/workflows/${workflow.id}`)).status, 404);
    dashboard.nothingWrong();
  });

  test('hostile content is text, a viewer sees no buttons that fail, and a narrow screen shows all of it', async () => {
    const { body: me } = await service.api('GET', '/v1/users/me');
    const workspace = me.data.orgs[0].id;
    const workflow = await service.createWorkflow({
      org_id: workspace,
      settings: { name: `<img src=x onerror=alert(1)>\u202e${'n'.repeat(150)}` },
      triggers: [http],
      steps: [
        {
          namespace: 'hostile',
          code: `export default defineComponent({ run({ steps, $ }) {
            console.log('\\u001b[31mred <b>bold</b>');
            $.export('<script>alert(2)</script>', 'x'.repeat(10000));
            throw new Error('<script>alert(3)</script>\\u202e' + 'y'.repeat(5000));
          } })`,
        },
      ],
    });
    await send(workflow, { html: '</script><iframe src="https://evil.example"></iframe>' });
    const run = await service.runInState(workflow.id, 'failed');
    const user = await service.createUser('vera');
    const members = `/v1/workspaces/${workspace}/members`;
    await service.api('POST', members, { user_id: user.id, role: 'viewer' });
    const page = await dashboard.signedIn(
      '/',
      { viewport: { width: 360, height: 860 }, colorScheme: 'dark' },
      user.key,
    );
    const paths = [
      `/workflows/${workflow.id}`,
      ...['steps', 'deployments', 'settings'].map((tab) => `/workflows/${workflow.id}?tab=${tab}`),
      `/runs/${run.id}`,
    ];
    for (const [index, path] of paths.entries()) {
      await page.goto(service.url + path);
      await page.getByRole('heading', { level: 1, name: '<img src=x onerror=alert(1)>⟨U+202E⟩' }).waitFor();
      if (path.startsWith('/runs/')) await page.locator('.excerpt-line.here').waitFor();
      await dashboard.screenshot(page, `narrow-${index}`);
      const tooWide = await page.evaluate('document.documentElement.scrollWidth - window.innerWidth');
      assert.ok(Number(tooWide) <= 0, `${path} is ${tooWide} px too wide`);
      const failing = page.getByRole('button', { name: /Delete|Activate|Deactivate|Restart|Replay|Cancel/ });
      assert.equal(await failing.count(), 0, path);
    }
    await page.getByText('\\x1b[31mred <b>bold</b>').waitFor();
    await page.getByText('Exports').click();
    await page.getByText('"<script>alert(2)</script>"').waitFor();
    assert.equal(await page.locator('img:not([src="/favicon.svg"]), iframe, main script').count(), 0);
    await page.getByRole('button', { name: 'Menu' }).click();
    await page.getByLabel('Showing').selectOption(workspace);
    await page.getByRole('link', { name: 'Workflows' }).click();
    await page.getByRole('link', { name: /<img src=x.*Failed/ }).waitFor();
    await dashboard.screenshot(page, 'narrow-list');
    assert.ok(Number(await page.evaluate('document.documentElement.scrollWidth - window.innerWidth')) <= 0);
    await page.getByLabel('Search by name or id').fill('no such thing');
    await page.getByText('No workflows found').waitFor();
    await page.getByLabel('Search by name or id').fill(workflow.id.toUpperCase());
    await page.getByRole('link', { name: /<img src=x/ }).waitFor();
    dashboard.nothingWrong();
  });
});
