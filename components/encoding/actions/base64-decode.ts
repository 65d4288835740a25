import type { ActionRun } from '../../action.ts';
import { bytesOfBase64, textOfBytes } from '../base64.ts';

export default {
  key: 'encoding-base64-decode',
  name: 'Decode Base64',
  version: '0.0.1',
  description: 'Decodes Base64 to a text, also the URL-safe kind. Example: `"aGVsbG8="` becomes `"hello"`',
  type: 'action',
  props: {
    input: { type: 'string', label: 'Input', description: 'Base64 of a text in UTF-8' },
  },
  async run(this: { input: string }, { $ }: ActionRun) {
    const result = textOfBytes('input', bytesOfBase64('input', this.input));
    $.export('$summary', 'Decoded the Base64');
    return result;
  },
};
