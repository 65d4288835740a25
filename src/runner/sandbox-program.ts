import { createHash } from 'node:crypto';
import { access, chmod, glob, mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const sourceFolder = fileURLToPath(new URL('..', import.meta.url));
/** What the program is made from: everything that runs in the child. */
const sourceFiles = ['runner/sandbox/*.ts', 'runner/*.ts', 'lib/*.ts'];

/**
 * The program that runs in a sandbox, as one CommonJS file without imports, in `folder`: a process that may read
 * nothing else can still start from it. Named by its sources, so that it is made once and a start finds it there
 * without loading a bundler. Returns its path.
 */
export async function buildSandboxProgram(folder: string): Promise<string> {
  const path = join(folder, `runner-${await sourceHash()}.cjs`);
  try {
    await access(path);
    return path;
  } catch {
    // Not made yet, or by another version.
  }
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
  await mkdir(folder, { recursive: true });
  const half = `${path}.${process.pid}.part`;
  await writeFile(half, text, { mode: 0o444 });
  // The umask may have taken the read permission that another uid needs.
  await chmod(half, 0o444);
  await rename(half, path);
  return path;
}

async function sourceHash(): Promise<string> {
  const files = (await Array.fromAsync(glob(sourceFiles, { cwd: sourceFolder }))).filter(
    (file) => !file.endsWith('.test.ts'),
  );
  const hash = createHash('sha256');
  for (const file of files.sort())
    hash
      .update(`${file}\0`)
      .update(await readFile(join(sourceFolder, file)))
      .update('\0');
  return hash.digest('hex').slice(0, 32);
}
