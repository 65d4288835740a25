import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { chromiumSkip } from '../support/chromium.ts';
import { pasteCode, useDashboard } from '../support/dashboard-browser.ts';
import type { ServiceClient } from '../support/service-client.ts';

const http = { type: 'http' };

function cell(body: string): string {
  return `export default defineComponent({\n  async run({ steps, $ }) {\n    ${body}\n  },\n});\n`;
}

/** Workflows and sources made and changed in the browser, without a terminal. */
describe('editing in the browser', { skip: chromiumSkip() }, () => {
  const dashboard = useDashboard();
  let service: ServiceClient;

  before(async () => {
    service = dashboard.service;
  });

  const write = (page: Page, name: string, code: string) =>
    pasteCode(page, new RegExp(`^Code of the step ${name}\\b`), code);

  function send(url: string, body: unknown): Promise<Response> {
    return fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
  }

  test('an example is made inactive, activated, and answers', async () => {
    const page = await dashboard.signedIn('/workflows/new');
    const examples = page.getByRole('region', { name: 'Examples' });
    await examples.getByText('Reads PAGE_URL and CHAT_URL.').waitFor();
    assert.equal(await examples.getByRole('button').count(), 10);
    await examples.getByRole('button', { name: /^Shorten links/ }).click();
    const address = (await page.locator('.endpoint code.break').textContent()) ?? '';
    assert.equal((await fetch(address)).status, 404, 'it is not active');
    await page.getByRole('tab', { name: 'Settings' }).click();
    await page.getByRole('button', { name: 'Activate', exact: true }).click();
    await page.getByRole('button', { name: 'Deactivate' }).waitFor();
    const put = await fetch(`${address}/mill`, {
      method: 'PUT',
      headers: { 'content-type': 'application/json' },
      body: '{"url": "https://example.com/a"}',
    });
    assert.equal(await put.text(), 'https://example.com/a\n');
    const answer = await fetch(`${address}/mill`, { redirect: 'manual' });
    assert.deepEqual([answer.status, answer.headers.get('location')], [302, 'https://example.com/a']);
  });

  test('from nothing to a run, then changed, tried, compared and deployed', async () => {
    const page = await dashboard.signedIn('/workflows');
    await page.getByRole('link', { name: 'New workflow' }).click();
    await dashboard.screenshot(page, 'new-workflow');
    await page.getByRole('button', { name: /^An HTTP request/ }).click();
    await page.getByLabel('Name', { exact: true }).fill('greets');
    await page.getByText('No steps yet').waitFor();
    await page.getByRole('button', { name: 'Add a step of code' }).click();
    await page.getByLabel('Name of the step').fill('greet');
    await page.getByLabel('Note', { exact: true }).fill('Greets the caller');
    await write(page, 'greet', cell("return 'Hello ' + steps.trigger.event.body.name;"));
    await dashboard.screenshot(page, 'new-workflow-code');
    await page.getByRole('button', { name: 'Create workflow' }).click();
    await page.getByText('Nothing has run yet').waitFor();
    const address = (await page.locator('.endpoint code.break').textContent()) ?? '';
    assert.equal((await send(address, { name: 'Ada' })).status, 200);
    await page.getByRole('link', { name: /Succeeded/ }).waitFor();
    await page.getByRole('link', { name: 'Edit', exact: true }).click();
    await page.getByText('Nothing yet: it is as it was deployed.').waitFor();
    // With one step it is open.
    await write(
      page,
      'greet',
      cell(
        "$.export('who', steps.trigger.event.body.name);\n    console.log('greeting');\n    return 'Good day';",
      ),
    );
    await page.getByRole('region', { name: 'Changes of step greet' }).getByText('+').first().waitFor();
    await page.getByText('Test this step').click();
    await page.getByRole('button', { name: 'Run this step' }).click();
    const result = page.getByRole('region', { name: 'Result of the test' });
    await result.getByText('"Good day"').waitFor();
    await result.getByText('"Ada"').waitFor();
    await result.getByText('greeting', { exact: true }).waitFor();
    await dashboard.screenshot(page, 'edit-tested');
    const id = /workflows\/(p_\w+)/.exec(page.url())?.[1] ?? '';
    assert.equal((await service.runs(id)).length, 1, 'a test is no run');
    await page.getByRole('button', { name: 'Add a step of code' }).click();
    await page.getByLabel('Name of the step').fill('after');
    await page.getByRole('button', { name: 'Move step after up' }).click();
    await page.getByRole('button', { name: 'Deploy' }).click();
    await page.getByText('Deployed. New runs have it').waitFor();
    const { data } = (await service.api('GET', `/v1/workflows/${id}`)).body;
    assert.deepEqual(
      data.steps.map((step: { namespace: string; note: string | null }) => [step.namespace, step.note]),
      [
        ['after', null],
        ['greet', 'Greets the caller'],
      ],
    );
    assert.equal(data.triggers[0].endpoint_url, address);
    dashboard.nothingWrong();
  });

  test('a request is sent and answered without code and without JSON, also on a narrow screen', async () => {
    const page = await dashboard.signedIn('/workflows/new', { viewport: { width: 390, height: 844 } });
    await page.getByRole('button', { name: /^An HTTP request/ }).click();
    await page.getByLabel('Name', { exact: true }).fill('asks another');
    const add = async (words: string, name: RegExp) => {
      await page.getByRole('button', { name: 'Add a component' }).click();
      await page.getByRole('searchbox', { name: 'Search for an action' }).fill(words);
      await page.getByRole('button', { name }).waitFor();
      assert.equal(await page.evaluate('document.documentElement.scrollWidth > window.innerWidth'), false);
      await page.getByRole('button', { name }).click();
    };
    await add('post request', /^Send a POST request/);
    const method = page.getByLabel('Method', { exact: true });
    assert.equal(await method.inputValue(), 'POST');
    await page.getByLabel('URL', { exact: true }).fill('https://example.com/{{steps.trigger.event.body.id}}');
    await page.getByLabel(/^Headers/).fill('x-source: a mill\n\nx-time: 10:30');
    await method.selectOption('PUT');
    await page.getByLabel('Body', { exact: true }).fill('{"id": 7}');
    await add('respond', /^Respond to the HTTP request/);
    await page.getByLabel(/^Body/).fill('done');
    // The response would not reach the caller.
    const lost = page.getByText('A step responds, but the caller does not get that response');
    await lost.waitFor();
    await page.getByLabel('Custom response').check();
    await lost.waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Create workflow' }).click();
    await page.getByText('Nothing has run yet').waitFor();
    const id = /workflows\/(p_\w+)/.exec(page.url())?.[1] ?? '';
    const { data } = (await service.api('GET', `/v1/workflows/${id}`)).body;
    assert.deepEqual(JSON.parse(data.steps[0].configured_props_json).httpRequest, {
      method: 'PUT',
      url: 'https://example.com/{{steps.trigger.event.body.id}}',
      headers: [
        { name: 'x-source', value: 'a mill' },
        { name: 'x-time', value: '10:30' },
      ],
      body: { contentType: 'application/json', mode: 'raw', raw: '{"id": 7}' },
    });
    // The form shows it again, and JSON is a click away.
    await page.goto(`${service.url}/workflows/${id}/edit`);
    await page.getByRole('button', { name: /^Edit step http_post_request/ }).click();
    assert.equal(await method.inputValue(), 'PUT');
    await page.getByRole('button', { name: 'Write the request as JSON' }).click();
    assert.match(await page.getByLabel('Request', { exact: true }).inputValue(), /"mode": "raw"/);
    dashboard.nothingWrong();
  });

  test('a syntax error is shown at its line and at its step, and nothing is lost when the page is left', async () => {
    const workflow = await service.createWorkflow({
      settings: { name: 'two steps' },
      triggers: [http],
      steps: [
        { namespace: 'first', code: cell('return 1;') },
        { namespace: 'second', code: cell('return 2;') },
      ],
    });
    const page = await dashboard.signedIn(`/workflows/${workflow.id}/edit`);
    await page.getByRole('button', { name: 'Edit step second' }).click();
    const wrong = cell('return steps..first;');
    await write(page, 'second', wrong);
    await page.getByRole('button', { name: 'Check the code' }).click();
    const problem = page.getByText(/^Line 3, column \d+: Expected identifier/);
    await problem.waitFor();
    await page.locator('.cm-lintRange-error').waitFor();
    await page.getByRole('button', { name: 'Close step second' }).click();
    await page.getByRole('button', { name: 'Deploy' }).click();
    await page.getByText('Step second has a problem: it is shown there.').waitFor();
    const card = page.getByRole('region', { name: 'Step second' }).first();
    await card.getByText('Has a problem').waitFor();
    await problem.waitFor();
    await dashboard.screenshot(page, 'edit-syntax-error');
    // The service logs nothing, but the browser reports each error response.
    dashboard.forgetComplaints();
    await page.getByRole('link', { name: 'Back to the workflow' }).click();
    await page.getByText(/Your changes of .* are not deployed\.$/).waitFor();
    await dashboard.screenshot(page, 'workflow-with-draft');
    await page.getByRole('link', { name: 'Continue editing' }).click();
    await page.getByText('They are restored here').waitFor();
    await page.getByRole('button', { name: 'Edit step second' }).click();
    await page.getByText('return steps..first;').first().waitFor();
    await write(page, 'second', cell('return steps.first.$return_value + 1;'));
    await page.getByRole('button', { name: 'Deploy' }).click();
    await page.getByText('Deployed. New runs have it').waitFor();
    await page.getByRole('link', { name: 'Back to the workflow' }).click();
    await page.getByRole('heading', { name: 'two steps' }).waitFor();
    assert.equal(await page.getByText(/Your changes of .* are not deployed\.$/).count(), 0);
    dashboard.nothingWrong();
  });

  test('what is being written is kept when the page is left before it rested', async () => {
    const workflow = await service.createWorkflow({
      settings: { name: 'left at once' },
      triggers: [http],
      steps: [{ namespace: 'only', code: cell('return 1;') }],
    });
    const page = await dashboard.signedIn(`/workflows/${workflow.id}/edit`);
    // A browser with so much to do that the time at which typing counts as resting never comes.
    await page.evaluate(`{
      const later = window.setTimeout;
      window.setTimeout = (work, ms, ...rest) => (ms === 300 ? 0 : later(work, ms, ...rest));
    }`);
    await write(page, 'only', cell('return 2;'));
    await page.getByRole('link', { name: 'Back to the workflow' }).click();
    await page.getByText(/Your changes of .* are not deployed\.$/).waitFor();
    await page.getByRole('button', { name: 'Discard' }).click();
    await page.getByText(/Your changes of .* are not deployed\.$/).waitFor({ state: 'detached' });
    dashboard.nothingWrong();
  });

  test('completion offers what the code can reach, and the keyboard gets out of the editor', async () => {
    const workflow = await service.createWorkflow({
      settings: { name: 'completes' },
      triggers: [http],
      steps: [
        { namespace: 'order', code: cell("$.export('total', 12);\n    return { 'item-count': 3 };") },
        { namespace: 'later', code: cell('return 1;') },
      ],
    });
    await send(workflow.triggers[0].endpoint_url, { customer: 'Ada', 'vat-id': 'x' });
    await service.runInState(workflow.id, 'succeeded');
    const page = await dashboard.signedIn(`/workflows/${workflow.id}/edit`);
    await page.getByRole('button', { name: 'Edit step later' }).click();
    const offered = page.getByRole('listbox', { name: 'Completions' }).getByRole('option');
    const typed = async (code: string, cursorBack = 0) => {
      await write(page, 'later', code);
      for (let left = 0; left < cursorBack; left += 1) await page.keyboard.press('ArrowLeft');
    };
    await typed('steps', 0);
    await page.keyboard.type('.');
    await offered.filter({ hasText: 'trigger' }).waitFor();
    await offered.filter({ hasText: 'order' }).waitFor();
    await dashboard.screenshot(page, 'edit-completion');
    await page.keyboard.press('Escape');
    await typed('steps.trigger.event.body', 0);
    await page.keyboard.type('.');
    await offered.filter({ hasText: 'customer' }).waitFor();
    await page.keyboard.type('va');
    await offered.filter({ hasText: 'vat-id' }).click();
    await page.getByText('steps.trigger.event.body["vat-id"]').first().waitFor();
    await typed('steps.order');
    await page.keyboard.type('.');
    await offered.filter({ hasText: 'total' }).waitFor();
    await page.keyboard.press('Escape');
    await typed('$');
    await page.keyboard.type('.');
    await offered.filter({ hasText: 'respond' }).waitFor();
    await page.keyboard.type('flow.');
    await offered.filter({ hasText: 'suspend' }).waitFor();
    await page.keyboard.press('Escape');
    await typed(
      "export default defineComponent({ props: { amount: { type: 'integer' } }, run() { return this } })",
      5,
    );
    await page.keyboard.type('.');
    await offered.filter({ hasText: 'amount' }).waitFor();
    await page.keyboard.press('Escape');
    await typed("export default defineComponent({ props: { amount: { type: '' } } })", 8);
    await page.keyboard.press('Control+Space');
    await offered.filter({ hasText: 'data_store' }).waitFor();
    await page.keyboard.press('Escape');
    await typed('$.export');
    await page
      .locator('.cm-line')
      .first()
      .hover({ position: { x: 35, y: 8 } });
    await page.locator('.cm-tooltip-hover', { hasText: 'Keeps a value for later steps' }).waitFor();
    // Tab indents; Escape and Tab leave, both ways.
    await page.getByRole('textbox', { name: /Escape, then Tab, leaves the editor/ }).waitFor();
    await page.keyboard.press('Tab');
    await page.locator('.cm-content:focus').waitFor();
    await page.keyboard.press('Escape');
    await page.keyboard.press('Tab');
    await page.locator('button:focus', { hasText: 'Check the code' }).waitFor();
    await page.keyboard.press('Shift+Tab');
    await page.keyboard.press('Escape');
    await page.keyboard.press('Shift+Tab');
    await page.locator('input:focus').waitFor();
    dashboard.nothingWrong();
  });

  test('from a failed run to the step at fault, which is fixed and tried with what that run had', async () => {
    const workflow = await service.createWorkflow({
      settings: { name: 'fails' },
      triggers: [http],
      steps: [
        { namespace: 'read', code: cell('return { sum: steps.trigger.event.body.sum };') },
        { namespace: 'pay', code: cell("throw new Error('cannot pay ' + steps.read.$return_value.sum);") },
      ],
    });
    await send(workflow.triggers[0].endpoint_url, { sum: 12 });
    const failed = await service.runInState(workflow.id, 'failed');
    await send(workflow.triggers[0].endpoint_url, { sum: 13 });
    const page = await dashboard.signedIn(`/runs/${failed.id}`);
    await page.getByRole('link', { name: 'Edit this step, and try it' }).click();
    await page.getByRole('button', { name: 'Run this step' }).click();
    const result = page.getByRole('region', { name: 'Result of the test' });
    await result.getByText('Error: cannot pay 12').waitFor();
    await result.locator('.excerpt-line.here', { hasText: 'throw new Error' }).waitFor();
    await dashboard.screenshot(page, 'test-failed');
    await pasteCode(
      page,
      /^Code of the step pay/,
      cell("await $.respond({ status: 202 });\n    return 'paid ' + steps.read.$return_value.sum;"),
    );
    await page.getByRole('button', { name: 'Run this step' }).click();
    await result.getByText('"paid 12"').waitFor();
    await result.getByText('202').waitFor();
    await page.getByLabel('With what came before it').selectOption('json');
    const given = page.getByLabel('What the step finds in steps, as JSON');
    assert.deepEqual(JSON.parse(await given.inputValue()).read, { $return_value: { sum: 12 } });
    await given.fill('{ "read": { "$return_value": { "sum": 99 } }');
    await page.getByRole('button', { name: 'Run this step' }).click();
    await page.getByText('What is given is not JSON').waitFor();
    await given.fill('{ "read": { "$return_value": { "sum": 99 } } }');
    await page.getByRole('button', { name: 'Run this step' }).click();
    await result.getByText('"paid 99"').waitFor();
    // Reloaded, with the question of the browser that a changed page asks.
    page.removeAllListeners('dialog');
    let asked = '';
    page.once('dialog', (dialog) => {
      asked = dialog.type();
      void dialog.accept();
    });
    await page.reload();
    await page.getByText('They are restored here').waitFor();
    assert.equal(asked, 'beforeunload');
    await page.getByText("return 'paid '").first().waitFor();
    await page.getByRole('button', { name: 'Discard the changes' }).click();
    await page.getByText('Nothing yet: it is as it was deployed.').waitFor();
    dashboard.nothingWrong();
  });

  test('components by search, expressions, triggers and settings; what does not fit is reported at its place', async () => {
    const source = await service.createSource({ name: 'the inbox', key: 'http-new-requests-payload-only' });
    await service.api('POST', '/v1/components', {
      component_code: `export default { key: 'our-payment', name: 'Pay somebody', version: '0.1.0', type: 'action',
        props: { amount: { type: 'integer', label: 'Amount' }, note: { type: 'string', optional: true } },
        run() { return this.amount; } };`,
    });
    const workflow = await service.createWorkflow({
      settings: { name: 'pays' },
      triggers: [http],
      steps: [
        { namespace: 'code', code: cell('return 3;') },
        { namespace: 'pay', component: 'our-payment', props: { amount: 3 } },
      ],
    });
    await service.api('PUT', '/v1/variables/PRICE', { value: '4' });
    const page = await dashboard.signedIn(`/workflows/${workflow.id}/edit`);
    await page.getByRole('button', { name: 'Edit step pay' }).click();
    await page.getByLabel('Amount').fill('');
    await page.getByRole('button', { name: 'Deploy' }).click();
    await page.locator('.field-problem', { hasText: 'amount' }).waitFor();
    dashboard.forgetComplaints();
    await page.getByRole('button', { name: 'Use an expression for Amount' }).click();
    await page.locator('option[value="{{process.env.PRICE}}"]').first().waitFor({ state: 'attached' });
    await page.getByLabel('Amount').fill('{{steps.code.$return_value * 2}}');
    await page.getByRole('button', { name: 'Timer' }).click();
    await page.getByLabel('Kind of schedule').selectOption('cron');
    await page.getByPlaceholder('0 9 * * 1-5').fill('0 25 * * *');
    await page.getByRole('button', { name: 'Source', exact: true }).click();
    await page.getByLabel('Source', { exact: true }).selectOption(source.id);
    await page.getByText('Run settings').click();
    await page.getByLabel('Runs at the same time').fill('2');
    await page.getByRole('button', { name: 'Move step pay up' }).click();
    await page
      .getByText(/moved from place \d to \d/)
      .first()
      .waitFor();
    await page.getByRole('button', { name: 'Move step pay down' }).click();
    await page.getByRole('button', { name: 'Deploy' }).click();
    await page.getByText('This trigger does not fit.').waitFor();
    await dashboard.screenshot(page, 'edit-trigger-problem');
    dashboard.forgetComplaints();
    await page.getByPlaceholder('0 9 * * 1-5').fill('0 5 * * *');
    await page.getByText('This trigger does not fit.').waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Add a component' }).click();
    await page.getByLabel('Search for an action').fill('qqzz');
    await page.getByText('Nothing in the registry fits.').waitFor();
    await page.getByLabel('Search for an action').fill('our-payment');
    await dashboard.screenshot(page, 'edit-picker');
    await page.getByRole('button', { name: 'Look for a saved component' }).click();
    // Until it is built, the form that is open is that of another step.
    await page.getByRole('button', { name: 'Remove step our_payment' }).waitFor();
    await page.getByLabel('Name of the step').fill('pay_again');
    await page.getByLabel('Amount').fill('5');
    await page.getByRole('button', { name: 'Source', exact: true }).click();
    await page.getByRole('button', { name: 'Make one from a component' }).last().click();
    await page.getByLabel('Search for a component of a source').fill('custom interval');
    await page.getByRole('button', { name: /schedule-custom-interval/ }).click();
    await page.getByText('which comes and goes').waitFor();
    await page.getByRole('button', { name: 'Remove step pay_again' }).click();
    await page.getByRole('button', { name: 'Put it back' }).click();
    await page.getByRole('button', { name: 'Deploy' }).click();
    await page.getByText('Deployed. New runs have it').waitFor();
    const { data } = (await service.api('GET', `/v1/workflows/${workflow.id}`)).body;
    assert.deepEqual(
      data.triggers.map((one: { type: string; id: string }) => one.type),
      ['http', 'timer', 'source', 'source'],
    );
    assert.equal(data.triggers[0].endpoint_url, workflow.triggers[0].endpoint_url);
    assert.equal(data.triggers[2].id, source.id);
    assert.equal(data.settings.concurrency, 2);
    await send(workflow.triggers[0].endpoint_url, {});
    const run = await service.runInState(workflow.id, 'succeeded');
    assert.deepEqual(
      run.steps.map((step: { exports: { $return_value: unknown } }) => step.exports.$return_value),
      [3, 6, 5],
    );
    dashboard.nothingWrong();
  });

  test('an editor sees when another version was deployed meanwhile', async () => {
    const workflow = await service.createWorkflow({
      settings: { name: 'contested' },
      steps: [{ namespace: 'code', code: cell('return 1;') }],
    });
    const page = await dashboard.signedIn(`/workflows/${workflow.id}/edit`);
    await write(page, 'code', cell('return "mine";'));
    const theirs = { steps: [{ namespace: 'code', code: cell('return "theirs";') }] };
    assert.equal((await service.api('POST', `/v1/workflows/${workflow.id}/deployments`, theirs)).status, 200);
    await page.getByRole('button', { name: 'Deploy' }).click();
    const told = page.getByRole('alert', { name: 'Another version was deployed in the meantime' });
    await told.getByText('return "theirs";').waitFor();
    await dashboard.screenshot(page, 'edit-conflict');
    dashboard.forgetComplaints();
    const now = (await service.api('GET', `/v1/workflows/${workflow.id}`)).body.data;
    assert.match(now.steps[0].code_raw, /theirs/, 'theirs was not overwritten');
    await told.getByRole('button', { name: 'Keep my changes' }).click();
    await page.getByRole('button', { name: 'Deploy' }).click();
    await page.getByText('Deployed. New runs have it').waitFor();
    const after = (await service.api('GET', `/v1/workflows/${workflow.id}`)).body.data;
    assert.match(after.steps[0].code_raw, /mine/);
    dashboard.nothingWrong();
  });

  test('any two versions of a workflow are compared, step by step and line by line', async () => {
    const workflow = await service.createWorkflow({
      settings: { name: 'versions' },
      steps: [
        { namespace: 'one', code: cell('return 1;') },
        { namespace: 'two', code: cell('return 2;') },
      ],
    });
    const path = `/v1/workflows/${workflow.id}/deployments`;
    const [one, two] = [
      { namespace: 'one', code: cell('return "changed";') },
      { namespace: 'two', code: cell('return 2;') },
    ];
    for (const definition of [
      { steps: [one, two] },
      { steps: [two, one], settings: { memory_mb: 512 } },
      { steps: [two, { namespace: 'three', code: cell('return 3;') }] },
    ])
      assert.equal((await service.api('POST', path, definition)).status, 200);
    const page = await dashboard.signedIn(`/workflows/${workflow.id}?tab=deployments`);
    await page.getByText('Step one is gone.').waitFor();
    await page.getByText('Setting memory_mb: 256 became 512.').waitFor();
    await page.getByText('What changed since version 1').click();
    await page
      .getByRole('region', { name: 'Code of one, what changed' })
      .getByText('return "changed";')
      .waitFor();
    await page.getByLabel('Compare version').selectOption({ label: '1' });
    await page.getByLabel('with version').selectOption({ label: '3' });
    await page.getByRole('button', { name: 'Show the differences' }).click();
    const between = page.getByRole('region', { name: 'Compare two versions' });
    await between.getByText(/moved from place \d to \d/).waitFor();
    await between.getByText('return "changed";').waitFor();
    await between.getByText('memory_mb').waitFor();
    await dashboard.screenshot(page, 'versions-compared');
    dashboard.nothingWrong();
  });

  test('a source is written, and its code and props are changed while its events stay', async () => {
    const source = (summary: string) => `export default {
  name: 'Inbox', version: '0.0.1', type: 'source',
  props: {
    http: '$.interface.http',
    word: { type: 'string', label: 'Word', default: 'none' },
    token: { type: 'string', label: 'Token', secret: true },
  },
  hooks: { activate() { console.log('activated'); } },
  run(event) { this.$emit({ word: this.word, is: this.token.length }, { summary: '${summary}' }); },
};
`;
    const page = await dashboard.signedIn('/sources/new');
    await pasteCode(page, /^Code of the component/, source('first').replace('run(event)', 'run(event'));
    await page.getByRole('button', { name: 'Use this code' }).click();
    await page.getByText(/^Line 9, column \d+: Expected/).waitFor();
    dashboard.forgetComplaints();
    await pasteCode(page, /^Code of the component/, source('first'));
    await page.getByRole('button', { name: 'Use this code' }).click();
    await page.getByLabel('Token').fill('12345678');
    await page.getByRole('button', { name: 'Create source' }).click();
    const address = (await page.locator('.endpoint code.break').textContent()) ?? '';
    await send(address, {});
    await page.getByText('first', { exact: true }).waitFor();
    await page.getByRole('tab', { name: 'Code and props' }).click();
    await page.getByLabel('Word').fill('hello');
    await pasteCode(page, /^Code of the source/, source('second'));
    const changes = page.getByRole('region', { name: 'What happens when it is saved' });
    await changes
      .getByText('The events, endpoint URL, subscriptions and state of the source stay.')
      .waitFor();
    await changes.getByText("summary: 'second'").waitFor();
    await dashboard.screenshot(page, 'source-code');
    await page.getByRole('tab', { name: 'Events' }).click();
    await page.getByRole('tab', { name: 'Code and props' }).click();
    await changes.getByText("summary: 'second'").waitFor();
    await page.getByLabel('Word').fill('hello');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Saved.').waitFor();
    assert.equal(await page.getByRole('button', { name: 'Save' }).isEnabled(), false);
    await send(address, {});
    await page.getByRole('tab', { name: 'Events' }).click();
    await page.getByText('second', { exact: true }).waitFor();
    await page.getByText('first', { exact: true }).waitFor();
    const id = /sources\/(dc_\w+)/.exec(page.url())?.[1] ?? '';
    const [latest] = await service.events(id);
    assert.deepEqual(latest.event, { word: 'hello', is: 8 }, 'the secret stayed what it was');
    // A hook that throws is reported with its line, and nothing is changed.
    await page.getByRole('tab', { name: 'Code and props' }).click();
    await pasteCode(
      page,
      /^Code of the source/,
      source('third').replace("console.log('activated')", "throw new Error('no way')"),
    );
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('A hook failed, and nothing was changed.').waitFor();
    await page.getByText(/^Line 8, column \d+: .*no way/).waitFor();
    await dashboard.screenshot(page, 'source-hook-failed');
    dashboard.forgetComplaints();
    await page.getByRole('button', { name: 'Discard the changes' }).click();
    await page.getByText('third').waitFor({ state: 'detached' });
    dashboard.nothingWrong();
  });

  test('a viewer reads code and changes nothing; hostile text is text; a narrow dark screen has room for all', async () => {
    const { body: me } = await service.api('GET', '/v1/users/me');
    const workspace = me.data.orgs[0].id;
    const hostile = `// <img src=x onerror=alert(1)> \u202e \u001b[31m ${'w'.repeat(300)}\n`;
    const workflow = await service.createWorkflow({
      org_id: workspace,
      settings: { name: `<script>alert(1)</script>${'n'.repeat(150)}` },
      triggers: [http],
      steps: [{ namespace: 'a'.repeat(100), code: cell('return 1;') }],
    });
    await service.api('POST', `/v1/workflows/${workflow.id}/deployments`, {
      steps: [{ namespace: 'a'.repeat(100), code: hostile + cell('return 2;') }],
    });
    const source = await service.createSource({
      org_id: workspace,
      name: 'inbox',
      key: 'http-new-requests-payload-only',
    });
    const user = await service.createUser('vera');
    const members = `/v1/workspaces/${workspace}/members`;
    await service.api('POST', members, { user_id: user.id, role: 'viewer' });
    const narrow = { viewport: { width: 360, height: 860 }, colorScheme: 'dark' } as const;
    const fits = async (page: Page, what: string) => {
      const tooWide = await page.evaluate('document.documentElement.scrollWidth - window.innerWidth');
      assert.ok(Number(tooWide) <= 0, `${what} is ${tooWide} px too wide`);
    };
    const viewer = await dashboard.signedIn(`/workflows/${workflow.id}?tab=steps`, narrow, user.key);
    await viewer.getByText('Code', { exact: true }).click();
    const readOnly = viewer.getByRole('textbox', { name: /^Code of the step/ });
    await readOnly.getByText('<img src=x onerror=alert(1)>').waitFor();
    assert.equal(await readOnly.getAttribute('aria-readonly'), 'true');
    await readOnly.click();
    await viewer.keyboard.type('changed');
    assert.equal(await readOnly.getByText('changed').count(), 0);
    assert.equal(await viewer.getByRole('link', { name: 'Edit' }).count(), 0);
    await dashboard.screenshot(viewer, 'viewer-code');
    await fits(viewer, 'code of a viewer');
    await viewer.goto(`${service.url}/workflows/${workflow.id}?tab=deployments`);
    await viewer.getByText('What changed since version 1').click();
    await viewer.getByText('<img src=x onerror=alert(1)> ⟨U+202E⟩ \\x1b[31m', { exact: false }).waitFor();
    await fits(viewer, 'differences');
    await dashboard.screenshot(viewer, 'viewer-differences');
    await viewer.goto(`${service.url}/workflows/${workflow.id}/edit`);
    await viewer.getByText('You can look at this workflow, and not change it').waitFor();
    assert.equal(await viewer.getByRole('textbox').count(), 0);
    await viewer.goto(`${service.url}/sources/${source.id}?tab=code`);
    await viewer.getByRole('textbox', { name: 'Code of the source' }).waitFor();
    assert.equal(await viewer.getByRole('button', { name: /Save|Check/ }).count(), 0);
    const page = await dashboard.signedIn(`/workflows/${workflow.id}/edit`, narrow);
    await page.getByRole('textbox', { name: /^Code of the step/ }).waitFor();
    await page.getByText('Test this step').click();
    await page.getByText('Run settings').click();
    await fits(page, 'editor');
    await dashboard.screenshot(page, 'narrow-editor');
    await page.goto(`${service.url}/workflows/new`);
    await page.getByRole('button', { name: /^A timer/ }).waitFor();
    await fits(page, 'new workflow');
    await dashboard.screenshot(page, 'narrow-new');
    await page.goto(`${service.url}/sources/${source.id}?tab=code`);
    await page.getByRole('button', { name: 'Check the code' }).waitFor();
    await fits(page, 'code of a source');
    await dashboard.screenshot(page, 'narrow-source');
    assert.equal(await page.locator('main img, main script').count(), 0);
    dashboard.nothingWrong();
  });
});
