import { type ActionRun, counted, textOf } from '../../action.ts';
import { patternIn } from '../pattern.ts';

export default {
  key: 'formatting-replace-text',
  name: '[Text] Replace Text',
  version: '0.0.1',
  description:
    'Replaces every occurrence of a text or regular expression. Example: `/\\d+/` with `#` makes `"room 12"` into `"room #"`',
  type: 'action',
  props: {
    input: { type: 'string', label: 'Input', description: 'Text to change' },
    findText: {
      type: 'string',
      label: 'Find text or pattern',
      description: 'Text to find, or a regular expression between slashes: `/colou?r/i`',
    },
    replaceText: {
      type: 'string',
      label: 'Replace text',
      description:
        'Text to put there; empty removes what was found. With a regular expression `$1` is its first group',
      optional: true,
      default: '',
    },
  },
  async run(this: { input: string; findText: string; replaceText?: string }, { $ }: ActionRun) {
    const input = textOf('input', this.input);
    const find = textOf('findText', this.findText);
    const replacement = textOf('replaceText', this.replaceText ?? '');
    if (find === '') {
      $.export('$summary', 'Replaced nothing: the text to find is empty');
      return input;
    }
    const pattern = patternIn('findText', find, 'g');
    const count = pattern === undefined ? input.split(find).length - 1 : [...input.matchAll(pattern)].length;
    $.export('$summary', `Replaced ${counted(count, 'occurrence')}`);
    return pattern === undefined
      ? input.replaceAll(find, () => replacement)
      : input.replace(pattern, replacement);
  },
};
