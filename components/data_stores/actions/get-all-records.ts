import type { Step } from '../../step.ts';
import { count, type RecordAction, recordsOf, storeProp } from '../records.ts';

export default {
  key: 'data_stores-get-all-records',
  name: 'Get all records',
  version: '0.0.1',
  description:
    'Returns all records of a data store as one object of keys and values. Example: `{"name": "Ada", "orders": 3}`',
  type: 'action',
  props: { dataStore: storeProp },
  async run(this: Pick<RecordAction, 'dataStore'>, { $ }: { $: Step }) {
    const records = await recordsOf(this.dataStore);
    $.export('$summary', `Found ${count(Object.keys(records).length)}`);
    return records;
  },
};
