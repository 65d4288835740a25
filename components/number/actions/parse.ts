import { type ActionRun, textOf } from '../../action.ts';
import { readDecimal } from '../../formatting/numbers.ts';

export default {
  key: 'number-parse',
  name: 'Parse Number',
  version: '0.0.1',
  description:
    'Turns the text of a number into a number, without currency signs and marks for groups. Example: `"€ 1.250,50"` with the decimal mark `,` becomes `1250.5`',
  type: 'action',
  props: {
    input: { type: 'string', label: 'Input', description: 'Text of a number; `50%` is 0.5' },
    decimalMark: {
      type: 'string',
      label: 'Decimal mark',
      description: 'Mark before the decimals',
      optional: true,
      default: '.',
      otherValues: true,
      options: [
        { label: 'Comma', value: ',' },
        { label: 'Period', value: '.' },
      ],
    },
  },
  async run(this: { input: string; decimalMark?: string }, { $ }: ActionRun) {
    const text = textOf('input', this.input);
    const digits = text.replace(/\p{Sc}|\b[A-Z]{3}\b|%/gu, '').trim();
    const { sign, whole, fraction } = readDecimal('input', digits, this.decimalMark ?? '.');
    const number = Number(`${sign}${whole}.${fraction || '0'}`);
    const result = text.includes('%') ? Number((number / 100).toPrecision(15)) : number;
    $.export('$summary', `Parsed the number ${result}`);
    return result;
  },
};
