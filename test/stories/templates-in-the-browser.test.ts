import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { chromiumSkip } from '../support/chromium.ts';
import { useDashboard } from '../support/dashboard-browser.ts';
import type { ServiceClient } from '../support/service-client.ts';

const greet = `export default { props: { notes: { type: 'app', app: 'acme_notes' }, pin: { type: 'string', secret: true, label: 'PIN' },
  word: { type: 'string', label: 'Word' } }, run() { return this.word; } };`;
const again = `export default { props: { word: { type: 'string', label: 'Word' } }, run() { return this.word; } };`;
const source = `export default { name: 'Mood', version: '0.0.1', type: 'source',
  props: { http: '$.interface.http', mood: { type: 'string', label: 'Mood' }, token: { type: 'string', secret: true, label: 'Token' } },
  run() {} };`;

describe('templates in the dashboard', { skip: chromiumSkip() }, () => {
  const dashboard = useDashboard();
  let service: ServiceClient;
  let account: { id: string };
  let workflow: { id: string };

  before(async () => {
    service = dashboard.service;
    account = await done('POST', '/v1/accounts', {
      app: 'acme_notes',
      name: 'mine',
      credentials: { key: 'k' },
    });
    workflow = await service.createWorkflow({
      settings: { name: 'Greet <b>them</b> \u202eecin' },
      steps: [
        {
          namespace: 'greet',
          code: greet,
          props: { notes: { authProvisionId: account.id }, pin: 'open sesame please', word: 'hello' },
        },
        { namespace: 'again', code: again, props: { word: '{{steps.greet.$return_value}}' } },
      ],
      triggers: [
        { type: 'http' },
        {
          type: 'source',
          props: { code: source, configured_props: { mood: 'good', token: 'a-token-to-keep' } },
        },
      ],
    });
  });

  async function done(method: string, path: string, body?: unknown) {
    const answer = await service.api(method, path, body);
    assert.ok(answer.status < 300, JSON.stringify(answer.body));
    return answer.body?.data;
  }

  test('a template is made of a workflow, shows what is in it without secrets, and is found in the list and by its id', async () => {
    const page = await dashboard.signedIn('/templates');
    await page.getByText('No templates yet').waitFor();
    await page.goto(`${service.url}/workflows/${workflow.id}?tab=settings`);
    await page.getByLabel('Name of the template').fill('Greeting <i>');
    await page.getByRole('button', { name: 'Make a template' }).click();
    await page.getByRole('heading', { name: 'Greeting <i>', level: 1 }).waitFor();
    const step = page.getByRole('region', { name: 'Step greet' });
    await step.getByText('Values it comes with').click();
    await step.getByText('"hello"').waitFor();
    await step.getByText('Code', { exact: true }).click();
    await page.getByText('HTTP request').waitFor();
    await dashboard.screenshot(page, 'template');
    const html = await page.content();
    for (const secret of ['open sesame', 'a-token-to-keep', account.id]) assert.ok(!html.includes(secret));
    const id = page.url().split('/').at(-1) ?? '';
    await page.goto(`${service.url}/templates`);
    await page.getByRole('link', { name: /Greeting <i>.*2 steps, 2 triggers, your own/ }).waitFor();
    await dashboard.screenshot(page, 'templates');
    await page.getByLabel('Id of a template').fill(id);
    await page.getByRole('button', { name: 'Open by its id' }).click();
    await page.getByRole('heading', { name: 'Greeting <i>', level: 1 }).waitFor();
    dashboard.nothingWrong();
  });

  test('a workflow is made of a template once what the template cannot hold is given', async () => {
    const page = await dashboard.signedIn('/templates');
    await page.getByRole('link', { name: /Greeting <i>/ }).click();
    await page.getByRole('link', { name: 'Use this template' }).click();
    await page.getByLabel('Name', { exact: true }).fill('Made of it');
    const step = page.getByRole('region', { name: 'Step greet' });
    assert.equal(await step.getByLabel('Word').count(), 0, 'it comes with the word');
    await page.getByRole('region', { name: 'Step again' }).getByText('There is nothing to give').waitFor();
    const trigger = page.getByRole('region', { name: 'The source that triggers it' });
    await trigger.getByLabel('Token').fill('a token of mine');
    await page.getByRole('button', { name: 'Create workflow' }).click();
    await page.getByText('The workflow was not made.').waitFor();
    await dashboard.screenshot(page, 'template-use');
    await step.getByRole('alert').waitFor();
    dashboard.forgetComplaints();
    await step.getByLabel('PIN').fill('another pin entirely');
    await step.getByLabel('Account of acme_notes').selectOption(account.id);
    await page.getByRole('button', { name: 'Create workflow' }).click();
    await page.getByRole('heading', { name: 'Made of it', level: 1 }).waitFor();
    const made = await done('GET', `/v1/workflows/${page.url().split('/').at(-1)}`);
    assert.equal(made.active, true);
    const [greeting, repeated] = made.steps;
    assert.equal(greeting.authProvisionIdMap.notes, account.id);
    assert.equal(JSON.parse(greeting.configured_props_json).word, 'hello');
    assert.equal(JSON.parse(repeated.configured_props_json).word, '{{steps.greet.$return_value}}');
    assert.deepEqual(
      made.triggers.map(({ type }: { type: string }) => type),
      ['http', 'source'],
    );
    assert.equal(made.triggers[1].configured_props.mood, 'good');
    dashboard.nothingWrong();
  });

  test('a viewer reads a template of the workspace and has no buttons that fail, on a narrow dark screen', async () => {
    const { orgs } = await done('GET', '/v1/users/me');
    const workspace = orgs[0].id;
    const { id } = await done('POST', '/v1/templates', {
      org_id: workspace,
      name: 'Of the team',
      steps: [{ namespace: 'x', code: again, props: { word: 'w'.repeat(2_000) } }],
      triggers: [{ type: 'timer', props: { interval_seconds: 900 } }],
    });
    const user = await service.createUser('vera');
    await done('POST', `/v1/workspaces/${workspace}/members`, { user_id: user.id, role: 'viewer' });
    const small = { viewport: { width: 360, height: 740 }, colorScheme: 'dark' } as const;
    const page = await dashboard.signedIn('/templates', small, user.key);
    await page.getByRole('button', { name: 'Menu' }).click();
    await page.getByLabel('Showing').selectOption(workspace);
    await page.getByRole('button', { name: 'Menu' }).click();
    await page.getByRole('link', { name: /Of the team/ }).waitFor();
    for (const path of ['/templates', `/templates/${id}`, `/templates/${id}/use`]) {
      await page.goto(service.url + path);
      if (path.endsWith(id)) await page.getByText('Timer: every 15 min').waitFor();
      else if (path.endsWith('use')) await page.getByText('and not change it').waitFor();
      else await page.getByRole('link', { name: /Of the team/ }).waitFor();
      const buttons = page
        .getByRole('button', { name: /Create|Take off/ })
        .or(page.getByRole('link', { name: 'Use this template' }));
      assert.equal(await buttons.count(), 0, path);
      const tooWide = await page.evaluate('document.documentElement.scrollWidth - window.innerWidth');
      assert.ok(Number(tooWide) <= 0, `${path} is ${tooWide} px too wide`);
      await dashboard.screenshot(page, `template-narrow${path.endsWith('use') ? '-use' : path.length}`);
    }
    const own = await dashboard.signedIn(`/templates/${id}/use`, small);
    await own.getByText('There is nothing to give').waitFor();
    const tooWide = await own.evaluate('document.documentElement.scrollWidth - window.innerWidth');
    assert.ok(Number(tooWide) <= 0, `the form is ${tooWide} px too wide`);
    await dashboard.screenshot(own, 'template-use-narrow');
    dashboard.nothingWrong();
  });

  test('a template is taken off the list, and workflows made of it stay', async () => {
    const page = await dashboard.signedIn('/templates');
    await page.getByRole('link', { name: /Greeting <i>/ }).click();
    await page.getByRole('button', { name: 'Take off the list' }).click();
    await page.getByRole('alertdialog').getByRole('button', { name: 'Take off the list' }).click();
    await page.getByRole('link', { name: /Of the team/ }).waitFor();
    await page.getByRole('link', { name: /Greeting <i>/ }).waitFor({ state: 'detached' });
    await done('GET', `/v1/workflows/${workflow.id}`);
    dashboard.nothingWrong();
  });
});
