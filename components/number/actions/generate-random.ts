import { randomInt } from 'node:crypto';
import { type ActionRun, badInput, numberOf } from '../../action.ts';

/** Bound of the generator of Node. */
const rangeMax = 2 ** 48 - 1;

export default {
  key: 'number-generate-random',
  name: 'Generate Random Number',
  version: '0.0.1',
  description: 'Returns a random integer of a range, both ends included. Example: 1 to 6 is a throw of a die',
  type: 'action',
  props: {
    min: { type: 'integer', label: 'Minimum', description: 'Smallest number', optional: true, default: 1 },
    max: { type: 'integer', label: 'Maximum', description: 'Largest number', optional: true, default: 100 },
  },
  async run(this: { min?: number; max?: number }, { $ }: ActionRun) {
    const min = numberOf('min', this.min ?? 1);
    const max = numberOf('max', this.max ?? 100);
    if (!Number.isSafeInteger(min)) throw badInput('min', this.min, 'an integer');
    if (!Number.isSafeInteger(max) || max < min || max - min >= rangeMax)
      throw badInput('max', this.max, `an integer from ${min}, less than 2^48 above it`);
    const result = min + randomInt(max - min + 1);
    $.export('$summary', `Generated the number ${result}`);
    return result;
  },
};
