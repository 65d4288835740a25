import type { Step } from '../../step.ts';
import { count, type RecordAction, storeProp } from '../records.ts';

export default {
  key: 'data_stores-count-records',
  name: 'Count records',
  version: '0.0.1',
  description: 'Returns how many records a data store has. Example: 42',
  type: 'action',
  props: { dataStore: storeProp },
  async run(this: Pick<RecordAction, 'dataStore'>, { $ }: { $: Step }) {
    const { length } = await this.dataStore.keys();
    $.export('$summary', `The store has ${count(length)}`);
    return length;
  },
};
