import { type ActionRun, badInput, textOf } from '../../action.ts';

export default {
  key: 'text-truncate',
  name: 'Truncate Text',
  version: '0.0.1',
  description:
    'Shortens a text to a number of characters, at the end of a word. Example: `"Hello dear world"` at 11 characters becomes `"Hello dear…"`',
  type: 'action',
  props: {
    input: { type: 'string', label: 'Input', description: 'Text to shorten' },
    length: {
      type: 'integer',
      label: 'Length',
      description: 'Characters of the result at most, with its ending',
      min: 1,
    },
    ending: {
      type: 'string',
      label: 'Ending',
      description: 'Text at the end of a shortened text',
      optional: true,
      default: '…',
    },
    keepWords: {
      type: 'boolean',
      label: 'Keep words',
      description: 'Cut between words where that is possible',
      optional: true,
      default: true,
    },
  },
  async run(this: { input: string; length: number; ending?: string; keepWords?: boolean }, { $ }: ActionRun) {
    const { length, ending = '…', keepWords = true } = this;
    if (!Number.isInteger(length) || length < 1) throw badInput('length', length, 'an integer of at least 1');
    // Graphemes are what readers count: an emoji of several code points is not cut in two.
    const characters = graphemes(textOf('input', this.input));
    if (characters.length <= length) {
      $.export('$summary', 'Kept the text, which is short enough');
      return this.input;
    }
    const tail = graphemes(ending).slice(0, length);
    const kept = length - tail.length;
    const cut = characters.slice(0, kept).join('');
    const isBetweenWords = /^\s/.test(characters[kept] ?? '');
    const words = keepWords && !isBetweenWords ? cut.replace(/\s+\S*$/, '') : cut;
    $.export('$summary', `Shortened the text from ${characters.length} characters`);
    return words.trimEnd() + tail.join('');
  },
};

function graphemes(text: string): string[] {
  return [...new Intl.Segmenter().segment(text)].map(({ segment }) => segment);
}
