import type { Step } from '../../step.ts';
import { keyOf, keyProp, type RecordAction, storeProp } from '../records.ts';

export default {
  key: 'data_stores-delete-single-record',
  name: 'Delete a record',
  version: '0.0.1',
  description: 'Deletes the record with a key, and returns the value that it had. Example: key `customer-7`',
  type: 'action',
  props: { dataStore: storeProp, key: keyProp },
  async run(this: RecordAction, { $ }: { $: Step }) {
    const key = keyOf(this.key);
    const found = await this.dataStore.get(key);
    await this.dataStore.delete(key);
    $.export('$summary', found === undefined ? `There is no record ${key}` : `Deleted ${key}`);
    return found;
  },
};
