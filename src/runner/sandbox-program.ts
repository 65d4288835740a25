import { createHash } from 'node:crypto';
import { access, chmod, mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const sourceFolder = fileURLToPath(new URL('..', import.meta.url));
/** What the program is made from: everything that runs in the child. */
const sourceFolders = ['lib', 'runner', 'runner/sandbox'];
/** Beside the packages of the project, and as trusted: where it can be written to, one start makes the program for all later ones. */
const installedCache = fileURLToPath(new URL('../../node_modules/.cache/sandbox', import.meta.url));

/**
 * The program that runs in a sandbox, as one CommonJS file without imports, in `folder`: a process that may read
 * nothing else can still start from it. Named by its sources, so that it is made once and a start finds it there or in
 * `cacheFolder` without loading a bundler. Returns its path.
 */
export async function buildSandboxProgram(folder: string, cacheFolder = installedCache): Promise<string> {
  const name = `runner-${await sourceHash()}.cjs`;
  const path = join(folder, name);
  try {
    await access(path);
    return path;
  } catch {
    // Not made yet, or by another version.
  }
  const cached = join(cacheFolder, name);
  const known = await readFile(cached, 'utf8').catch(() => undefined);
  const text = known ?? (await bundleProgram());
  await writeWhole(path, text);
  if (known === undefined) {
    // A folder that cannot be written to, or a full disk, costs later starts their time and nothing else.
    await writeWhole(cached, text)
      .then(() => removeOthers(cacheFolder, name))
      .catch(() => undefined);
  }
  return path;
}

async function bundleProgram(): Promise<string> {
  const { build, stop } = await import('esbuild');
  const result = await build({
    entryPoints: [join(sourceFolder, 'runner', 'sandbox', 'sandbox-main.ts')],
    bundle: true,
    platform: 'node',
    format: 'cjs',
    target: 'node26',
    write: false,
    logLevel: 'silent',
  });
  // Its helper process would stay for as long as the service runs.
  await stop();
  const text = result.outputFiles[0]?.text;
  if (text === undefined) throw new Error('esbuild made no file of the sandbox program');
  return text;
}

/** Nobody finds half a file at `path`. */
async function writeWhole(path: string, text: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  const half = `${path}.${process.pid}.part`;
  await writeFile(half, text, { mode: 0o444 });
  // The umask may have taken the read permission that another uid needs.
  await chmod(half, 0o444);
  await rename(half, path);
}

/** Programs of versions that were here before, and what a crash left. */
async function removeOthers(folder: string, kept: string): Promise<void> {
  for (const name of await readdir(folder)) if (name !== kept) await rm(join(folder, name), { force: true });
}

async function sourceHash(): Promise<string> {
  const hash = createHash('sha256');
  for (const folder of sourceFolders)
    for (const name of (await readdir(join(sourceFolder, folder))).sort()) {
      if (!name.endsWith('.ts') || name.endsWith('.test.ts')) continue;
      hash
        .update(`${folder}/${name}\0`)
        .update(await readFile(join(sourceFolder, folder, name)))
        .update('\0');
    }
  return hash.digest('hex').slice(0, 32);
}
