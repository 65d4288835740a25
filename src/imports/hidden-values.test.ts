import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hiddenValues, type ReadingStep } from './hidden-values.ts';

const step = (name: string, fields: Partial<ReadingStep> = {}): ReadingStep => ({
  ...{ name, disabled: false, variables: [], text: '' },
  ...fields,
});
const host = step('host', { variables: ['API_HOST', 'CURRENCY'] });
const found = (...steps: ReadingStep[]) =>
  hiddenValues(steps, (variable) => variable === 'API_HOST').map((finding) => [
    ...[finding.level, finding.step, finding.command],
  ]);

test('a step whose secret variable may reach a later step is to check', () => {
  for (const text of [
    '{{steps.host.url}}',
    'run({ steps }) { steps["host"] }',
    'steps?.host',
    "steps?.['host']",
  ])
    assert.deepEqual(
      found(host, step('call', { text })),
      [['check', 'host', 'millrace env set API_HOST --plain']],
      text,
    );
  assert.match(
    hiddenValues([host, step('call', { text: 'steps.host' })], () => true)[0]?.message ?? '',
    /in the place of API_HOST, CURRENCY/,
  );
});

test('what no later step reads, what is plain, and what does not run is not', () => {
  assert.deepEqual(found(step('call', { text: 'steps.host' }), host), [], 'it reads it earlier');
  assert.deepEqual(found(host, step('call', { text: 'steps.hosts; my.steps.host; steps.other' })), []);
  assert.deepEqual(found(step('plain', { variables: ['CURRENCY'] }), step('a', { text: 'steps.plain' })), []);
  assert.deepEqual(found(host, step('call', { text: 'steps.host', disabled: true })), []);
  assert.deepEqual(found({ ...host, disabled: true }, step('call', { text: 'steps.host' })), []);
});
