import assert from 'node:assert/strict';
import { test } from 'node:test';
import { outlineExport } from './outline-export.ts';

test('an outline has the structure of an export and nothing of its content', () => {
  const secret = 'ada@example.com';
  const key = `ghp_${'a'.repeat(36)}`;
  const outline = outlineExport(
    new Map([
      [
        'manifest.json',
        JSON.stringify({
          workflows: [
            { id: 'p_Ab3dEf', name: secret },
            { id: 'p_Gh6iJk', name: 'b' },
          ],
        }),
      ],
      [
        `${secret}/orders.json`,
        JSON.stringify({
          steps: [
            {
              code: `a\n${secret}`,
              n: 5,
              on: true,
              none: null,
              e: '{{event.a}}',
              [secret]: '',
              json: '{"a":1}',
              [key]: 1,
            },
          ],
        }),
      ],
      ['broken.json', `{"${secret}`],
      [`one/${secret}.js`, secret],
      ['one/workflow.yaml', 'name: Secret name\ntriggers:\n- id: hi_Ab3dEf\n'],
    ]),
  );
  assert.ok(!JSON.stringify(outline).includes('ada'));
  assert.deepEqual(outline, {
    'folder/file#1': {
      steps: [
        {
          ...{
            code: 'text of several lines',
            n: 'number',
            on: true,
            none: null,
            e: 'text with an expression',
          },
          ...{ key5: '', json: 'text of JSON', key7: 'number' },
        },
      ],
    },
    'file#2': 'cannot be parsed',
    'manifest.json#3': { workflows: [{ id: 'p_…', name: 'text' }] },
    'folder/workflow.yaml#4': { name: 'text', triggers: [{ id: 'hi_…' }] },
  });
});
