import { type ActionRun, textOf } from '../../action.ts';
import { formatOf, formatProp } from '../compression.ts';

export default {
  key: 'encoding-compress',
  name: 'Compress Text',
  version: '0.0.1',
  description:
    'Compresses a text, and returns the bytes as Base64. Example: a report of 100 KB fits into a few KB of `gzip`',
  type: 'action',
  props: {
    input: { type: 'string', label: 'Input', description: 'Text to compress' },
    format: formatProp,
  },
  async run(this: { input: string; format?: string }, { $ }: ActionRun) {
    const bytes = Buffer.from(textOf('input', this.input));
    const compressed = await formatOf(this.format).compress(bytes);
    $.export('$summary', `Compressed ${bytes.length} bytes to ${compressed.length}`);
    return compressed.toString('base64');
  },
};
