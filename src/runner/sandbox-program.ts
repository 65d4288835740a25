import { createHash } from 'node:crypto';
import { access, chmod, mkdir, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildSync } from 'esbuild';

/**
 * The program that runs in a sandbox, as one CommonJS file without imports, in `folder` under its content hash:
 * a process that may read nothing else can still start from it. Returns its path.
 */
export async function buildSandboxProgram(folder: string): Promise<string> {
  // Not the asynchronous form, whose helper process stays for as long as the service runs.
  const result = buildSync({
    entryPoints: [fileURLToPath(new URL('./sandbox/sandbox-main.ts', import.meta.url))],
    bundle: true,
    platform: 'node',
    format: 'cjs',
    target: 'node26',
    write: false,
    logLevel: 'silent',
  });
  const text = result.outputFiles[0]?.text;
  if (text === undefined) throw new Error('esbuild made no file of the sandbox program');
  const path = join(folder, `runner-${createHash('sha256').update(text).digest('hex').slice(0, 32)}.cjs`);
  try {
    await access(path);
  } catch {
    await mkdir(folder, { recursive: true });
    const half = `${path}.${process.pid}.part`;
    await writeFile(half, text, { mode: 0o444 });
    // The umask may have taken the read permission that another uid needs.
    await chmod(half, 0o444);
    await rename(half, path);
  }
  return path;
}
