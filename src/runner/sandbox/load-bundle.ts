import { isBuiltin, registerHooks } from 'node:module';
import { compileFunction, constants } from 'node:vm';
import { importsFrom, servePackages, serveProvided } from './package-imports.ts';
import { failureOf, refusalsInText, refuseAddons } from './refused-addons.ts';
import { forgetMap, rememberBundle } from './source-map.ts';

/** Node's own require. It is available because the harness is one CommonJS file. */
declare const require: (id: string) => unknown;

/**
 * Evaluates a bundle and returns its exports. The bundle contains everything except Node's own modules and, where there is a folder of
 * `packages`, those. In stack traces its code is in `folder`, which no other bundle of the process has used.
 */
export async function loadBundle(
  code: string,
  { format, folder, packages }: { format: 'cjs' | 'esm'; folder: string; packages: string | undefined },
): Promise<unknown> {
  const { code: own, provided } = serveProvided(code);
  if (packages !== undefined || provided.size > 0)
    return loadWithImports(own, folder, { packages, provided });
  const refusals = refusalsInText();
  try {
    return format === 'cjs' ? loadCommonJs(code, folder) : await loadModule(code, folder);
  } catch (error) {
    throw failureOf(error, refusals);
  }
}

/** Forgets a bundle that is no longer called. Node keeps its data about ES modules as long as the process lives. */
export function forgetBundle(folder: string): void {
  for (const name of [`${folder}/index.cjs`, `file://${folder}/index.mjs`]) {
    forgetMap(name);
    importsFrom.delete(name);
  }
}

function loadCommonJs(code: string, folder: string): unknown {
  const cjsFile = `${folder}/index.cjs`;
  rememberBundle(cjsFile, code);
  const run = compileFunction(code, ['exports', 'require', 'module', '__filename', '__dirname'], {
    filename: cjsFile,
    importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
  });
  const module = { exports: {}, id: '.', filename: cjsFile, loaded: false, children: [], paths: [] };
  run.call(module.exports, module.exports, builtinRequire, module, cjsFile, folder);
  module.loaded = true;
  return module.exports;
}

/** Loads the text under a file URL through a hook: `import.meta.url` and `createRequire` work, and nothing is read from disk. */
async function loadModule(code: string, folder: string): Promise<unknown> {
  const esmAddress = `file://${folder}/index.mjs`;
  rememberBundle(esmAddress, code);
  const hooks = registerHooks({
    resolve: (specifier, context, next) =>
      specifier === esmAddress
        ? { url: esmAddress, format: 'module', shortCircuit: true }
        : next(specifier, context),
    load: (url, context, next) =>
      url === esmAddress ? { format: 'module', source: code, shortCircuit: true } : next(url, context),
  });
  try {
    return await import(esmAddress);
  } finally {
    hooks.deregister();
  }
}

/** Uses the same URL as for a bundle without packages, so that stacks look the same. Only its imports come from elsewhere. */
async function loadWithImports(
  code: string,
  folder: string,
  imports: { packages: string | undefined; provided: ReadonlyMap<string, string> },
): Promise<unknown> {
  const address = `file://${folder}/index.mjs`;
  rememberBundle(address, code);
  servePackages();
  importsFrom.set(address, { code, ...imports });
  const { packages } = imports;
  const refusals = packages === undefined ? refusalsInText() : refuseAddons(packages, standInsOf(code));
  try {
    return await import(address);
  } catch (error) {
    throw failureOf(error, refusals);
  }
}

/** Packages that this bundle can use without their native addon. The builder writes them into its first line. */
function standInsOf(code: string): string[] {
  const [, names] = /^\/\/ without addons of: ([\w@./ -]+)\n/.exec(code) ?? [];
  return names?.split(' ') ?? [];
}

function builtinRequire(id: unknown): unknown {
  if (typeof id !== 'string' || !isBuiltin(id)) throw notFound(id);
  return require(id);
}

builtinRequire.resolve = (id: unknown): string => {
  if (typeof id !== 'string' || !isBuiltin(id)) throw notFound(id);
  return id;
};
builtinRequire.cache = {};
builtinRequire.extensions = {};
builtinRequire.main = undefined;

function notFound(id: unknown): Error {
  const error = new Error(
    `Cannot find module '${String(id)}': a component is one bundle and has only Node's own modules beside it`,
  );
  return Object.assign(error, { code: 'MODULE_NOT_FOUND' });
}
