import { ConfigurationError, shown } from '../../configuration-error.ts';
import type { Step } from '../../step.ts';
import { keyOf, keyProp, type RecordAction, storedValue, storeProp, valueProp } from '../records.ts';

/** Throws a ConfigurationError for a record that nothing can be appended to. */
function append(key: string, found: unknown, value: unknown): unknown {
  if (found === undefined || found === null) return [value];
  if (Array.isArray(found)) return [...found, value];
  if (typeof found === 'string' && typeof value === 'string') return found + value;
  throw new ConfigurationError(`${key}: found ${shown(found)}, expected a record that is an array`);
}

export default {
  key: 'data_stores-append-to-record',
  name: 'Append to a record',
  version: '0.0.1',
  description:
    'Adds a value at the end of a record that is an array, or text after text. A record that does not exist becomes an array, and a time to live ends. Example: key `orders`, value `{"id": 7}`',
  type: 'action',
  props: { dataStore: storeProp, key: keyProp, value: valueProp },
  async run(this: RecordAction, { $ }: { $: Step }) {
    const key = keyOf(this.key);
    const value = storedValue(this.value);
    const found = await this.dataStore.get(key);
    const appended = append(key, found, value);
    await this.dataStore.set(key, appended);
    $.export('$summary', `Appended to ${key}`);
    return appended;
  },
};
