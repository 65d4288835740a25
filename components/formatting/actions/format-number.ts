import { type ActionRun, badInput } from '../../action.ts';
import { groupThousands, readDecimal } from '../numbers.ts';

export default {
  key: 'formatting-format-number',
  name: '[Numbers] Format Number',
  version: '0.0.1',
  description:
    'Writes a number with other marks for groups and decimals, without rounding. Example: `"1234567.8"` becomes `"1,234,567.8"`',
  type: 'action',
  props: {
    input: { type: 'string', label: 'Input', description: 'Number, also with marks for groups' },
    inputDecimalMark: {
      type: 'string',
      label: 'Input decimal mark',
      description: 'Mark before the decimals of the input',
      optional: true,
      default: '.',
      otherValues: true,
      options: [
        { label: 'Comma', value: ',' },
        { label: 'Period', value: '.' },
      ],
    },
    toFormat: {
      type: 'string',
      label: 'Output format',
      description: 'The mark between groups, then the mark before decimals',
      otherValues: true,
      options: [
        { label: '1,234,567.8', value: ',.' },
        { label: '1.234.567,8', value: '.,' },
        { label: '1 234 567.8', value: ' .' },
        { label: '1 234 567,8', value: ' ,' },
      ],
    },
  },
  async run(this: { input: string; inputDecimalMark?: string; toFormat: string }, { $ }: ActionRun) {
    const { sign, whole, fraction } = readDecimal('input', this.input, this.inputDecimalMark ?? '.');
    const [group, mark, ...rest] = String(this.toFormat);
    if (group === undefined || mark === undefined || rest.length > 0)
      throw badInput('toFormat', this.toFormat, 'two characters: the mark of groups and that of decimals');
    const result = sign + groupThousands(whole, group) + (fraction === '' ? '' : mark + fraction);
    $.export('$summary', `Formatted the number as ${result}`);
    return result;
  },
};
