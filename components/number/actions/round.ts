import { type ActionRun, badInput, numberOf } from '../../action.ts';

const modes = {
  nearest: { label: 'To the nearest', intl: 'halfExpand' },
  even: { label: 'To the nearest, halves to the even digit', intl: 'halfEven' },
  up: { label: 'Up', intl: 'ceil' },
  down: { label: 'Down', intl: 'floor' },
} as const;

const decimalsMax = 15;

export default {
  key: 'number-round',
  name: 'Round Number',
  version: '0.0.1',
  description: 'Rounds a number to a count of decimals. Example: `2.345` to 2 decimals becomes `2.35`',
  type: 'action',
  props: {
    input: { type: 'any', label: 'Input', description: 'Number to round' },
    decimals: {
      type: 'integer',
      label: 'Decimals',
      description: 'How many digits to keep behind the decimal point',
      optional: true,
      default: 0,
      min: 0,
      max: decimalsMax,
    },
    mode: {
      type: 'string',
      label: 'Mode',
      description: 'Which way to round',
      optional: true,
      default: 'nearest',
      options: Object.entries(modes).map(([value, { label }]) => ({ label, value })),
    },
  },
  async run(this: { input: unknown; decimals?: number; mode?: string }, { $ }: ActionRun) {
    const { decimals = 0, mode = 'nearest' } = this;
    const known = Object.hasOwn(modes, mode) ? modes[mode as keyof typeof modes] : undefined;
    if (known === undefined) throw badInput('mode', mode, `one of ${Object.keys(modes).join(', ')}`);
    if (!Number.isInteger(decimals) || decimals < 0 || decimals > decimalsMax)
      throw badInput('decimals', decimals, `an integer from 0 to ${decimalsMax}`);
    // Rounds the decimal digits of the number, so that 1.005 becomes 1.01.
    const format = new Intl.NumberFormat('en-US', {
      useGrouping: false,
      maximumFractionDigits: decimals,
      roundingMode: known.intl,
    });
    const number = numberOf('input', this.input);
    const result = Number(format.format(String(number) as `${number}`)) + 0;
    $.export('$summary', `Rounded ${number} to ${result}`);
    return result;
  },
};
