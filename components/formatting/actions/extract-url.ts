import type { ActionRun } from '../../action.ts';
import { type Extract, extract, extractProps } from '../extract.ts';

export default {
  key: 'formatting-extract-url',
  name: '[Text] Extract URL',
  version: '0.0.1',
  description:
    'Finds the first web address in a text, or all of them. Example: `"see https://example.com/a."` gives `"https://example.com/a"`',
  type: 'action',
  props: extractProps('a web address'),
  async run(this: Extract, step: ActionRun) {
    return extract(this, step, {
      noun: 'URL',
      pattern: /https?:\/\/[^\s<>"'`]+/gi,
      // Punctuation behind an address belongs to the sentence.
      keep: (match) => {
        const url = match.replace(/[.,;:!?)\]}]+$/, '');
        return URL.canParse(url) ? url : undefined;
      },
    });
  },
};
