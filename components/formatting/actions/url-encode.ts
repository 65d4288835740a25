import { type ActionRun, textOf } from '../../action.ts';

export default {
  key: 'formatting-url-encode',
  name: '[Text] Encode URL',
  version: '0.0.1',
  description:
    'Encodes a text so that it can be a part of a web address. Example: `"a b&c"` becomes `"a%20b%26c"`',
  type: 'action',
  props: {
    input: { type: 'string', label: 'Input', description: 'Text to encode' },
  },
  async run(this: { input: string }, { $ }: ActionRun) {
    const result = encodeURIComponent(textOf('input', this.input).toWellFormed());
    $.export('$summary', 'Encoded the text');
    return result;
  },
};
