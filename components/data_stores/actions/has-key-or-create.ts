import type { Step } from '../../step.ts';
import { createProps, createRecord, keyOf, keyProp, type RecordAction, storeProp } from '../records.ts';

export default {
  key: 'data_stores-has-key-or-create',
  name: 'Check whether a key exists, or create it',
  version: '0.0.1',
  description:
    'Returns `existingKeyFound` and `newKeyCreated`. Example: key `seen-{{steps.trigger.event.id}}`, created with the value `true`, finds out whether an event is new',
  type: 'action',
  props: { dataStore: storeProp, key: keyProp, ...createProps },
  async run(this: RecordAction, { $ }: { $: Step }) {
    const key = keyOf(this.key);
    if (await this.dataStore.has(key)) {
      $.export('$summary', `Found ${key}`);
      return { existingKeyFound: true, newKeyCreated: false };
    }
    if (this.addRecordIfNotFound !== 'Yes') {
      $.export('$summary', `There is no record ${key}`);
      return { existingKeyFound: false, newKeyCreated: false };
    }
    const value = await createRecord(this);
    $.export('$summary', `Created ${key}`);
    return { existingKeyFound: false, newKeyCreated: true, value };
  },
};
