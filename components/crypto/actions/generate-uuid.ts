import { randomUUID, randomUUIDv7 } from 'node:crypto';
import { type ActionRun, badInput } from '../../action.ts';

export default {
  key: 'crypto-generate-uuid',
  name: 'Generate UUID',
  version: '0.0.1',
  description:
    'Returns a new UUID, random or in the order of time. Example: `0f8fad5b-d9cb-469f-a165-70867728950e`',
  type: 'action',
  props: {
    version: {
      type: 'string',
      label: 'Version',
      description: 'Kind of UUID',
      optional: true,
      default: '4',
      options: [
        { label: '4: random', value: '4' },
        { label: '7: later ones sort behind earlier ones', value: '7' },
      ],
    },
  },
  async run(this: { version?: string }, { $ }: ActionRun) {
    const version = String(this.version ?? '4');
    if (version !== '4' && version !== '7') throw badInput('version', version, '4 or 7');
    const result = version === '4' ? randomUUID() : randomUUIDv7();
    $.export('$summary', `Generated ${result}`);
    return result;
  },
};
