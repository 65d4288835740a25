import { type ActionRun, badInput, textOf } from '../../action.ts';
import { caseChanges } from '../text-case.ts';

export default {
  key: 'formatting-transform-case',
  name: '[Text] Transform Case',
  version: '0.0.1',
  description:
    'Changes the case of a text, or makes an English noun plural. Example: `"order id"` with the operation `Camelcase` becomes `"orderId"`',
  type: 'action',
  props: {
    input: { type: 'string', label: 'Input', description: 'Text to change' },
    operation: {
      type: 'string',
      label: 'Operation',
      description: 'What to change it to',
      options: Object.entries(caseChanges).map(([value, { label }]) => ({ label, value })),
    },
  },
  async run(this: { input: string; operation: string }, { $ }: ActionRun) {
    const known = Object.hasOwn(caseChanges, this.operation) ? caseChanges[this.operation] : undefined;
    if (known === undefined)
      throw badInput('operation', this.operation, `one of ${Object.keys(caseChanges).join(', ')}`);
    const result = known.change(textOf('input', this.input));
    $.export('$summary', `Changed the text: ${this.operation}`);
    return result;
  },
};
