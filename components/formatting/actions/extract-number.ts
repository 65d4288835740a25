import type { ActionRun } from '../../action.ts';
import { type Extract, extract, extractProps } from '../extract.ts';

export default {
  key: 'formatting-extract-number',
  name: '[Text] Extract Number',
  version: '0.0.1',
  description:
    'Finds the first number in a text as it is written there, or all of them. Example: `"Total: 1,250.50 EUR"` gives `"1,250.50"`',
  type: 'action',
  props: extractProps('a number'),
  async run(this: Extract, step: ActionRun) {
    return extract(this, step, { noun: 'number', pattern: /(?<![\w.,])-?\d+(?:[.,]\d+)*|\d+(?:[.,]\d+)*/g });
  },
};
