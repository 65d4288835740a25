import { type ActionRun, textOf } from '../../action.ts';

export default {
  key: 'encoding-base64-encode',
  name: 'Encode Base64',
  version: '0.0.1',
  description: 'Encodes a text in UTF-8 as Base64. Example: `"hello"` becomes `"aGVsbG8="`',
  type: 'action',
  props: {
    input: { type: 'string', label: 'Input', description: 'Text to encode' },
    urlSafe: {
      type: 'boolean',
      label: 'URL-safe',
      description: 'Use `-` and `_` instead of `+` and `/`, without `=` at the end',
      optional: true,
      default: false,
    },
  },
  async run(this: { input: string; urlSafe?: boolean }, { $ }: ActionRun) {
    const result = Buffer.from(textOf('input', this.input)).toString(this.urlSafe ? 'base64url' : 'base64');
    $.export('$summary', 'Encoded the text as Base64');
    return result;
  },
};
