import { isBuiltin } from 'node:module';
import type { OnResolveArgs, OnResolveResult, Plugin, PluginBuild } from 'esbuild';
import { isRepositoryUrl } from '#components/component-url.ts';
import type { BuildProblem } from './build-messages.ts';
import { BuildFailure, type BuildRun } from './build-run.ts';
import { ownModuleName, pathOfOwnModule } from './own-module-name.ts';
import { withOwnMap } from './own-source-map.ts';
import { isInside, loaderByAttribute, loadPackageFile, packageOfFile } from './package-files.ts';
import { parsePackageSpecifier } from './package-specifier.ts';
import { isStrictText, keyOf } from './strict-modules.ts';
import { bytesOf } from './text-of.ts';

/** Stands for the entry, whose path may be anything. */
export const entryPoint = 'millrace-entry';

/** Marks a resolution by esbuild itself that the plugin requests, and must not handle again. */
const nativeOnly = 'native-only';

/**
 * Decides what each import is: a file of the component, a package, a module that the service provides, or one of Node. esbuild reads no
 * file itself, so that nothing outside the build's folder ends up in a bundle.
 */
export function confinement(run: BuildRun, asksForPackages: boolean): Plugin {
  const { request, entry, needed, own, seen } = run;
  return {
    name: 'confinement',
    setup(esbuild) {
      esbuild.onResolve({ filter: new RegExp(`^${entryPoint}$`) }, (args) =>
        args.kind === 'entry-point' ? { path: ownModuleName(entry), namespace: 'own' } : undefined,
      );
      const find = async (args: OnResolveArgs): Promise<OnResolveResult | undefined> => {
        if (args.pluginData === nativeOnly) return undefined;
        if (isBuiltin(args.path)) return { path: args.path, external: true };
        const provided = providedModule(args.path, request.provided);
        if (provided !== undefined) return resolveProvided(provided);
        return args.namespace === 'own' ? resolveFromOwn(esbuild, args) : resolveFromPackage(esbuild, args);
      };
      esbuild.onResolve({ filter: /.*/, namespace: 'own' }, find);
      const ofPackages = asksForPackages ? /.*/ : filterOf(Object.keys(request.provided));
      esbuild.onResolve({ filter: ofPackages, namespace: 'file' }, find);
      esbuild.onLoad({ filter: /.*/, namespace: 'own' }, (args) => {
        const file = own.get(pathOfOwnModule(args.path));
        if (file === undefined) return { errors: [{ text: `${args.path} is not a file of this component` }] };
        const loader = loaderByAttribute(args.with) ?? file.loader ?? loaderByExtension(file.path);
        if (file.encoding !== undefined) {
          if (loader === 'binary') return { contents: bytesOf(file), loader };
          const text = `${fileName(file.path)} is not text: import it with { type: "bytes" }`;
          return { errors: [{ text }] };
        }
        if (loader !== 'json' && loader !== 'text' && loader !== 'binary')
          seen.code.set(keyOf(args), { isStrict: isStrictText(file.text) });
        return {
          contents:
            loader === 'json' || loader === 'text' || loader === 'binary' ? file.text : withOwnMap(file.text),
          loader: loader === 'either' ? 'ts' : loader,
          resolveDir: request.folder,
        };
      });
      esbuild.onLoad({ filter: /.*/, namespace: 'file' }, (args) =>
        loadPackageFile(args.path, args.with, request, run.seen),
      );
      // Anything else (data: URLs, the empty modules of a `browser` map) holds no file.
    },
  };

  function resolveProvided(name: string): OnResolveResult {
    if (run.apart === undefined) return { path: request.provided[name] ?? '', namespace: 'file' };
    run.apart.add(name);
    return { path: name, external: true };
  }

  async function resolveFromOwn(
    esbuild: PluginBuild,
    args: OnResolveArgs,
  ): Promise<OnResolveResult | undefined> {
    const isUrl = /^https?:/i.test(args.path);
    // Fetched when it is built.
    if (run.form === 'joined' && isRepositoryUrl(args.path)) return { path: args.path, external: true };
    if (/^\.{1,2}(?:\/|$)/.test(args.path) || isUrl) {
      try {
        const file = await run.lookUp(pathOfOwnModule(args.importer), args.path);
        if (file === null) return unresolved(args, `there is no file for the import ${quote(args.path)}`);
        own.set(file.path, file);
        return { path: ownModuleName(file), namespace: 'own' };
      } catch (error) {
        if (error instanceof BuildFailure)
          return { errors: [{ text: error.message, detail: error.problem }] };
        throw error;
      }
    }
    const specifier = parsePackageSpecifier(args.path);
    if (specifier === null) return refused(args.path);
    if (request.aliases === undefined) {
      if (args.kind !== 'require-resolve') needed.add(specifier.request);
      return { path: args.path, external: true };
    }
    if (run.form === 'tree') {
      const installedAs = request.aliases[specifier.request] ?? specifier.name;
      return { path: installedAs + specifier.subpath, external: true };
    }
    return resolveNatively(esbuild, args);
  }

  async function resolveFromPackage(
    esbuild: PluginBuild,
    args: OnResolveArgs,
  ): Promise<OnResolveResult | undefined> {
    if (/^(?:https?:)?\/\//i.test(args.path)) return { path: args.path, external: true };
    return resolveNatively(esbuild, args);
  }

  /** Undefined lets esbuild resolve by itself as it just reported: its own result carries more than a plugin can return. */
  async function resolveNatively(
    esbuild: PluginBuild,
    args: OnResolveArgs,
  ): Promise<OnResolveResult | undefined> {
    const result = await esbuild.resolve(args.path, {
      importer: args.importer,
      namespace: args.namespace,
      resolveDir: args.resolveDir,
      kind: args.kind,
      with: args.with,
      pluginData: nativeOnly,
    });
    if (result.errors.length > 0) return unresolved(args, notFound(args));
    if (result.external || result.namespace !== 'file') return undefined;
    // A build folder may lie below a node_modules that is not its own (the data folder inside a project).
    const isFromProject =
      isInside(args.importer, request.projectModules) || isInside(args.importer, request.providedFolder);
    if (!isFromProject && !isInside(result.path, request.folder)) {
      return unresolved(args, notFound(args));
    }
    return undefined;
  }
}

function notFound({ path, namespace, importer }: OnResolveArgs): string {
  const specifier = namespace === 'file' ? parsePackageSpecifier(path) : null;
  const by = specifier === null ? '' : packageOfFile(importer);
  if (specifier === null || by === '') return `could not resolve ${quote(path)}`;
  // Only packages that the component names are installed: a package that is wrong about its dependencies could name anything.
  return `could not resolve ${quote(path)}, which the package ${quote(by)} does not declare: import ${quote(specifier.name)} in the component too`;
}

/** Node fails where the line runs; so does a `require` of something optional that is not there. */
function unresolved(args: OnResolveArgs, text: string): OnResolveResult {
  const isLazy =
    args.kind === 'require-call' || args.kind === 'require-resolve' || args.kind === 'dynamic-import';
  if (isLazy && args.namespace === 'file') return { path: args.path, external: true };
  return { errors: [{ text }] };
}

function refused(specifier: string): OnResolveResult {
  const isOfNode = specifier.startsWith('node:');
  const problem: BuildProblem = {
    kind: 'caller',
    code: 'unsupported_specifier',
    message: `the import ${quote(specifier)} is not supported${isOfNode ? ' (this Node has no such module, or it is switched off here, as node:sqlite is)' : ''}: expected a relative file, a module of Node, or an npm package with a version, range or tag`,
    details: { specifier: specifier.slice(0, 500) },
  };
  return { errors: [{ text: problem.message, detail: problem }] };
}

/** Imports of these packages, and a few more. */
function filterOf(names: readonly string[]): RegExp {
  return names.length === 0 ? /^$/ : new RegExp(`^(?:${names.join('|')})(?:@|$)`);
}

/** The name of `@pipedream/platform`, also with a version behind it. */
function providedModule(specifier: string, provided: Record<string, string>): string | undefined {
  const parsed = parsePackageSpecifier(specifier);
  if (parsed === null || parsed.subpath !== '' || !Object.hasOwn(provided, parsed.name)) return undefined;
  return parsed.name;
}

function fileName(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

function quote(text: string): string {
  return JSON.stringify(text.slice(0, 200));
}

export function loaderByExtension(path: string): 'js' | 'ts' | 'json' {
  if (/\.json$/.test(path)) return 'json';
  return /\.[mc]?js$/.test(path) ? 'js' : 'ts';
}
