import { type ActionRun, badInput, counted, textOf } from '../../action.ts';
import { patternIn } from '../pattern.ts';

/** Values that workflows name: a form cannot tell the index 0 from no value, so the first segment has one of its own. */
const firstSegment = -999;
const allSegments = 999;

export default {
  key: 'formatting-split-text',
  name: '[Text] Split Text',
  version: '0.0.1',
  description:
    'Splits a text at a separator, and returns one or all of the segments. Example: `"a,b,c"` at `,` becomes `["a", "b", "c"]`',
  type: 'action',
  props: {
    input: { type: 'string', label: 'Input', description: 'Text to split' },
    separator: {
      type: 'string',
      label: 'Separator',
      description: 'Text between the segments, or a regular expression between slashes: `/[,;] ?/`',
    },
    segmentIndex: {
      type: 'integer',
      label: 'Segment index',
      description: 'Which segment to return: 1 is the second, -1 the last',
      optional: true,
      default: allSegments,
      otherValues: true,
      options: [
        { label: 'First', value: firstSegment },
        { label: 'Second', value: 1 },
        { label: 'Last', value: -1 },
        { label: 'Second to last', value: -2 },
        { label: 'All', value: allSegments },
      ],
    },
  },
  async run(this: { input: string; separator: string; segmentIndex?: number }, { $ }: ActionRun) {
    const input = textOf('input', this.input);
    const separator = textOf('separator', this.separator);
    const index = Number(this.segmentIndex ?? allSegments);
    if (!Number.isInteger(index)) throw badInput('segmentIndex', this.segmentIndex, 'an integer');
    const segments = input.split(patternIn('separator', separator, '') ?? separator);
    $.export('$summary', `Split the text into ${counted(segments.length, 'segment')}`);
    if (index === allSegments) return segments;
    return segments.at(index === firstSegment ? 0 : index) ?? null;
  },
};
