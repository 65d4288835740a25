import assert from 'node:assert/strict';
import { brotliCompressSync, gunzipSync, gzipSync, zstdCompressSync } from 'node:zlib';
import { testActions } from '../../test/support/test-actions.ts';

const bomb = gzipSync(Buffer.alloc(7 * 1024 * 1024)).toString('base64');

testActions(
  ['encoding'],
  [
    ['encoding-base64-encode', { input: 'héllo?>' }, 'aMOpbGxvPz4='],
    ['encoding-base64-encode', { input: 'héllo?>', urlSafe: true }, 'aMOpbGxvPz4'],
    ['encoding-base64-decode', { input: 'aMOpbGxv\nPz4=' }, 'héllo?>'],
    [
      'encoding-base64-decode',
      { input: '_-_-' },
      /^input: found bytes that are not UTF-8, expected those of a text$/,
    ],
    ['encoding-base64-decode', { input: 'a!' }, /^input: found "a!", expected Base64$/],
    ['encoding-base64-decode', { input: 'aGVsb' }, /^input: found "aGVsb", expected Base64$/],

    [
      'encoding-compress',
      { input: 'hello' },
      (value: unknown) => assert.equal(gunzipSync(Buffer.from(String(value), 'base64')).toString(), 'hello'),
    ],
    [
      'encoding-compress',
      { input: 'x', format: 'rar' },
      /^format: found "rar", expected one of gzip, brotli, deflate, zstd$/,
    ],
    ['encoding-decompress', { input: gzipSync('hello').toString('base64') }, 'hello'],
    [
      'encoding-decompress',
      { input: brotliCompressSync('hello').toString('base64'), format: 'brotli' },
      'hello',
    ],
    ['encoding-decompress', { input: zstdCompressSync('hello').toString('base64'), format: 'zstd' }, 'hello'],
    ['encoding-decompress', { input: 'aGVsbG8=' }, /^input: found no gzip \(incorrect header check\)$/],
    ['encoding-decompress', { input: bomb }, /^input: found more than 6 MB in it, expected less$/],
  ],
);
