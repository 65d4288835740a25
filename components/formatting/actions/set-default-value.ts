import type { ActionRun } from '../../action.ts';

export default {
  key: 'formatting-set-default-value',
  name: '[Text] Set Default Value',
  version: '0.0.1',
  description:
    'Returns a value, or another one when it is missing or empty. Example: no name and the default `"friend"` give `"friend"`',
  type: 'action',
  props: {
    input: {
      type: 'any',
      label: 'Input',
      description: 'Value that may be missing or empty: `{{steps.trigger.event.body.name}}`',
      optional: true,
    },
    defaultValue: { type: 'any', label: 'Default value', description: 'Value to return instead' },
  },
  async run(this: { input?: unknown; defaultValue: unknown }, { $ }: ActionRun) {
    const { input, defaultValue } = this;
    const isMissing =
      input === undefined ||
      input === null ||
      (typeof input === 'string' && /^\s*(?:undefined|null)?\s*$/.test(input));
    $.export('$summary', isMissing ? 'Used the default value' : 'Kept the value');
    return isMissing ? defaultValue : input;
  },
};
