import type { Step } from '../../step.ts';
import {
  createRecord,
  keyOf,
  keyProp,
  type RecordAction,
  storeProp,
  ttlOf,
  ttlProp,
  valueProp,
} from '../records.ts';

export default {
  key: 'data_stores-add-update-record',
  name: 'Set a record',
  version: '0.0.1',
  description:
    'Stores a value under a key, whether or not there is a record with this key. Example: key `last_order`, value `{{steps.trigger.event.body}}`',
  type: 'action',
  props: { dataStore: storeProp, key: keyProp, value: valueProp, ttl: ttlProp },
  async run(this: RecordAction, { $ }: { $: Step }) {
    const key = keyOf(this.key);
    const value = await createRecord(this);
    $.export('$summary', `Stored ${key}`);
    return { key, value, ttl: ttlOf(this.ttl).ttl ?? null };
  },
};
