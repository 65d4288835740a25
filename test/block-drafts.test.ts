import assert from 'node:assert/strict';
import { test } from 'node:test';
import { conditions } from '../components/filter/conditions.ts';
import {
  allSteps,
  changeStep,
  moveStep,
  newBlock,
  placesOf,
  stepAt,
  stepsBefore,
} from '../dashboard/src/editing/block-draft.ts';
import {
  compare,
  comparedDeployment,
  comparedDraft,
  sentencesOf,
} from '../dashboard/src/editing/definition-diff.ts';
import {
  conditionLabels,
  readValue,
  ruleDraft,
  ruleText,
  valueText,
} from '../dashboard/src/editing/rule-draft.ts';
import type { StepDraft } from '../dashboard/src/editing/step-draft.ts';
import { definitionOf, draftOf } from '../dashboard/src/editing/workflow-draft.ts';

/** A step as the API answers it. */
function viewed(namespace: string, block: object | null = null, more: object = {}) {
  return {
    id: `c_${namespace}`,
    namespace,
    disabled: false,
    code_raw: block === null ? `// ${namespace}` : null,
    component_key: block === null ? null : `control_flow-${(block as { block: string }).block}`,
    savedComponent: null,
    configured_props_json: '{}',
    block,
    timeout_seconds: null,
    retries: null,
    ...more,
  };
}

const rule = { value: '{{steps.trigger.event.n}}', condition: 'GREATER_THAN', second_value: 3 };

/** Every kind of block, in one another. */
const listed = [
  viewed('size', {
    block: 'if',
    on_error: 'branch',
    branches: [
      { slug: 'big', if: rule, steps: ['each', 'wait'] },
      { slug: 'odd', if: { value: '{{steps.trigger.event.odd}}', condition: 'TRUE' }, steps: [] },
      { slug: 'other', steps: ['way'] },
    ],
    error_steps: ['tell'],
  }),
  viewed('each', {
    block: 'map',
    items: '{{steps.trigger.event.list}}',
    concurrency: 4,
    on_error: 'fail',
    steps: ['only', 'work'],
  }),
  viewed('only', { block: 'filter', if: { any: [rule] }, otherwise: 'leave', reason: 'small' }),
  viewed('work', null, { retries: { times: 2, seconds: 5 }, timeout_seconds: 9 }),
  viewed('wait', { block: 'delay', seconds: 3 }, { note: 'for the bank' }),
  viewed('way', {
    block: 'switch',
    value: '{{steps.trigger.event.kind}}',
    on_error: 'fail',
    branches: [
      { slug: 'a', case: 'x', steps: ['both'] },
      { slug: 'b', steps: ['stop'] },
    ],
  }),
  viewed('both', {
    block: 'parallel',
    on_error: 'continue',
    branches: [
      { slug: 'l', steps: ['other'] },
      { slug: 'r', if: rule, steps: [] },
    ],
  }),
  viewed('other', { block: 'call', workflow: 'p_1', event: { a: 1 } }),
  viewed('stop', { block: 'end', reason: 'done' }),
  viewed('tell'),
  viewed('last'),
];

const workflow = { name: 'w', triggers: [], steps: listed, settings: null } as unknown as Parameters<
  typeof draftOf
>[0];

function stepNamed(steps: readonly StepDraft[], namespace: string): StepDraft {
  const step = allSteps(steps).find((one) => one.namespace === namespace);
  assert.ok(step, namespace);
  return step;
}

test('what an answer lists is deployed again as it was, each step in its block', () => {
  const { steps } = definitionOf(draftOf(workflow));
  const code = (namespace: string) => ({ namespace, code: `// ${namespace}`, props: {} });
  assert.deepEqual(steps, [
    {
      namespace: 'size',
      block: 'if',
      on_error: 'branch',
      branches: [
        {
          slug: 'big',
          if: rule,
          steps: [
            {
              namespace: 'each',
              block: 'map',
              items: '{{steps.trigger.event.list}}',
              concurrency: 4,
              on_error: 'fail',
              steps: [
                {
                  namespace: 'only',
                  block: 'filter',
                  if: { any: [rule] },
                  otherwise: 'leave',
                  reason: 'small',
                },
                { ...code('work'), retries: { times: 2, seconds: 5 }, timeout_seconds: 9 },
              ],
            },
            { namespace: 'wait', block: 'delay', seconds: 3, note: 'for the bank' },
          ],
        },
        { slug: 'odd', if: '{{steps.trigger.event.odd}}', steps: [] },
        {
          slug: 'other',
          steps: [
            {
              namespace: 'way',
              block: 'switch',
              value: '{{steps.trigger.event.kind}}',
              on_error: 'fail',
              branches: [
                {
                  slug: 'a',
                  case: 'x',
                  steps: [
                    {
                      namespace: 'both',
                      block: 'parallel',
                      on_error: 'continue',
                      branches: [
                        {
                          slug: 'l',
                          steps: [{ namespace: 'other', block: 'call', workflow: 'p_1', event: { a: 1 } }],
                        },
                        { slug: 'r', if: rule, steps: [] },
                      ],
                    },
                  ],
                },
                { slug: 'b', steps: [{ namespace: 'stop', block: 'end', reason: 'done' }] },
              ],
            },
          ],
        },
      ],
      error_steps: [code('tell')],
    },
    code('last'),
  ]);
});

