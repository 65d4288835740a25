import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { chromiumSkip } from '../support/chromium.ts';
import { useDashboard } from '../support/dashboard-browser.ts';
import type { ServiceClient } from '../support/service-client.ts';

const http = { type: 'http' };

/** A code step that returns the value of an expression over `steps`. */
const returns = (namespace: string, expression: string) => ({
  namespace,
  code: `export default defineComponent({ run({ steps }) { return ${expression}; } });`,
});

const isBig = { value: '{{steps.trigger.event.body.amount}}', condition: 'GREATER_THAN', second_value: 100 };

/** A map in a branch, and what runs after an error. */
const nested = [
  {
    namespace: 'size',
    block: 'if',
    on_error: 'branch',
    branches: [
      {
        slug: 'big',
        if: isBig,
        steps: [
          {
            namespace: 'each',
            block: 'map',
            items: '{{steps.trigger.event.body.lines}}',
            on_error: 'continue',
            steps: [
              {
                namespace: 'check',
                code: `export default defineComponent({ run({ steps }) {
                  if (steps.each.item === 'bad') throw new Error('no such article');
                  return steps.each.item + '!';
                } });`,
              },
            ],
          },
        ],
      },
      { slug: 'small', steps: [returns('thanks', `'thanks'`)] },
    ],
    error_steps: [returns('sorry', `'sorry'`)],
  },
  returns('after', 'steps.size.$return_value'),
];

