import { type ActionRun, ConfigurationError } from '../../action.ts';
import { bytesOfBase64, textOfBytes } from '../base64.ts';
import { decompressedBytesMax, formatOf, formatProp } from '../compression.ts';

export default {
  key: 'encoding-decompress',
  name: 'Decompress Text',
  version: '0.0.1',
  description:
    'Decompresses bytes in Base64 to a text of at most 6 MB. Example: the result of Compress Text becomes the text again',
  type: 'action',
  props: {
    input: { type: 'string', label: 'Input', description: 'Compressed bytes as Base64' },
    format: formatProp,
  },
  async run(this: { input: string; format?: string }, { $ }: ActionRun) {
    const { decompress } = formatOf(this.format);
    const bytes = bytesOfBase64('input', this.input);
    let decompressed: Buffer;
    try {
      // Without the bound a few bytes could fill the memory of the process.
      decompressed = await decompress(bytes, { maxOutputLength: decompressedBytesMax });
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      throw new ConfigurationError(
        code === 'ERR_BUFFER_TOO_LARGE'
          ? `input: found more than ${decompressedBytesMax / 1024 / 1024} MB in it, expected less`
          : `input: found no ${this.format ?? 'gzip'} (${message})`,
      );
    }
    $.export('$summary', `Decompressed ${bytes.length} bytes to ${decompressed.length}`);
    return textOfBytes('input', decompressed);
  },
};
