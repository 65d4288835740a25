import { createRequire } from 'node:module';

/** The modules of npm that builder programs use: a closed list, because the programs have them in them (`builder-programs.ts`). */
export const npmModules = [
  '@npmcli/arborist',
  'npm-package-arg',
  'npm-registry-fetch/lib/default-opts.js',
  'pacote',
  'tar',
] as const;

export type NpmModule = (typeof npmModules)[number];

const own = createRequire(import.meta.url);

/** Where a module of npm's is. The last three are dependencies of arborist, and not ours. */
export function resolveNpm(name: NpmModule): string {
  if (name === '@npmcli/arborist' || name === 'npm-package-arg') return own.resolve(name);
  return createRequire(own.resolve('@npmcli/arborist/package.json')).resolve(name);
}
