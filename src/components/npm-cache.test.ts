import assert from 'node:assert/strict';
import { stat, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { silentLogger } from '#lib/logger.ts';
import { startNpmRegistry } from '../../test/support/npm-registry.ts';
import { createTempFolder } from '../../test/support/temp-folder.ts';
import { filesByUse } from './bound-folder.ts';
import { NpmCacheKeeper } from './npm-cache.ts';
import { PackageFetcher } from './package-fetcher.ts';

test('npm’s cache is kept to its bound, the least recently used first, and what went is fetched again', async () => {
  const folder = await createTempFolder('npm-cache');
  const registry = await startNpmRegistry(() => [
    { name: 'one', version: '1.0.0', files: { 'index.js': 'exports.n = 1' } },
    { name: 'two', version: '1.0.0', files: { 'index.js': 'exports.n = 2' } },
  ]);
  const fetcher = new PackageFetcher({
    cacheFolder: folder.path,
    registry: registry.url,
    logger: silentLogger,
  });
  const cache = join(folder.path, 'npm');
  const fetchBoth = async () => {
    for (const name of ['one', 'two']) assert.equal((await fetcher.download(name, '1.0.0')).files.length, 2);
  };
  const tarballs = () => registry.requests().filter((url) => url.endsWith('.tgz'));
  try {
    await fetchBoth();
    await fetchBoth();
    assert.deepEqual(tarballs(), ['/one/-/1.0.0.tgz', '/two/-/1.0.0.tgz']);
    const files = await filesByUse(join(cache, 'content-v2'));
    const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
    const [first] = files;
    // The last to be listed was used longest ago.
    const oldest = files.at(-1);
    assert.ok(first !== undefined && oldest !== undefined && files.length > 1);
    await utimes(oldest.file, new Date(1000), new Date(1000));
    await new NpmCacheKeeper({ folder: cache, bytesMax: bytes, logger: silentLogger }).keep();
    assert.equal((await filesByUse(join(cache, 'content-v2'))).length, files.length);
    await new NpmCacheKeeper({ folder: cache, bytesMax: bytes - 1, logger: silentLogger }).keep();
    await assert.rejects(stat(oldest.file), { code: 'ENOENT' });
    assert.equal((await filesByUse(join(cache, 'content-v2'))).length, files.length - 1);
    await new NpmCacheKeeper({ folder: cache, bytesMax: 0, logger: silentLogger }).keep();
    assert.deepEqual(await filesByUse(join(cache, 'content-v2')), []);
    await fetchBoth();
    assert.equal(tarballs().length, 4);
  } finally {
    await fetcher.close();
    await registry.close();
    await folder.remove();
  }
});
