import type { Metafile, Plugin } from 'esbuild';
import { tokensOf } from './js-tokens.ts';
import { withoutMap } from './own-source-map.ts';

/**
 * ES modules are strict, and CommonJS is what it says; in the one CommonJS text that esbuild makes of both, nothing is strict but
 * CommonJS that says so. Strictness goes from a scope to those inside it, and esbuild puts each CommonJS module into a
 * function, and the code of all ES modules beside them. So where all CommonJS is strict anyway, the whole text is. Where it is
 * not, the text is made once more, with all CommonJS in front of the ES modules, and a strict function around these.
 *
 * ES modules that CommonJS requires stay among the CommonJS, and are not strict.
 */
export type Strictness =
  | { kind: 'all' }
  /** A text with a CommonJS entry is left as it is. */
  | { kind: 'none' }
  /** CommonJS to put in front, as esbuild names it. */
  | { kind: 'modules'; commonJs: CommonJsModule[] };

export interface CommonJsModule {
  namespace: string;
  path: string;
}

/** Code that esbuild was given, by `keyOf`. */
export type SeenCode = Map<string, { isStrict: boolean }>;

export function keyOf({ namespace, path }: CommonJsModule): string {
  return `${namespace}:${path}`;
}

/** True when a text begins with the directive. */
export function isStrictText(text: string): boolean {
  for (const { kind, text: value } of tokensOf(text)) {
    if (kind === 'string' && value === 'use strict') return true;
    if (kind !== 'string' && value !== ';') return false;
  }
  return false;
}

/** How the ES modules of a text become strict. `pathOf`: a file of the metafile as esbuild was given it. */
export function strictnessOf(
  { inputs, outputs }: Metafile,
  entry: CommonJsModule,
  seen: SeenCode,
  pathOf: (input: string) => CommonJsModule,
): Strictness {
  if (inputs[keyOf(entry)]?.format !== 'esm') return { kind: 'none' };
  const used = Object.values(outputs).flatMap((output) =>
    Object.entries(output.inputs).flatMap(([path, { bytesInOutput }]) => (bytesInOutput > 0 ? [path] : [])),
  );
  // Files without imports and exports are CommonJS to Node in packages; the component's own are its modules.
  const commonJs = used
    .map((path) => ({ format: inputs[path]?.format, module: pathOf(path) }))
    .filter(({ format, module }) => format === 'cjs' || (format === undefined && module.namespace === 'file'))
    .map(({ module }) => module)
    .filter((module) => seen.has(keyOf(module)));
  const isStrict = commonJs.every((module) => seen.get(keyOf(module))?.isStrict);
  return isStrict ? { kind: 'all' } : { kind: 'modules', commonJs };
}

/** In front of what esbuild made, on its first line, which no line of a file is on. */
export const strictText = '"use strict";';

const namespace = 'strict';
const mark = '__millraceStrictFromHere__();';

/** Instead of the entry: first all CommonJS, none of which runs by that, then the mark, then the component. */
export function strictEntry(
  entryPoint: string,
  entry: CommonJsModule,
  commonJs: readonly CommonJsModule[],
): Plugin {
  const requires = commonJs.map((_module, index) => `require("cjs:${index}");`);
  const texts: Record<string, string> = {
    entry: `import "first"; import "from-here"; import * as component from "component";
      module.exports = Object.defineProperties({}, { ...Object.getOwnPropertyDescriptors(component), __esModule: { value: true } });`,
    first: `if ([].length > 0) { ${requires.join(' ')} }`,
    'from-here': mark,
  };
  return {
    name: 'strict-modules',
    setup(esbuild) {
      esbuild.onResolve({ filter: new RegExp(`^${entryPoint}$`) }, (args) =>
        args.kind === 'entry-point' ? { path: 'entry', namespace } : undefined,
      );
      esbuild.onResolve({ filter: /.*/, namespace }, ({ path }) => {
        if (path === 'component') return { ...entry };
        const module = commonJs[Number(/^cjs:(\d+)$/.exec(path)?.[1])];
        return module === undefined ? { path, namespace } : { ...module };
      });
      esbuild.onLoad({ filter: /.*/, namespace }, ({ path }) => ({
        contents: withoutMap(Buffer.from(texts[path] ?? '')),
        loader: 'js',
      }));
    },
  };
}

/** The text with a strict function from the mark on, on the same lines; undefined where the mark is not what it should be. */
export function withStrictFunction(code: string): string | undefined {
  const line = `\n${mark}\n`;
  const at = code.indexOf(line);
  if (at === -1 || code.includes(line, at + 1)) return undefined;
  return `${code.slice(0, at)}\n(() => { ${strictText}\n${code.slice(at + line.length)}})();\n`;
}
