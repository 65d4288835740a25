import { createRequire } from 'node:module';

const own = createRequire(import.meta.url);
/** Resolves from arborist's own file: npm's other modules are its dependencies and not ours. */
const ofArborist = createRequire(own.resolve('@npmcli/arborist/package.json'));

/**
 * Loads a module of npm's. The programs of the builder have these modules in them instead of this function
 * (`builder-programs.ts`), which is why the names are a closed list.
 */
export function loadNpm(name: NpmModule): unknown {
  return name === '@npmcli/arborist' || name === 'npm-package-arg' ? own(name) : ofArborist(name);
}

/** Where a module of npm's is. */
export function resolveNpm(name: NpmModule): string {
  return name === '@npmcli/arborist' || name === 'npm-package-arg'
    ? own.resolve(name)
    : ofArborist.resolve(name);
}

export const npmModules = [
  '@npmcli/arborist',
  'npm-package-arg',
  'npm-registry-fetch/lib/default-opts.js',
  'pacote',
  'tar',
] as const;

export type NpmModule = (typeof npmModules)[number];
