import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withNamedAssets } from './named-assets.ts';
import { bytesOf, contentOf } from './text-of.ts';

const picture = contentOf(Buffer.from([0xff, 0x00, 0x80]));

test('of what is no text, the files that code of the package names are kept', () => {
  const files = [
    { path: 'a/a.mjs', text: 'import a from "./one.png" with { type: "bytes" };' },
    { path: 'a/b.ts', text: "read(join(folder, 'two.woff2')); read(folder + '/three.bin');" },
    { path: 'README.md', text: '![it](./pages/four.png "four.png")' },
    ...['a/one.png', 'b/two.woff2', 'three.bin', 'pages/four.png', 'five.png'].map((path) => ({
      path,
      ...picture,
    })),
  ];
  assert.deepEqual(
    withNamedAssets(files).map(({ path }) => path),
    ['a/a.mjs', 'a/b.ts', 'README.md', 'a/one.png', 'b/two.woff2', 'three.bin'],
  );
});

test('bytes are kept as they are, as text where they are text', () => {
  for (const bytes of [Buffer.from('Hëllo'), Buffer.from([0xff]), Buffer.from([0x00]), Buffer.alloc(0)])
    assert.deepEqual(bytesOf(contentOf(bytes)), bytes);
  assert.deepEqual(contentOf(Buffer.from('Hëllo')), { text: 'Hëllo' });
});
