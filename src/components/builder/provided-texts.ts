import { build, type Plugin } from 'esbuild';
import type { BundleRequest } from './build-messages.ts';
import { loadPackageFile } from './package-files.ts';

export const importOfCreateRequire = "import { createRequire as __createRequire } from 'node:module';\n";

/**
 * The provided modules, each as one text apart from the component's: their sources cost ten times what
 * the component itself does, and is the same for all.
 */
export class ProvidedTexts {
  readonly #texts = new Map<string, Promise<string>>();

  /** `code` with these modules in front of it, as package-imports.ts of the sandbox takes it apart. */
  async before(code: string, names: Iterable<string>, request: BundleRequest): Promise<string> {
    const sorted = [...names].sort();
    const texts = await Promise.all(
      sorted.map((name) => this.#textOf(request.provided[name] ?? '', request)),
    );
    const lengths = sorted.map((name, at) => `${name}=${texts[at]?.length}`);
    return `// provided: ${lengths.join(' ')}\n${texts.join('')}${code}`;
  }

  #textOf(file: string, request: BundleRequest): Promise<string> {
    let text = this.#texts.get(file);
    if (text === undefined) {
      text = textOf(file, request);
      this.#texts.set(file, text);
      text.catch(() => this.#texts.delete(file));
    }
    return text;
  }
}

async function textOf(file: string, request: BundleRequest): Promise<string> {
  const ours: Plugin = {
    name: 'ours',
    setup: ({ onLoad }) =>
      onLoad({ filter: /.*/ }, ({ path, with: attributes }) =>
        loadPackageFile(path, attributes, request, { placed: new Set(), addons: new Set(), code: new Map() }),
      ),
  };
  const result = await build({
    entryPoints: [file],
    bundle: true,
    write: false,
    format: 'esm',
    platform: 'node',
    target: 'node26',
    absWorkingDir: request.folder,
    banner: { js: importOfCreateRequire },
    tsconfigRaw: {},
    charset: 'utf8',
    legalComments: 'none',
    minifyWhitespace: true,
    minifySyntax: true,
    logLevel: 'silent',
    plugins: [ours],
  });
  return withOwnRequire(result.outputFiles[0]?.text ?? '');
}

/** How esbuild asks, also where it leaves spaces out. */
const asksGlobal = ['((x) => typeof require !== "undefined" ? require :', '(x=>typeof require<"u"?require:'];

/** esbuild asks a global for what CommonJS code requires; a process with several trees has none that fits all. */
export function withOwnRequire(code: string): string {
  if (!code.includes('Dynamic require of "')) return code;
  const asked = asksGlobal.find((way) => code.includes(way));
  if (asked === undefined) throw new Error('assertion failed: esbuild makes require in another way');
  return code.replace(
    asked,
    `${asked.startsWith('((') ? '((x) =>' : '(x=>'}true?__createRequire(import.meta.url):`,
  );
}
