import { execFile, spawnSync } from 'node:child_process';
import { promisify } from 'node:util';

const execute = promisify(execFile);

/** Throws with the Debian packages that are missing. */
export function requirePrograms(packages: Readonly<Record<string, string>>): void {
  const missing = Object.entries(packages)
    .filter(([program]) => spawnSync('sh', ['-c', `command -v ${program}`]).status !== 0)
    .map(([, name]) => name);
  if (missing.length > 0)
    throw new Error(
      `this drill needs programs: apt-get install --no-install-recommends ${missing.join(' ')}`,
    );
  if (process.getuid?.() !== 0) throw new Error('this drill has to run as root');
}

/** Runs a program to its end and returns what it printed. Rejects with its errors. */
export async function run(
  program: string,
  args: readonly string[],
  options: { cwd?: string } = {},
): Promise<string> {
  try {
    const { stdout } = await execute(program, [...args], { maxBuffer: 64 * 1024 * 1024, ...options });
    return stdout.trim();
  } catch (error) {
    const { stderr = '', stdout = '' } = error as { stderr?: string; stdout?: string };
    throw new Error(`${program} ${args.join(' ')}\n${stdout.slice(-2_000)}\n${stderr.slice(-4_000)}`, {
      cause: error,
    });
  }
}
