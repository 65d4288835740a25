import type { OwnFile } from './build-messages.ts';

/** esbuild imports as Node does where the name of the importing file ends so. */
const mark = '#.mjs';

const esm = /^[ \t]*(?:import\b(?!\s*\()|export\b)/m;
const commonJs = /\b(?:module\s*\.\s*exports|exports\s*\.\s*[\w$]+\s*=|require\s*\()/;
const kindByName = /\.(?:[mc][jt]s|json)$/;

/**
 * What a file of the component is called inside esbuild. Code that is written as an ES module ran as one in Node, where the
 * default import of a CommonJS package is its `module.exports`; bundlers think otherwise of any file that is not named
 * `.mjs`, and of code that has no name at all.
 */
export function ownModuleName({ path, text, encoding }: OwnFile): string {
  const isModule = encoding === undefined && !kindByName.test(path) && esm.test(text) && !commonJs.test(text);
  return isModule ? path + mark : path;
}

/** The path of the file behind such a name. */
export function pathOfOwnModule(name: string): string {
  return name.endsWith(mark) ? name.slice(0, -mark.length) : name;
}
