import { type ActionRun, counted, textOf } from '../../action.ts';
import { patternIn, patternOf } from '../pattern.ts';

export default {
  key: 'formatting-extract-by-regular-expression',
  name: '[Text] Extract by Regular Expression',
  version: '0.0.1',
  description:
    'Finds all matches of a regular expression, each with its position and groups. Example: `(\\d+) items` finds `12` in `"12 items"`',
  type: 'action',
  props: {
    input: { type: 'string', label: 'Input', description: 'Text to search' },
    regExpString: {
      type: 'string',
      label: 'Regular expression',
      description: 'The expression alone, or between slashes with flags: `/order (\\d+)/i`',
    },
  },
  async run(this: { input: string; regExpString: string }, { $ }: ActionRun) {
    const input = textOf('input', this.input);
    const text = textOf('regExpString', this.regExpString);
    const pattern = patternIn('regExpString', text, 'g') ?? patternOf('regExpString', text, 'g');
    const matches = [...input.matchAll(pattern)].map((match) => ({
      match: match[0],
      groups: match.slice(1).map((group) => group ?? null),
      namedGroups: { ...match.groups },
      startPosition: match.index,
      endPosition: match.index + match[0].length,
    }));
    $.export('$summary', `Found ${counted(matches.length, 'match').replace(/hs$/, 'hes')}`);
    return matches;
  },
};
