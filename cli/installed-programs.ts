import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** True in the npm package, where the command line and the programs that it starts are bundles in one folder. */
export const isPackaged = !import.meta.url.endsWith('.ts');

/** The program that works on the data folder without the API. */
export const adminProgram = fileURLToPath(
  new URL(isPackaged ? './admin.mjs' : '../src/admin.ts', import.meta.url),
);

/** What starts the service, and this command line. */
export const launcher = fileURLToPath(new URL('../bin/millrace', import.meta.url));

/** Version of this command line and of the service that comes with it. */
export const installedVersion = (
  JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as { version: string }
).version;
