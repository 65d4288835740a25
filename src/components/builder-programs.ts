import { dirname, join } from 'node:path';
import type { Plugin } from 'esbuild';
import { installationFolder, isPackaged, packagedChildProgram } from '#lib/installation.ts';
import { type ChildProgram, ensureSharedProgram, isThere } from '#runner/program-file.ts';
import { type NpmModule, npmModules, resolveNpm } from './builder/npm-module-paths.ts';

/** Says to a program that its connections go by way of the service, on descriptor 4. */
export const relayArgument = 'relayed';

export const builderProgramNames = ['bundler', 'installer', 'scanner', 'git-reader'] as const;
export type BuilderProgram = (typeof builderProgramNames)[number];

/** Folder of the programs' modules; of the programs themselves in the npm package. */
export const builderFolder = isPackaged
  ? dirname(packagedChildProgram('bundler'))
  : join(installationFolder, 'src', 'components', 'builder');

const paths = new Map<BuilderProgram, string>();

/**
 * The file that a builder process starts from: one that has all modules in it, npm's too. Reading and compiling 500 modules
 * takes longer than most installs. Where no such file can be kept, the module of the sources.
 */
export async function builderProgram(name: BuilderProgram): Promise<string> {
  const known = paths.get(name);
  if (known !== undefined && (await isThere(known))) return known;
  const path = (await ensureSharedProgram(builderProgramOf(name))) ?? join(builderFolder, `${name}-main.ts`);
  paths.set(name, path);
  return path;
}

/** The program, as it is made in a clone and for the npm package. */
export function builderProgramOf(name: BuilderProgram): ChildProgram {
  return {
    name,
    entry: `src/components/builder/${name}-main.ts`,
    files: [
      ...['src/components/builder/*.ts', 'src/components/builder-programs.ts', 'package-lock.json'],
      ...['src/runner/sandbox/egress-*.ts', 'src/lib/*.ts'],
    ],
    // esbuild looks for its program beside itself.
    bundling: { plugins: [npmInside(npmModules)], external: ['esbuild'], minifyWhitespace: true },
  };
}

/** Modules of npm's are loaded by a function that no bundler can follow; in a bundle these are required by their paths. */
export const npmInside = (names: readonly NpmModule[]): Plugin => ({
  name: 'npm inside',
  setup({ onLoad }) {
    onLoad({ filter: /[/\\]builder[/\\]load-npm\.ts$/ }, ({ path }) => {
      const cases = names.map(
        (name) => `case ${JSON.stringify(name)}: return require(${JSON.stringify(resolveNpm(name))});`,
      );
      return {
        contents: `export function loadNpm(name) { switch (name) { ${cases.join('\n')} } }`,
        loader: 'js',
        resolveDir: dirname(path),
      };
    });
  },
});
