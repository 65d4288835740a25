import type { Step } from '../../step.ts';
import { type RecordAction, storeProp } from '../records.ts';

export default {
  key: 'data_stores-delete-all-records',
  name: 'Empty a data store',
  version: '0.0.1',
  description:
    'Deletes every record of a data store. The store itself stays. Example: empty a store of caches each night',
  type: 'action',
  props: { dataStore: storeProp },
  async run(this: Pick<RecordAction, 'dataStore'>, { $ }: { $: Step }) {
    await this.dataStore.clear();
    $.export('$summary', 'Deleted all records');
  },
};
