import type { Step } from '../../step.ts';
import { keyOf, keyProp, type RecordAction, storeProp, ttlOf, ttlProp } from '../records.ts';

export default {
  key: 'data_stores-update-ttl',
  name: 'Set when a record expires',
  version: '0.0.1',
  description:
    'Sets how long a record stays from now on. Example: key `session-7`, time to live 3600, so that the record expires in an hour',
  type: 'action',
  props: {
    dataStore: storeProp,
    key: keyProp,
    ttlOption: {
      type: 'string',
      label: 'When it expires',
      description: 'A common duration, or `custom` for the seconds below',
      options: [
        { label: 'After the seconds below', value: 'custom' },
        { label: 'Never', value: '0' },
        { label: 'After an hour', value: '3600' },
        { label: 'After a day', value: '86400' },
        { label: 'After a week', value: '604800' },
      ],
      default: 'custom',
      optional: true,
    },
    ttl: {
      ...ttlProp,
      description:
        'How many seconds the record is kept, such as 600. With 0, or without a value, it no longer expires',
    },
  },
  async run(this: RecordAction & { ttlOption?: string }, { $ }: { $: Step }) {
    const key = keyOf(this.key);
    const { ttlOption = 'custom' } = this;
    const { ttl = null } = ttlOf(ttlOption === 'custom' ? this.ttl : ttlOption);
    const found = await this.dataStore.has(key);
    if (found) await this.dataStore.setTtl(key, ttl);
    const outcome = ttl === null ? 'does not expire' : `expires in ${ttl} seconds`;
    $.export('$summary', found ? `${key} ${outcome}` : `There is no record ${key}`);
    return { key, ttl, updated: found };
  },
};
