import { promisify } from 'node:util';
import * as zlib from 'node:zlib';
import { badInput } from '../action.ts';

/** Decompressed bytes at most: what a step may return. */
export const decompressedBytesMax = 6 * 1024 * 1024;

const formats = {
  gzip: { compress: promisify(zlib.gzip), decompress: promisify(zlib.gunzip) },
  brotli: { compress: promisify(zlib.brotliCompress), decompress: promisify(zlib.brotliDecompress) },
  deflate: { compress: promisify(zlib.deflate), decompress: promisify(zlib.inflate) },
  zstd: { compress: promisify(zlib.zstdCompress), decompress: promisify(zlib.zstdDecompress) },
} as const;

export const formatProp = {
  type: 'string',
  label: 'Format',
  description: 'Format of the compressed bytes',
  optional: true,
  default: 'gzip',
  options: Object.keys(formats),
};

export function formatOf(value: string = 'gzip'): (typeof formats)[keyof typeof formats] {
  if (!Object.hasOwn(formats, value))
    throw badInput('format', value, `one of ${Object.keys(formats).join(', ')}`);
  return formats[value as keyof typeof formats];
}
