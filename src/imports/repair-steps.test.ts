import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { CallerError } from '#lib/errors.ts';
import type { StepInput } from '#workflows/definitions/step-input.ts';
import { isPlaceholder, repairSteps } from './repair-steps.ts';

const code = 'export default { run() {} }';
const steps: StepInput[] = [
  { namespace: 'first', code },
  {
    ...{ namespace: 'choose', block: 'if' },
    branches: [
      {
        slug: 'yes',
        if: '{{(}}',
        steps: [{ namespace: 'a', component: 'ships', props: { gone: 1, kept: 2 } }],
      },
      {
        slug: 'no',
        steps: [{ namespace: 'each', block: 'map', items: '{{[]}}', steps: [{ namespace: 'b', code }] }],
      },
    ],
  },
  { namespace: 'last', code },
];
const repaired = (parameter: string, message: string) => {
  const result = repairSteps(
    steps,
    new CallerError('invalid_prop', `${parameter}: ${message}`, { parameter }),
  );
  assert.ok(result !== undefined);
  return result;
};

describe('what a deployment refuses', () => {
  test('in a block is replaced there, and the rest stays as it is', () => {
    const at = 'steps[1].branches[1].steps[0].steps[0]';
    const { steps: after, finding } = repaired(`${at}.code`, 'it does not compile');
    const placeholder = after[1]?.branches?.[1]?.steps?.[0]?.steps?.[0];
    assert.ok(isPlaceholder(placeholder?.code ?? ''));
    assert.deepEqual([finding.level, finding.step], ['by_hand', 'b']);
    assert.deepEqual(
      [after[0], after[1]?.branches?.[0], after[2]],
      [steps[0], steps[1]?.branches?.[0], steps[2]],
    );
    assert.equal(repairSteps(after, new CallerError('x', 'again', { parameter: `${at}.code` })), undefined);
  });

  test('as a prop of a step in a block is left out', () => {
    const { steps: after, finding } = repaired(
      'steps[1].branches[0].steps[0].props.gone',
      'the component has no such prop',
    );
    assert.deepEqual(after[1]?.branches?.[0]?.steps, [
      { namespace: 'a', component: 'ships', props: { kept: 2 } },
    ]);
    assert.deepEqual([finding.level, finding.step], ['check', 'a']);
  });

  test('as a block becomes a step that says so, with the steps of the block beside it, disabled', () => {
    const { steps: after, finding } = repaired(
      'steps[1].branches[0].if',
      'the expression is not valid JavaScript',
    );
    assert.deepEqual(
      after.map(({ namespace, block, disabled }) => [namespace, block, disabled]),
      [
        ['first', undefined, undefined],
        ['choose', undefined, undefined],
        ['a', undefined, true],
        ['each', 'map', true],
        ['last', undefined, undefined],
      ],
    );
    assert.ok(isPlaceholder(after[1]?.code ?? ''));
    assert.match(after[1]?.code ?? '', /"if": "\{\{\(\}\}"/);
    assert.deepEqual([finding.level, finding.step], ['by_hand', 'choose']);
  });

  test('that is no step cannot be repaired', () => {
    for (const parameter of ['triggers[0]', 'steps[9].code', 'steps'])
      assert.equal(repairSteps(steps, new CallerError('x', 'no', { parameter })), undefined);
  });
});
