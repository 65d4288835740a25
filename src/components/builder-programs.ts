import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Plugin } from 'esbuild';
import { type ChildProgram, ensureSharedProgram, isThere } from '#runner/program-file.ts';
import { npmModules, resolveNpm } from './builder/load-npm.ts';

/** Says to a program that its connections go by way of the service, on descriptor 4. */
export const relayArgument = 'relayed';

export type BuilderProgram = 'bundler' | 'installer' | 'scanner' | 'git-reader';

export const builderFolder = fileURLToPath(new URL('./builder/', import.meta.url));
const esbuildMain = createRequire(import.meta.url).resolve('esbuild');

const paths = new Map<BuilderProgram, string>();

/**
 * The file that a builder process starts from: one that has all modules in it, npm's too. Reading and compiling 500 modules
 * takes longer than most installs. Where no such file can be kept, the module of the sources.
 */
export async function builderProgram(name: BuilderProgram): Promise<string> {
  const known = paths.get(name);
  if (known !== undefined && (await isThere(known))) return known;
  const path = (await ensureSharedProgram(programOf(name))) ?? join(builderFolder, `${name}-main.ts`);
  paths.set(name, path);
  return path;
}

function programOf(name: BuilderProgram): ChildProgram {
  return {
    name,
    entry: `src/components/builder/${name}-main.ts`,
    files: [
      ...['src/components/builder/*.ts', 'src/components/builder-programs.ts', 'package-lock.json'],
      ...['src/runner/sandbox/egress-*.ts', 'src/lib/*.ts'],
    ],
    bundling: { plugins: [npmInside, esbuildOutside], minifyWhitespace: true },
  };
}

/** Modules of npm's are loaded by a function that no bundler can follow; in a program they are required by their names. */
const npmInside: Plugin = {
  name: 'npm inside',
  setup({ onLoad }) {
    onLoad({ filter: /[/\\]builder[/\\]load-npm\.ts$/ }, ({ path }) => {
      const cases = npmModules.map(
        (name) => `case ${JSON.stringify(name)}: return require(${JSON.stringify(resolveNpm(name))});`,
      );
      return {
        contents: `export function loadNpm(name) { switch (name) { ${cases.join('\n')} } }`,
        loader: 'js',
        resolveDir: dirname(path),
      };
    });
  },
};

/** esbuild looks for its program beside itself. */
const esbuildOutside: Plugin = {
  name: 'esbuild outside',
  setup({ onResolve }) {
    onResolve({ filter: /^esbuild$/ }, () => ({ path: esbuildMain, external: true }));
  },
};
