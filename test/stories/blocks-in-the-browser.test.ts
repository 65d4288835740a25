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
});
