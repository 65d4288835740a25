import { createHash } from 'node:crypto';
import { createRequire, isBuiltin, registerHooks } from 'node:module';
import { pathToFileURL } from 'node:url';

interface ImportingBundle {
  code: string;
  /** Folder with the `node_modules` for its imports. Without one it has only Node's own modules. */
  packages: string | undefined;
  /** URLs of the modules that came with its text, by the specifier of the import. */
  provided: ReadonlyMap<string, string>;
}

/** Bundles that import packages from files, by their URL. */
export const importsFrom = new Map<string, ImportingBundle>();
/** URLs of provided modules by the hash of their text, so that the same text under two names is one module. */
const addressesOfProvided = new Map<string, string>();
let isServing = false;

/**
 * Makes imports of these bundles start from their folder of packages. Imports between packages are resolved by Node as usual. The hooks stay,
 * because code may import at any time.
 */
export function servePackages(): void {
  if (isServing) return;
  isServing = true;
  registerHooks({
    resolve: (specifier, context, next) => {
      const own = importsFrom.get(specifier);
      if (own !== undefined) return { url: specifier, format: 'module', shortCircuit: true };
      const bundle = context.parentURL === undefined ? undefined : importsFrom.get(context.parentURL);
      if (bundle === undefined || isBuiltin(specifier)) return next(specifier, context);
      const provided = bundle.provided.get(specifier);
      if (provided !== undefined) return { url: provided, format: 'module', shortCircuit: true };
      if (bundle.packages === undefined) return next(specifier, context);
      const parent = `${bundle.packages}/index.mjs`;
      const required = (): { url: string; shortCircuit: true } => ({
        url: pathToFileURL(createRequire(parent).resolve(specifier)).href,
        shortCircuit: true,
      });
      // Node ignores `parentURL` for a require.
      if (context.conditions.includes('require')) return required();
      try {
        return next(specifier, { ...context, parentURL: pathToFileURL(parent).href });
      } catch (error) {
        // `lodash/get` without an extension: bundlers resolve it, so code that was written for them relies on it.
        if (!isLenient(error, specifier)) throw error;
        try {
          return required();
        } catch {
          throw error;
        }
      }
    },
    load: (url, context, next) => {
      const bundle = importsFrom.get(url);
      return bundle === undefined
        ? next(url, context)
        : { format: 'module', source: bundle.code, shortCircuit: true };
    },
  });
}

/**
 * Returns the text of a bundle without the modules in front of it, and the URL of each of these modules. The same module has the same URL for all
 * bundles of the process.
 */
export function serveProvided(text: string): { code: string; provided: ReadonlyMap<string, string> } {
  const provided = new Map<string, string>();
  const [line, lengths] = /^\/\/ provided: ([^\n]+)\n/.exec(text) ?? [];
  if (line === undefined || lengths === undefined) return { code: text, provided };
  let at = line.length;
  for (const entry of lengths.split(' ')) {
    const [name = '', length = ''] = entry.split('=');
    const code = text.slice(at, at + Number(length));
    at += Number(length);
    const hash = createHash('sha256').update(code).digest('hex');
    const address = addressesOfProvided.get(hash) ?? `file:///provided/${hash}/${name}.mjs`;
    addressesOfProvided.set(hash, address);
    importsFrom.set(address, { code, packages: undefined, provided: new Map() });
    provided.set(name, address);
  }
  return { code: text.slice(at), provided };
}

function isLenient(error: unknown, specifier: string): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  const isPath = /^(?:@[^/]+\/)?[^/@.][^/]*\//.test(specifier);
  return isPath && (code === 'ERR_MODULE_NOT_FOUND' || code === 'ERR_UNSUPPORTED_DIR_IMPORT');
}

/** Hides where packages are on this machine: paths in texts start at `node_modules`. */
export function withoutPackageFolders(text: string): string {
  let shown = text;
  for (const { packages } of importsFrom.values()) {
    if (packages === undefined) continue;
    shown = shown.replaceAll(`file://${packages}/`, '').replaceAll(`${packages}/`, '');
  }
  return shown;
}
