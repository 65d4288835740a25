import { type ActionRun, textOf } from '../../action.ts';

export default {
  key: 'formatting-trim-whitespace',
  name: '[Text] Trim Whitespace',
  version: '0.0.1',
  description: 'Removes the white space at both ends of a text. Example: `"  hello "` becomes `"hello"`',
  type: 'action',
  props: {
    input: { type: 'string', label: 'Input', description: 'Text to trim' },
  },
  async run(this: { input: string }, { $ }: ActionRun) {
    const result = textOf('input', this.input).trim();
    $.export('$summary', 'Trimmed the text');
    return result;
  },
};
