import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));

/**
 * The file to start a program of ours from, such as `src/main.ts`: what `npm test` bundled from it (bundle-programs.ts), or
 * in a test file that is run alone, the source itself.
 */
export function programFile(source: string): string {
  const bundles = process.env.MILLRACE_TEST_PROGRAMS;
  return bundles ? join(bundles, source.replace(/\.ts$/, '.mjs')) : join(root, source);
}
