import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import type { PageFile } from './dashboard/page-files.ts';

const contentTypes: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json; charset=utf-8',
  '.svg': 'image/svg+xml',
};

/** `ending`: of a file name, such as `.html`. */
export function plainFile(ending: string, text: string): PageFile {
  const contentType = contentTypes[ending] ?? 'text/plain; charset=utf-8';
  return { contentType, immutable: false, plain: Buffer.from(text), encoded: {} };
}

/** Compressed once in advance, so that no reader waits for compression. */
export async function compressedFile(ending: string, text: string): Promise<PageFile> {
  const file = plainFile(ending, text);
  const params = {
    [constants.BROTLI_PARAM_QUALITY]: 5,
    [constants.BROTLI_PARAM_SIZE_HINT]: file.plain.length,
  };
  const [br, gz] = await Promise.all([
    promisify(brotliCompress)(file.plain, { params }),
    promisify(gzip)(file.plain),
  ]);
  return { ...file, encoded: { br, gzip: gz } };
}
