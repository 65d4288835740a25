import type { Step } from '../../step.ts';
import { createProps, createRecord, keyOf, keyProp, type RecordAction, storeProp } from '../records.ts';

export default {
  key: 'data_stores-get-record-or-create',
  name: 'Get a record, or create it',
  version: '0.0.1',
  description:
    'Returns the value of a record. If there is none, it returns nothing, or creates the record. Example: key `counter`, created with the value 0',
  type: 'action',
  props: { dataStore: storeProp, key: keyProp, ...createProps },
  async run(this: RecordAction, { $ }: { $: Step }) {
    const key = keyOf(this.key);
    if (await this.dataStore.has(key)) {
      $.export('$summary', `Found ${key}`);
      return this.dataStore.get(key);
    }
    if (this.addRecordIfNotFound !== 'Yes') {
      $.export('$summary', `There is no record ${key}`);
      return undefined;
    }
    const value = await createRecord(this);
    $.export('$summary', `Created ${key}`);
    return value;
  },
};
