import type { Step } from '../../step.ts';
import { count, type RecordAction, storeProp } from '../records.ts';

export default {
  key: 'data_stores-list-keys',
  name: 'Get all keys',
  version: '0.0.1',
  description:
    'Returns the keys of all records of a data store, in their order. Example: `["name", "orders"]`',
  type: 'action',
  props: { dataStore: storeProp },
  async run(this: Pick<RecordAction, 'dataStore'>, { $ }: { $: Step }) {
    const keys = await this.dataStore.keys();
    $.export('$summary', `Found ${count(keys.length, 'key')}`);
    return keys;
  },
};
