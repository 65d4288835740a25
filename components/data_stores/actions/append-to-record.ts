import type { Step } from '../../step.ts';
import { changed, keyOf, keyProp, type RecordAction, storedValue, storeProp, valueProp } from '../records.ts';

export default {
  key: 'data_stores-append-to-record',
  name: 'Append to a record',
  version: '0.0.1',
  description:
    'Adds a value at the end of a record that is an array, or text after text. A record that does not exist becomes an array, and a time to live ends. Of two runs at the same time none is lost. Example: key `orders`, value `{"id": 7}`',
  type: 'action',
  props: { dataStore: storeProp, key: keyProp, value: valueProp },
  async run(this: RecordAction, { $ }: { $: Step }) {
    const key = keyOf(this.key);
    const value = storedValue(this.value);
    const appended = await changed(this.dataStore.append(key, value));
    $.export('$summary', `Appended to ${key}`);
    return appended;
  },
};
