import { type ActionRun, textOf } from '../../action.ts';
import { type Extract, extract, extractProps } from '../extract.ts';
import { patternOf } from '../pattern.ts';

/** Digits in groups, with an area code in brackets or a country code before them. */
const anyNumber =
  '(?<!\\d)(?:\\+\\d{1,3}[ .-]?)?(?:\\(\\d{1,5}\\)[ .-]?)?\\d{1,5}(?:[ .-]?\\d{2,5}){1,5}(?!\\d)';

export default {
  key: 'formatting-extract-phone-number',
  name: '[Text] Extract Phone Number',
  version: '0.0.1',
  description:
    'Finds the first phone number in a text, or all of them. Example: `"call (123) 456-7890 now"` gives `"(123) 456-7890"`',
  type: 'action',
  props: {
    ...extractProps('a phone number'),
    format: {
      type: 'string',
      label: 'Phone number format',
      description: 'How the number is written, or a regular expression without slashes',
      optional: true,
      default: anyNumber,
      otherValues: true,
      options: [
        { label: 'Any, such as +49 30 901820', value: anyNumber },
        {
          label: 'North American: (123) 456-7890 or 123-456-7890',
          value: '(?:\\(\\d{3}\\)\\s?|\\d{3}-)\\d{3}-\\d{4}',
        },
        { label: 'International: (12) 34-56-78-90', value: '\\(\\d{2}\\)\\s?\\d{2}(?:-\\d{2}){3}' },
      ],
    },
  },
  async run(this: Extract & { format?: string }, step: ActionRun) {
    const format = textOf('format', this.format ?? anyNumber);
    return extract(this, step, {
      noun: 'phone number',
      pattern: patternOf('format', format, 'g'),
      // Dates, amounts and years are shorter.
      keep: (match) => (format !== anyNumber || match.replace(/\D/g, '').length >= 7 ? match : undefined),
    });
  },
};
