import assert from 'node:assert/strict';
import { chmod, copyFile, glob, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { bundleOf, resultOf, startRunnerFixture } from '../../test/support/runner-fixture.ts';
import { createTempFolder } from '../../test/support/temp-folder.ts';

const modules = fileURLToPath(new URL('../../node_modules', import.meta.url));
/** An addon that needs no other file. */
const [addon] = await Array.fromAsync(glob(join(modules, 'lightningcss-*', '*.node')));

test('where native addons are allowed, the processes of the seat belt read its package as files', {
  skip: addon === undefined && 'no native addon is installed that could be tried',
}, async () => {
  const folder = await createTempFolder('addons');
  // A service that is root starts processes as other users, who have to read the folder.
  await chmod(folder.path, 0o755);
  const place = join(folder.path, 'node_modules', 'native');
  await mkdir(place, { recursive: true });
  await copyFile(addon ?? '', join(place, 'addon.node'));
  await writeFile(join(place, 'index.js'), "module.exports = typeof require('./addon.node').transform;");
  const packages = {
    folderOf: async () => folder.path,
    open: async () => ({ folder: folder.path, release: () => {} }),
  };
  const code = "import kind from 'native'; export default { run: () => kind };";
  const bundle = { ...bundleOf(code, 'esm'), packages: { ownerId: 'u_test', lockfile: '' } };
  for (const addons of ['allow', 'refuse'] as const) {
    const fixture = await startRunnerFixture({ packages, addons });
    try {
      const outcome = await fixture.runner.call({
        ...{ deploymentId: 'dc_native', ownerId: 'u_test', bundle, revision: 1 },
        ...{ call: { kind: 'run', event: '{}' } as const, props: {}, db: {}, deadlineMs: 30_000 },
      });
      if (addons === 'allow') assert.equal(resultOf(outcome), 'function');
      else assert.equal(outcome.error?.code, 'ERR_DLOPEN_DISABLED');
    } finally {
      await fixture.close();
    }
  }
  await folder.remove();
});
