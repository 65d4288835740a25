import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { test } from 'node:test';
import { createTempFolder } from '../test/support/temp-folder.ts';

const { cache, resolve } = createRequire(import.meta.url);
const isLoaded = () => cache[resolve('esbuild')] !== undefined;

test('the bundler is loaded by commands that bundle, and by no other', async () => {
  await import('./run-cli.ts');
  assert.equal(isLoaded(), false, 'a command that bundles nothing has loaded it');
  const { readLocalCode } = await import('./component-reference.ts');
  await using folder = await createTempFolder('bundler');
  const file = join(folder.path, 'code.mjs');
  await writeFile(file, 'export default {};\n');
  assert.equal((await readLocalCode(file)).code, 'export default {};\n');
  assert.equal(isLoaded(), true);
});
