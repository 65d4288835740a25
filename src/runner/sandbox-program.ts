import { type ChildProgram, ensureProgram } from './program-file.ts';

export const sandboxProgram: ChildProgram = {
  name: 'runner',
  entry: 'src/runner/sandbox/sandbox-main.ts',
  files: ['src/runner/sandbox/*.ts', 'src/runner/*.ts', 'src/lib/*.ts'],
};

/**
 * Makes the program that runs in a sandbox, as one CommonJS file without imports in `folder`, so that a process that may read no other file
 * can start it. Returns its path.
 */
export function buildSandboxProgram(folder: string): Promise<string> {
  return ensureProgram(folder, sandboxProgram);
}
