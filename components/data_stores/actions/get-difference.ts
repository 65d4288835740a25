import type { Step } from '../../step.ts';
import { count, type DataStore, inForm, recordsOf, returnTypeProp, storeProp } from '../records.ts';

export default {
  key: 'data_stores-get-difference',
  name: 'Compare two data stores',
  version: '0.0.1',
  description:
    'Returns the records whose keys are in one of two data stores only. Example: customers of this month that were not there last month, and the other way round',
  type: 'action',
  props: {
    dataStoreA: { ...storeProp, label: 'First data store' },
    dataStoreB: { ...storeProp, label: 'Second data store' },
    returnType: returnTypeProp,
  },
  async run(this: { dataStoreA: DataStore; dataStoreB: DataStore; returnType?: string }, { $ }: { $: Step }) {
    const [first, second] = await Promise.all([recordsOf(this.dataStoreA), recordsOf(this.dataStoreB)]);
    const different = [
      ...Object.entries(first).filter(([key]) => !Object.hasOwn(second, key)),
      ...Object.entries(second).filter(([key]) => !Object.hasOwn(first, key)),
    ];
    $.export('$summary', `Found ${count(different.length)} in one of the stores only`);
    return inForm(Object.fromEntries(different), this.returnType);
  },
};
