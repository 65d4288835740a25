import { type ActionRun, badInput, textOf } from '../../action.ts';

export default {
  key: 'formatting-url-decode',
  name: '[Text] Decode URL',
  version: '0.0.1',
  description: 'Decodes a part of a web address. Example: `"a%20b%26c"` becomes `"a b&c"`',
  type: 'action',
  props: {
    input: { type: 'string', label: 'Input', description: 'Text to decode' },
  },
  async run(this: { input: string }, { $ }: ActionRun) {
    try {
      const result = decodeURIComponent(textOf('input', this.input));
      $.export('$summary', 'Decoded the text');
      return result;
    } catch {
      throw badInput(
        'input',
        this.input,
        'a text in which each % begins a sequence of valid UTF-8, such as %20',
      );
    }
  },
};
