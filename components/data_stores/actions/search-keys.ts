import type { Step } from '../../step.ts';
import { count, type RecordAction, storeProp } from '../records.ts';

export default {
  key: 'data_stores-search-keys',
  name: 'Search keys',
  version: '0.0.1',
  description:
    'Returns the keys that contain a text, whatever their case. Example: `order-` finds `order-7` and `Order-8`',
  type: 'action',
  props: {
    dataStore: storeProp,
    query: { type: 'string', label: 'Text', description: 'What the keys contain, such as `order-`' },
  },
  async run(this: RecordAction & { query: unknown }, { $ }: { $: Step }) {
    const query = String(this.query ?? '').toLowerCase();
    const keys = (await this.dataStore.keys()).filter((key) => key.toLowerCase().includes(query));
    $.export('$summary', `Found ${count(keys.length, 'key')}`);
    return keys;
  },
};
