import { ConfigurationError, shown } from '../../configuration-error.ts';
import type { Step } from '../../step.ts';
import { changed, keyOf, keyProp, type RecordAction, storeProp } from '../records.ts';

function numberOf(name: string, value: unknown): number {
  const number = typeof value === 'string' && value.trim() !== '' ? Number(value) : value;
  if (typeof number === 'number' && Number.isFinite(number)) return number;
  throw new ConfigurationError(`${name}: found ${shown(value)}, expected a number`);
}

export default {
  key: 'data_stores-increment-value',
  name: 'Increment a number',
  version: '0.0.1',
  description:
    'Adds an amount to a record that is a number, and returns the new number. A record that does not exist counts as 0, and a time to live ends. Of two runs at the same time none is lost. Example: key `visits`, amount 1',
  type: 'action',
  props: {
    dataStore: storeProp,
    key: keyProp,
    amount: {
      type: 'number',
      label: 'Amount',
      description: 'What is added, such as 1, or -1 to decrement',
      default: 1,
      optional: true,
    },
  },
  async run(this: RecordAction & { amount?: unknown }, { $ }: { $: Step }) {
    const key = keyOf(this.key);
    const sum = await changed(this.dataStore.increment(key, numberOf('amount', this.amount ?? 1)));
    $.export('$summary', `${key} is ${sum}`);
    return sum;
  },
};
