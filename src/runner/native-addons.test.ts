import assert from 'node:assert/strict';
import { chmod, copyFile, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { bundleOf, requestFor, resultOf, startRunnerFixture } from '../../test/support/runner-fixture.ts';
import { kernelSkip, runAtLevel } from '../../test/support/sandbox-level.ts';
import { createTempFolder } from '../../test/support/temp-folder.ts';
import type { PackageSource } from './runner.ts';

const skip = await kernelSkip();
/** A native addon among the project's dependencies. It is loaded, and none of its functions is called. */
const addon = ['lightningcss-linux-x64-gnu', 'lightningcss-linux-arm64-gnu'].flatMap((name) => {
  try {
    return [import.meta.resolve(name)];
  } catch {
    return [];
  }
})[0];

const bundle = {
  ...bundleOf(
    "import native from 'native'; export default { run() { return Object.keys(native).length > 0; } };",
    'esm',
  ),
  packages: { ownerId: 'u_test', lockfile: '{}' },
};

test('packages with native addons work at the kernel level, and are refused at the seat belt', {
  skip: skip || (addon === undefined && 'no native addon at hand'),
}, async () => {
  await using folder = await createTempFolder('packages');
  await chmod(folder.path, 0o755);
  const place = join(folder.path, 'owner', 'lock');
  const native = join(place, 'node_modules', 'native');
  await mkdir(native, { recursive: true });
  await copyFile(new URL(addon ?? ''), join(native, 'index.node'));
  await writeFile(join(native, 'index.js'), "module.exports = require('./index.node');");
  const packages: PackageSource = {
    folderOf: async () => place,
    open: async () => ({ folder: place, release: () => {} }),
  };
  for (const level of ['kernel', 'seat-belt'] as const) {
    const fixture = await runAtLevel(level, () => startRunnerFixture({ packages, addons: 'auto' }));
    try {
      const outcome = await fixture.runner.call(requestFor('', { bundle }));
      if (level === 'kernel') assert.equal(resultOf(outcome), true);
      else assert.equal(outcome.status, 'load_failed');
      assert.equal(fixture.runner.stats().addons, level === 'kernel');
    } finally {
      await fixture.close();
    }
  }
});
