import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/**
 * Where this installation has its files: a clone, whose sources Node runs as they are, or the npm package, in whose folder
 * `lib` each program is one file of plain JavaScript. All other files have the same place in both.
 */

/** True in the npm package (`npm run package`), where no source of the service is. */
export const isPackaged = !import.meta.url.endsWith('.ts');

/** The folder with package.json. */
export const installationFolder = fileURLToPath(new URL(isPackaged ? '..' : '../..', import.meta.url));

/** Extension of the code that components are built from: the package has it as JavaScript. */
export const codeExtension = isPackaged ? '.js' : '.ts';

/** Version of Millrace, such as 0.1.0. */
export const installedVersion = (
  JSON.parse(readFileSync(join(installationFolder, 'package.json'), 'utf8')) as { version: string }
).version;

/** The program or thread that starts from a module, such as `src/ingress/mail-thread.ts`; file names of programs are unique. */
export function programPath(source: string): string {
  if (!isPackaged) return join(installationFolder, source);
  const name = source.slice(source.lastIndexOf('/') + 1).replace(/\.m?ts$|\.mjs$/, '');
  return join(installationFolder, 'lib', `${name}.mjs`);
}

/** The program of a child process that the package was made with (`program-file.ts` makes it in a clone). */
export function packagedChildProgram(name: string): string {
  return join(installationFolder, 'lib', 'programs', `${name}.cjs`);
}