describe('blocks in the browser', { skip: chromiumSkip() }, () => {
  const dashboard = useDashboard();
  let service: ServiceClient;

  before(async () => {
    service = dashboard.service;
  });

  /** The names of the steps of a workflow, those in blocks in braces, as the API answers them. */
  async function shapeOf(id: string): Promise<string> {
    const { data } = (await service.api('GET', `/v1/workflows/${id}`)).body;
    type View = { namespace: string; block: Record<string, unknown> | null };
    const steps = data.steps as View[];
    const inside = new Set<string>();
    const shape = (name: string): string => {
      const { block } = steps.find(({ namespace }) => namespace === name) ?? { block: null };
      const list = (names: unknown) => {
        for (const one of names as string[]) inside.add(one);
        return `(${(names as string[]).map(shape).join(' ')})`;
      };
      const branches = ((block?.branches ?? []) as { slug: string; steps: string[] }[]).map(
        ({ slug, steps: names }) => `${slug}${list(names)}`,
      );
      const parts = [
        ...branches,
        ...(block?.steps === undefined ? [] : [`each${list(block.steps)}`]),
        ...(block?.error_steps === undefined ? [] : [`error${list(block.error_steps)}`]),
      ];
      return parts.length === 0 ? name : `${name}{${parts.join(' ')}}`;
    };
    const shapes = steps.map(({ namespace }) => [namespace, shape(namespace)] as const);
    return shapes
      .filter(([namespace]) => !inside.has(namespace))
      .map(([, text]) => text)
      .join(' ');
  }

  const step = (page: Page, name: string) => page.getByRole('region', { name: `Step ${name}`, exact: true });

  test('a map whose items wait is waiting, on the list of runs and of workflows too, and not done or at work', async () => {
    const workflow = await service.createWorkflow({
      settings: { name: 'reminds each' },
      triggers: [http],
      steps: [
        {
          namespace: 'each',
          block: 'map',
          items: '{{steps.trigger.event.body.seconds}}',
          steps: [{ namespace: 'pause', block: 'delay', seconds: '{{steps.each.item}}' }],
        },
      ],
    });
    await send(workflow, { seconds: [3600, 7200] });
    const { id } = await service.runInState(workflow.id, 'waiting');
    const page = await dashboard.signedIn(`/runs/${id}`);
    const head = page.locator('.run-step-head').filter({ hasText: 'each' }).first();
    await head.getByText('Waiting', { exact: true }).waitFor();
    assert.equal(await head.locator('.waits').count(), 1);
    await dashboard.screenshot(page, 'blocks-map-waits');
    await page.goto(`${service.url}/workflows`);
    const row = page.getByRole('link', { name: /reminds each/ });
    await row.getByText('1 run waits in branches: each for a time').waitFor();
    await page.goto(`${service.url}/workflows/${workflow.id}`);
    await page.locator('.run-bar .waits').waitFor();
    dashboard.nothingWrong();
  });

  test('a workflow with blocks is changed and deployed, and its steps stay in their blocks', async () => {
    const workflow = await service.createWorkflow({
      settings: { name: 'sorts orders' },
      triggers: [http],
      steps: nested,
    });
    const was = 'size{big(each{each(check)}) small(thanks) error(sorry)} after';
    assert.equal(await shapeOf(workflow.id), was);
    const page = await dashboard.signedIn(`/workflows/${workflow.id}/edit`);
    await page.getByRole('button', { name: 'Edit step check' }).click();
    await step(page, 'check').getByLabel('Name of the step').fill('checked');
    await page.getByText('Retries and time limit').click();
    await page.getByLabel('Time limit, in seconds').fill('9');
    await dashboard.screenshot(page, 'blocks-edit-nested');
    await page.getByRole('button', { name: 'Deploy' }).click();
    await page.getByText('Deployed. New runs have it').waitFor();
    assert.equal(await shapeOf(workflow.id), was.replace('(check)', '(checked)'));
    const { data } = (await service.api('GET', `/v1/workflows/${workflow.id}`)).body;
    const named = (name: string) =>
      data.steps.find(({ namespace }: { namespace: string }) => namespace === name);
    assert.equal(named('checked').timeout_seconds, 9);
    assert.deepEqual(named('size').block.branches[0].if, isBig);
    dashboard.nothingWrong();
  });

  function send(workflow: { triggers: { endpoint_url: string }[] }, body: unknown): Promise<Response> {
    return fetch(workflow.triggers[0]?.endpoint_url ?? '', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
  }

  const looks = [
    ['light', { viewport: { width: 1280, height: 860 }, colorScheme: 'light' }],
    ['narrow-dark', { viewport: { width: 390, height: 860 }, colorScheme: 'dark' }],
  ] as const;

  async function fits(page: Page): Promise<void> {
    const tooWide = await page.evaluate('document.documentElement.scrollWidth - window.innerWidth');
    assert.ok(Number(tooWide) <= 0, `${page.url()} is ${tooWide} px too wide`);
  }

  test('blocks are added, filled in, nested, moved and deployed, and what is refused is shown at its place', async () => {
    const called = await service.createWorkflow({
      settings: { name: 'tells the desk' },
      triggers: [http],
      steps: [returns('told', '1')],
    });
    const workflow = await service.createWorkflow({
      settings: { name: 'from nothing' },
      triggers: [http],
      steps: [returns('first', '1')],
    });
    const page = await dashboard.signedIn(`/workflows/${workflow.id}/edit`);
    // The button is at the lower edge of the window, so the choice opens below it.
    await page.setViewportSize({ width: 1280, height: 620 });
    await page.getByRole('button', { name: 'Add a block' }).click();
    const choice = page.getByRole('region', { name: 'Choose a block' });
    const cancel = await choice.getByRole('button', { name: 'Cancel' }).boundingBox();
    assert.ok(cancel !== null && cancel.y + cancel.height <= 620, 'all of the choice is in the window');
    await page.setViewportSize({ width: 1280, height: 860 });
    assert.deepEqual(await choice.locator('li strong').allTextContents(), [
      ...['If', 'Switch', 'Parallel', 'Map', 'Filter', 'Delay', 'End', 'Call a workflow'],
    ]);
    await dashboard.screenshot(page, 'blocks-choice');
    // The first choice has the focus, so the keyboard is enough.
    await page.keyboard.press('Enter');
    const block = step(page, 'if');
    await block.getByLabel('Name of the step').fill('size');
    const size = step(page, 'size');
    await size.getByLabel('Name of the branch').first().fill('big');
    await size.getByLabel('Value', { exact: true }).fill('{{steps.trigger.event.body.amount}}');
    await size.getByLabel('Condition', { exact: true }).selectOption({ label: 'Number: >' });
    await size.getByLabel('Second value').fill('100');
    await size.getByRole('button', { name: 'Add a branch' }).click();
    const third = size.getByRole('group', { name: 'Branch branch_3' });
    await third.getByLabel('Name of the branch').fill('paid');
    const paid = size.getByRole('group', { name: 'Branch paid' });
    await paid.getByRole('combobox', { name: 'Rule of branch paid' }).selectOption('expression');
    await paid.getByLabel('Expression').fill('{{steps.trigger.event.body.paid');
    await dashboard.screenshot(page, 'blocks-if');

    await size.getByRole('button', { name: 'Add a block to branch big of size' }).click();
    await choice.getByRole('button', { name: /^Map/ }).click();
    await step(page, 'map').getByLabel('Items', { exact: true }).fill('{{steps.trigger.event.body.lines}}');
    await page.getByRole('button', { name: 'Add a block to for each item of map' }).click();
    await choice.getByRole('button', { name: /^Call a workflow/ }).click();
    await page.getByRole('button', { name: 'Deploy' }).click();
    await page.getByText('Step size has a problem: it is shown there.').waitFor();
    await paid.getByText(/a text must be one expression/).waitFor();
    await dashboard.screenshot(page, 'blocks-refused');
    dashboard.forgetComplaints();
    await paid.getByLabel('Expression').fill('{{steps.trigger.event.body.paid}}');
    await page.getByRole('button', { name: 'Deploy' }).click();
    await page.getByText('Step call has a problem: it is shown there.').waitFor();
    const call = step(page, 'call');
    await call.locator('.field-problem').waitFor();
    dashboard.forgetComplaints();
    await call.getByLabel('Workflow').selectOption({ label: 'tells the desk' });

    await page.getByRole('button', { name: 'Edit step first' }).click();
    await page.getByLabel('Part of').selectOption({ label: 'size, branch paid' });
    await page.getByRole('button', { name: 'Deploy' }).click();
    await page.getByText('Deployed. New runs have it').waitFor();
    assert.equal(await shapeOf(workflow.id), 'size{big(map{each(call)}) paid(first) no()}');
    const { data } = (await service.api('GET', `/v1/workflows/${workflow.id}`)).body;
    const [size_, , call_] = data.steps;
    assert.equal(call_.block.workflow, called.id);
    assert.deepEqual(
      size_.block.branches.map((branch: { if?: unknown }) => branch.if),
      [isBig, { value: '{{steps.trigger.event.body.paid}}', condition: 'TRUE' }, undefined],
    );

    await page.getByRole('button', { name: 'Edit step size' }).click();
    await size.getByLabel('When a step in it fails').selectOption('branch');
    await size.getByRole('button', { name: 'Add a step of code to after an error of size' }).click();
    await page.getByRole('button', { name: 'Remove step map' }).click();
    await page.getByText('Step map was removed, with the steps in it.').waitFor();
    await page.getByRole('button', { name: 'Put it back' }).click();
    await page.getByRole('button', { name: 'Deploy' }).click();
    await page.getByText('Deployed. New runs have it').waitFor();
    assert.equal(await shapeOf(workflow.id), 'size{big(map{each(call)}) paid(first) no() error(code)}');
    await page.goto(`${service.url}/workflows/${workflow.id}?tab=deployments`);
    await page.getByText('Step size changed: on error.').waitFor();
    await page.getByText(/Step first changed: moved into size, branch paid\./).waitFor();
    await dashboard.screenshot(page, 'blocks-versions');
    dashboard.nothingWrong();
  });

  test('a run shows its branches, those it did not take, its items with the failed first, and errors that were handled', async () => {
    const workflow = await service.createWorkflow({
      settings: { name: 'sorts lines' },
      triggers: [http],
      steps: nested,
    });
    const lines = Array.from({ length: 25 }, (_, index) => (index === 23 ? 'bad' : `line ${index}`));
    await send(workflow, { amount: 200, lines });
    const run = await service.runInState(workflow.id, 'succeeded');
    for (const [name, screen] of looks) {
      const page = await dashboard.signedIn(`/runs/${run.id}`, screen);
      await page.getByText('Branch small').waitFor();
      await page.locator('.not-taken', { hasText: 'Branch small' }).getByText('Not taken').waitFor();
      await page.getByText('1 of 25 failed.').waitFor();
      const items = page.getByRole('list', { name: 'Items of each' });
      const shown = await items.locator('> li > details > summary').allTextContents();
      assert.equal(shown.length, 20);
      assert.match(shown[0] ?? '', /^Item 23Failed, handled.*bad/);
      await items.getByText('no such article').first().waitFor();
      await dashboard.screenshot(page, `blocks-run-${name}`);
      await fits(page);
      await page.getByRole('button', { name: 'Show 5 more of 25 items' }).click();
      await items.locator('> li > details > summary', { hasText: 'line 24' }).click();
      await items.getByText('Exports').last().click();
      await items.getByText('"line 24!"').waitFor();
      await page.goto(`${service.url}/workflows/${workflow.id}?tab=steps`);
      await page.getByText('Branch big').waitFor();
      await dashboard.screenshot(page, `blocks-graph-${name}`);
      await fits(page);
      await page.goto(`${service.url}/workflows/${workflow.id}/edit?step=check`);
      await step(page, 'check')
        .getByRole('textbox', { name: /^Code of the step/ })
        .waitFor();
      await dashboard.screenshot(page, `blocks-editor-${name}`);
      await fits(page);
      await page.getByRole('button', { name: 'Edit step size' }).click();
      await step(page, 'size').getByLabel('Second value').waitFor();
      await dashboard.screenshot(page, `blocks-form-${name}`);
      await fits(page);
    }
    dashboard.nothingWrong();
  });

  test('a run that waits in a branch says so, and a failed one is restarted from the step in the block', async () => {
    const workflow = await service.createWorkflow({
      settings: { name: 'waits in a branch' },
      triggers: [http],
      steps: [
        {
          namespace: 'both',
          block: 'parallel',
          branches: [
            { slug: 'slow', steps: [{ namespace: 'rest', block: 'delay', seconds: 3600 }] },
            { slug: 'quick', steps: [returns('quick', '1')] },
          ],
        },
      ],
    });
    await send(workflow, {});
    const waiting = await service.runInState(workflow.id, 'waiting');
    const page = await dashboard.signedIn(`/runs/${waiting.id}`);
    await page.getByText('It waits for branches').waitFor();
    await dashboard.screenshot(page, 'blocks-run-waiting');

    await service.api('POST', `/v1/workflows/${workflow.id}/deployments`, {
      steps: [
        {
          namespace: 'size',
          block: 'if',
          branches: [
            { slug: 'never', if: '{{false}}', steps: [returns('unseen', '1')] },
            {
              slug: 'always',
              steps: [
                returns('good', '1'),
                {
                  namespace: 'bad',
                  code: "export default defineComponent({ run() { throw new Error('no'); } });",
                },
                returns('later', '1'),
              ],
            },
          ],
        },
        returns('end', '1'),
      ],
    });
    await send(workflow, {});
    const failed = await service.runInState(workflow.id, 'failed');
    await page.goto(`${service.url}/runs/${failed.id}`);
    await page.getByRole('button', { name: 'Restart' }).click();
    const dialog = page.getByRole('alertdialog');
    assert.equal(await dialog.getByLabel('From step').inputValue(), 'bad');
    assert.deepEqual(await dialog.getByRole('option').allTextContents(), ['size', 'good', 'bad']);
    dashboard.nothingWrong();
  });

  test('a template shows what is in its blocks, and asks for the values of steps in them', async () => {
    const greets = `export default { props: { word: { type: 'string', label: 'Word' }, pin: { type: 'string', label: 'PIN', secret: true } },
      run() { return this.word; } };`;
    const workflow = await service.createWorkflow({
      settings: { name: 'greets some' },
      triggers: [http],
      steps: [
        {
          namespace: 'size',
          block: 'if',
          branches: [
            {
              slug: 'big',
              if: isBig,
              steps: [{ namespace: 'greet', code: greets, props: { word: 'hi', pin: 'open sesame' } }],
            },
          ],
        },
      ],
    });
    const page = await dashboard.signedIn(`/workflows/${workflow.id}?tab=settings`);
    await page.getByLabel('Name of the template').fill('Greets some');
    await page.getByRole('button', { name: 'Make a template' }).click();
    await page.getByRole('heading', { name: 'Greets some', level: 1 }).waitFor();
    await step(page, 'size').getByText('if {{steps.trigger.event.body.amount}} > 100').waitFor();
    await step(page, 'greet').waitFor();
    await dashboard.screenshot(page, 'blocks-template');
    await page.getByRole('link', { name: 'Use this template' }).click();
    await page.getByRole('region', { name: 'Step greet' }).getByLabel('PIN').fill('another pin');
    await dashboard.screenshot(page, 'blocks-template-use');
    await page.getByRole('button', { name: 'Create workflow' }).click();
    await page.waitForURL(/workflows\/p_/);
    const id = page.url().split('/').at(-1) ?? '';
    assert.equal(await shapeOf(id), 'size{big(greet)}');
    dashboard.nothingWrong();
  });

  test('a step in a map is tried with the item that failed, and blocks stay when the page is left', async () => {
    const workflow = await service.createWorkflow({
      settings: { name: 'tries an item' },
      triggers: [http],
      steps: [
        {
          namespace: 'each',
          block: 'map',
          items: '{{steps.trigger.event.body}}',
          steps: [
            returns('before', 'steps.each.item * 2'),
            {
              namespace: 'work',
              code: `export default defineComponent({ run({ steps }) {
                if (steps.each.item === 3) throw new Error('not three');
                return 1;
              } });`,
            },
          ],
        },
      ],
    });
    await send(workflow, [1, 2, 3]);
    const run = await service.runInState(workflow.id, 'failed');
    const page = await dashboard.signedIn(`/runs/${run.id}`);
    await page.getByRole('link', { name: /Edit this step/ }).click();
    const work = step(page, 'work');
    await work.getByLabel('With what came before it').selectOption('json');
    const given = JSON.parse(await work.getByLabel('What the step finds in steps, as JSON').inputValue());
    assert.deepEqual(given.each, { item: 3, index: 2 });
    assert.deepEqual(given.before, { $return_value: 6 });
    await work.getByRole('button', { name: 'Run this step' }).click();
    await work.getByText('Error: not three').first().waitFor();

    await work.getByLabel('Name of the step').fill('worked');
    await page.getByRole('link', { name: 'Back to the workflow' }).click();
    await page.getByRole('link', { name: 'Continue editing' }).click();
    await page.getByText('They are restored here').waitFor();
    await page.getByRole('button', { name: 'Deploy' }).click();
    await page.getByText('Deployed. New runs have it').waitFor();
    assert.equal(await shapeOf(workflow.id), 'each{each(before worked)}');
    dashboard.nothingWrong();
  });
});
