import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import { build } from 'vite';
import config from './vite.config.ts';

/**
 * Builds the pages into a folder: `node dashboard/build.ts FOLDER`. Each file is also there compressed (.br, .gz), so that
 * no request waits for compression. The service runs this when it is asked for its first page.
 */

const [out] = process.argv.slice(2);
if (out === undefined) {
  process.stderr.write('usage: node dashboard/build.ts FOLDER\n');
  process.exit(2);
}

await build({ ...config, configFile: false, logLevel: 'warn', build: { ...config.build, outDir: out } });

/** Below this a compressed file saves nothing. */
const worthBytes = 512;
const entries = await readdir(out, { recursive: true, withFileTypes: true });
for (const entry of entries) {
  if (!entry.isFile()) continue;
  const path = join(entry.parentPath, entry.name);
  const plain = await readFile(path);
  if (plain.length < worthBytes) continue;
  // The best level takes ten times as long as this one, for three per cent.
  const params = { [constants.BROTLI_PARAM_QUALITY]: 9, [constants.BROTLI_PARAM_SIZE_HINT]: plain.length };
  await writeFile(`${path}.br`, brotliCompressSync(plain, { params }));
  await writeFile(`${path}.gz`, gzipSync(plain, { level: 9 }));
}
