import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build, type Plugin, stop } from 'esbuild';
import { removeOld } from './remove-old.ts';

/** The programs that tests start again and again, from the root of the project. */
const programs = [
  'src/main.ts',
  'src/admin.ts',
  'cli/main.ts',
  'test/support/rotation-process.ts',
  'test/support/store-writer.ts',
];

const root = fileURLToPath(new URL('../..', import.meta.url));

/** Packages that read files beside themselves, or are loaded by few; everything else goes into the bundles. */
const leftOutside = [
  'esbuild',
  '@npmcli/arborist',
  'npm-package-arg',
  '@fastify/swagger-ui',
  'pg-native',
  'thread-stream',
];

/**
 * A start of the service reads, strips and links 1,800 modules, which is more work than all the rest of it. Here the same
 * sources, with the packages they import, become a few files, made once for a whole run of the tests. Nothing of them is
 * replaced or left out, and every file still believes to be where it is.
 *
 * Returns a folder that has each program under its path with the ending `.mjs`. Its name is a hash of its content, so that
 * Node's compile cache knows the files again.
 */
export async function bundlePrograms(): Promise<string> {
  const result = await build({
    absWorkingDir: root,
    entryPoints: programs,
    outbase: root,
    outdir: join(root, 'bundles'),
    outExtension: { '.js': '.mjs' },
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node26',
    external: leftOutside,
    banner: {
      js: "import { createRequire as createRequireOfBundle } from 'node:module'; const require = createRequireOfBundle(import.meta.url);",
    },
    plugins: [whereItIs],
    write: false,
    logLevel: 'silent',
  });
  await stop();
  const hash = createHash('sha256');
  for (const { path, contents } of result.outputFiles) hash.update(`${path}\0`).update(contents).update('\0');
  const all = join(root, 'node_modules', '.cache', 'programs');
  const folder = join(all, hash.digest('hex').slice(0, 32));
  await mkdir(all, { recursive: true });
  await removeOld(all);
  if (existsSync(folder)) return folder;
  const half = await mkdtemp(join(all, 'part-'));
  for (const { path, contents } of result.outputFiles) {
    const target = join(half, relative(join(root, 'bundles'), path));
    await mkdir(dirname(target), { recursive: true });
    await writeFile(target, contents);
  }
  await rename(half, folder).catch(async (error: unknown) => {
    // Another run was quicker.
    await rm(half, { recursive: true, force: true });
    if (!existsSync(folder)) throw error;
  });
  return folder;
}

/** `import.meta` in our own files says where the file is, not the bundle. */
const whereItIs: Plugin = {
  name: 'where it is',
  setup({ onLoad }) {
    onLoad({ filter: /\.ts$/ }, async ({ path }) => {
      if (relative(root, path).startsWith('node_modules')) return undefined;
      const text = await readFile(path, 'utf8');
      const contents = text
        .replaceAll('import.meta.url', JSON.stringify(pathToFileURL(path).href))
        .replaceAll('import.meta.dirname', JSON.stringify(dirname(path)));
      return contents === text ? undefined : { contents, loader: 'ts' };
    });
  },
};
