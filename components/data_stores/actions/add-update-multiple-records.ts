import { ConfigurationError, shown } from '../../configuration-error.ts';
import type { Step } from '../../step.ts';
import { count, keyOf, type RecordAction, storedValue, storeProp, ttlOf, ttlProp } from '../records.ts';

export default {
  key: 'data_stores-add-update-multiple-records',
  name: 'Set several records',
  version: '0.0.1',
  description:
    'Stores each property of an object as a record of its own. Example: `{"name": "Ada", "orders": 3}` stores the keys `name` and `orders`',
  type: 'action',
  props: {
    dataStore: storeProp,
    data: { type: 'object', label: 'Data', description: 'Keys and values, such as `{"name": "Ada"}`' },
    ttl: ttlProp,
  },
  async run(this: Pick<RecordAction, 'dataStore' | 'ttl'> & { data: unknown }, { $ }: { $: Step }) {
    const { data, dataStore } = this;
    if (typeof data !== 'object' || data === null || Array.isArray(data))
      throw new ConfigurationError(`data: found ${shown(data)}, expected an object of keys and values`);
    const options = ttlOf(this.ttl);
    const records = Object.entries(data).map(([key, value]) => [keyOf(key), storedValue(value)] as const);
    // All of them are checked before the first is stored.
    await Promise.all(records.map(([key, value]) => dataStore.set(key, value, options)));
    $.export('$summary', `Stored ${count(records.length)}`);
    return Object.fromEntries(records);
  },
};
