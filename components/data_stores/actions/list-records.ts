import { ConfigurationError, shown } from '../../configuration-error.ts';
import type { Step } from '../../step.ts';
import type { DataStore } from '../records.ts';
import { count, inForm, keyOf, type RecordAction, recordsOf, returnTypeProp, storeProp } from '../records.ts';

async function recordsOfKeys(store: DataStore, keys: unknown): Promise<Record<string, unknown>> {
  if (!Array.isArray(keys))
    throw new ConfigurationError(`keys: found ${shown(keys)}, expected an array of keys`);
  const records: [string, unknown][] = [];
  for (const key of keys.map((given, at) => keyOf(given, `keys[${at}]`))) {
    const value = await store.get(key);
    if (value !== undefined) records.push([key, value]);
  }
  return Object.fromEntries(records);
}

export default {
  key: 'data_stores-list-records',
  name: 'List records',
  version: '0.0.1',
  description:
    'Returns the records of some keys, or of all keys, as an object or as a list. Example: keys `["name", "orders"]` as `{"name": "Ada", "orders": 3}`',
  type: 'action',
  props: {
    dataStore: storeProp,
    keys: {
      type: 'string[]',
      label: 'Keys',
      description:
        'The keys of the records, such as `["name", "orders"]`. Without a value all records are listed',
      optional: true,
    },
    returnType: returnTypeProp,
  },
  async run(this: RecordAction & { keys?: unknown; returnType?: string }, { $ }: { $: Step }) {
    const { dataStore, keys } = this;
    const records =
      keys === undefined || (Array.isArray(keys) && keys.length === 0)
        ? await recordsOf(dataStore)
        : await recordsOfKeys(dataStore, keys);
    $.export('$summary', `Found ${count(Object.keys(records).length)}`);
    return inForm(records, this.returnType);
  },
};
