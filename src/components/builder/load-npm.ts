import { createRequire } from 'node:module';
import { type NpmModule, resolveNpm } from './npm-module-paths.ts';

const own = createRequire(import.meta.url);

/** Loads a module of npm's. Bundles have the modules in them instead of this function (`npmInside` in `builder-programs.ts`). */
export function loadNpm(name: NpmModule): unknown {
  return own(resolveNpm(name));
}
