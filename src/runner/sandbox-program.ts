import { ensureProgram } from './program-file.ts';

/**
 * The program that runs in a sandbox, as one CommonJS file without imports, in `folder`: a process that may read
 * nothing else can still start from it. Returns its path.
 */
export function buildSandboxProgram(folder: string): Promise<string> {
  return ensureProgram(folder, {
    name: 'runner',
    entry: 'src/runner/sandbox/sandbox-main.ts',
    files: ['src/runner/sandbox/*.ts', 'src/runner/*.ts', 'src/lib/*.ts'],
  });
}
