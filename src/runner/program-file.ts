import { createHash, randomUUID } from 'node:crypto';
import { access, chmod, glob, mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { BuildOptions } from 'esbuild';
import { installationFolder, isPackaged, packagedChildProgram } from '#lib/installation.ts';

/** Folder of programs that were made before. Only users that can change the code of the service can write here. */
const sharedFolder = join(installationFolder, 'node_modules', '.cache', 'child-programs');

/** Programs of other versions are removed from the shared folder when they are older than this. */
const keptMs = 24 * 3_600_000;

/** The program of a child process: one CommonJS file, made from modules of the service and the packages that they import. */
export interface ChildProgram {
  /** The file name is `<name>-<hash>.cjs`. */
  name: string;
  /** The module that it starts from. Paths here and in `files` are relative to the root of the project. */
  entry: string;
  /** Globs of all its sources. Tests are left out. */
  files: readonly string[];
  /** Further options of the bundler. `files` has to include the files that these depend on. */
  bundling?: Pick<BuildOptions, 'external' | 'plugins' | 'minifyWhitespace'>;
}

/**
 * Makes the program as a file in `folder`, and returns its path. The name depends on the sources, so the program is made once, and a start
 * finds it there without loading a bundler. The npm package comes with the programs and has no sources; they are copied, because the user that
 * a sandbox runs as may not be allowed to read the package.
 */
export async function ensureProgram(
  folder: string,
  program: ChildProgram,
  shared = sharedFolder,
): Promise<string> {
  const name = await fileNameOf(program);
  const path = join(folder, name);
  if (await isThere(path)) return path;
  const text = isPackaged
    ? await readFile(packagedChildProgram(program.name), 'utf8')
    : await textOf(program, join(shared, name));
  await mkdir(folder, { recursive: true });
  await write(path, text);
  return path;
}

/** As `ensureProgram`, in a folder that all services of this installation share. Undefined when the folder is not writable. */
export async function ensureSharedProgram(
  program: ChildProgram,
  shared = sharedFolder,
): Promise<string | undefined> {
  if (isPackaged) return packagedChildProgram(program.name);
  const path = join(shared, await fileNameOf(program));
  if (!(await isThere(path))) await textOf(program, path);
  return (await isThere(path)) ? path : undefined;
}

export function isThere(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

async function fileNameOf({ name, files }: ChildProgram): Promise<string> {
  const hash = createHash('sha256').update(`${installationFolder}\0`);
  if (isPackaged) hash.update(await readFile(packagedChildProgram(name)));
  const paths = isPackaged ? [] : await Array.fromAsync(glob([...files], { cwd: installationFolder }));
  for (const path of paths.sort()) {
    if (path.endsWith('.test.ts')) continue;
    hash
      .update(`${path}\0`)
      .update(await readFile(join(installationFolder, path)))
      .update('\0');
  }
  return `${name}-${hash.digest('hex').slice(0, 32)}.cjs`;
}

/** Programs are made one at a time, because the bundler's helper process is ended after each. */
let making: Promise<unknown> = Promise.resolve();

/** Returns the text of the program at `path`, and makes the file when it is missing. */
function textOf(program: ChildProgram, path: string): Promise<string> {
  const text = making.then(async () => {
    const known = await readFile(path, 'utf8').catch(() => undefined);
    if (known !== undefined) return known;
    const made = await bundleProgram(program);
    // A read-only installation is no obstacle: each data folder then has its own program.
    await keep(path, made, program.name).catch(() => undefined);
    return made;
  });
  making = text.catch(() => undefined);
  return text;
}

/** Returns the text of a program, made from the sources. */
export async function bundleProgram({ entry, bundling }: ChildProgram): Promise<string> {
  const { build, stop } = await import('esbuild');
  const result = await build({
    absWorkingDir: installationFolder,
    entryPoints: [join(installationFolder, entry)],
    bundle: true,
    platform: 'node',
    format: 'cjs',
    target: 'node26',
    write: false,
    logLevel: 'silent',
    ...bundling,
  });
  // Otherwise the bundler's helper process stays for as long as the service runs.
  await stop();
  const text = result.outputFiles[0]?.text;
  if (text === undefined) throw new Error(`esbuild made no file of ${entry}`);
  return text;
}

async function keep(path: string, text: string, name: string): Promise<void> {
  const folder = dirname(path);
  await mkdir(folder, { recursive: true });
  // Another user may start a service from the same installation.
  await chmod(folder, 0o755).catch(() => undefined);
  await write(path, text);
  for (const file of await readdir(folder)) {
    if (!file.startsWith(`${name}-`)) continue;
    const other = join(folder, file);
    const found = await stat(other).catch(() => undefined);
    if (found !== undefined && Date.now() - found.mtimeMs > keptMs) await rm(other, { force: true });
  }
}

/** Writes a program that every user can read. No process finds an incomplete file. */
async function write(path: string, text: string): Promise<void> {
  const half = `${path}.${randomUUID()}.part`;
  await writeFile(half, text, { mode: 0o444 });
  // The umask may have removed the read permission that another user needs.
  await chmod(half, 0o444);
  await rename(half, path);
}