test('an error is about the step at its place in the blocks', () => {
  const { steps } = draftOf(workflow);
  const at = (parameter: string) => {
    const found = stepAt(steps, parameter);
    return found && [found.step.namespace, found.field];
  };
  assert.deepEqual(at('steps[0].branches[0].steps[0].steps[1].props.x'), ['work', 'props.x']);
  assert.deepEqual(at('steps[0].branches[0].if.condition'), ['size', 'branches[0].if.condition']);
  assert.deepEqual(at('steps[0].error_steps[0].code'), ['tell', 'code']);
  assert.deepEqual(at('steps[0].branches[2].steps[0].branches[1].steps[0].reason'), ['stop', 'reason']);
  assert.deepEqual(at('steps[1]'), ['last', '']);
  assert.equal(at('steps[7].code'), undefined);
  assert.equal(at('triggers[0].props'), undefined);
});

test('a step sees those before it in its branch, before the blocks around it, and what the blocks decided', () => {
  const { steps } = draftOf(workflow);
  const seen = (namespace: string) =>
    stepsBefore(steps, stepNamed(steps, namespace).key)?.map(({ step, within }) =>
      within === undefined ? step.namespace : `${step.namespace}: ${within.kind} ${within.slug}`,
    );
  assert.deepEqual(seen('work'), ['size: branch big', 'each: each ', 'only']);
  assert.deepEqual(seen('wait'), ['size: branch big', 'each']);
  assert.deepEqual(seen('last'), ['size']);
});

test('a step is moved with all that is in it, and never into itself', () => {
  const { steps } = draftOf(workflow);
  const place = (name: string) => placesOf(steps).find((one) => one.name === name)?.list;
  const each = stepNamed(steps, 'each');
  const moved = moveStep(steps, each.key, undefined);
  assert.deepEqual(
    moved.map(({ namespace }) => namespace),
    ['size', 'last', 'each'],
  );
  assert.equal(allSteps(moved).length, listed.length);
  const inner = moveStep(steps, stepNamed(steps, 'last').key, place('both, branch r'));
  assert.deepEqual(
    stepsBefore(inner, stepNamed(inner, 'last').key)?.map(({ step }) => step.namespace),
    ['size', 'way', 'both'],
  );
  assert.deepEqual(moveStep(steps, each.key, place('each, for each item')), steps);
});

test('steps that run after an error are kept by the form while another choice is tried', () => {
  const draft = draftOf(workflow);
  const withChoice = (steps: readonly StepDraft[], onError: string) =>
    changeStep(steps, 'c_size', (step) => {
      assert.ok(step.block);
      return { ...step, block: { ...step.block, fields: { ...step.block.fields, on_error: onError } } };
    });
  const other = withChoice(draft.steps, 'continue');
  assert.ok(!('error_steps' in (definitionOf({ ...draft, steps: other }).steps[0] ?? {})));
  assert.deepEqual(definitionOf({ ...draft, steps: withChoice(other, 'branch') }), definitionOf(draft));
});

test('versions with blocks differ by branch, rule, field and place', () => {
  const draft = draftOf(workflow);
  const before = comparedDraft(draft);
  assert.deepEqual(
    sentencesOf(compare(comparedDeployment(workflow), { ...before, settings: {} })).filter(
      (one) => !one.startsWith('Setting'),
    ),
    [],
    'an answer and its draft are the same',
  );
  const changed = changeStep(draft.steps, 'c_size', (step) => {
    assert.ok(step.block);
    const parts = step.block.parts.map((part) => (part.slug === 'big' ? { ...part, if: '{{true}}' } : part));
    return { ...step, block: { ...step.block, parts } };
  });
  const moved = moveStep(
    changed,
    'c_last',
    placesOf(changed).find(({ name }) => name === 'each, for each item')?.list,
  );
  const told = sentencesOf(compare(before, comparedDraft({ ...draft, steps: moved })));
  assert.deepEqual(told, [
    'Step size changed: branch big.',
    'Step last changed: moved into each, for each item.',
  ]);
});

test('the form has every condition, by the label that the action has', () => {
  const labels = Object.fromEntries(Object.entries(conditions).map(([name, { label }]) => [name, label]));
  assert.deepEqual(conditionLabels, labels);
});

test('values are shown so that they are read as the same values', () => {
  for (const value of [
    'a',
    '1',
    1,
    true,
    'true',
    null,
    '',
    [1, 'x'],
    { a: 1 },
    '{{steps.a}}',
    ['{{steps.a}}'],
    '"',
  ])
    assert.deepEqual(readValue(valueText(value)), value, JSON.stringify(value));
  assert.equal(readValue(''), undefined);
  assert.equal(readValue('{{steps.a}} and more'), '{{steps.a}} and more');
});

test('rules are told in words', () => {
  assert.equal(ruleText(rule), '{{steps.trigger.event.n}} > 3');
  assert.equal(ruleText({ value: '{{x}}', condition: 'TRUE' }), '{{x}}');
  assert.equal(
    ruleText({ not: { any: [rule, { value: 'a', condition: 'IS_BLANK' }] } }),
    'not: any of: {{steps.trigger.event.n}} > 3; a is blank',
  );
  assert.deepEqual(ruleDraft({ all: [{ value: '{{x}}', condition: 'TRUE' }] }), { all: ['{{x}}'] });
});

test('a new block can be added as it is, where its kind needs nothing else', () => {
  assert.deepEqual(
    newBlock('if').parts.map(({ slug }) => slug),
    ['yes', 'no'],
  );
  assert.equal(newBlock('map').parts[0]?.kind, 'each');
});
