import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { type Message, type Metafile, type Plugin, build as runEsbuild, transform } from 'esbuild';
import { bytesText } from '#lib/units.ts';
import type { BundleForm, BundleRequest, BundlerOutput, OwnFile } from './build-messages.ts';
import { BuildFailure, type BuildRun, type LookUp } from './build-run.ts';
import { describeErrors } from './bundle-errors.ts';
import { confinement, entryPoint, loaderByExtension } from './confinement-plugin.ts';
import { ownModuleName } from './own-module-name.ts';
import { mapComment } from './own-source-map.ts';
import { packageOfFile, type SeenPackages } from './package-files.ts';
import { importOfCreateRequire, type ProvidedTexts, withOwnRequire } from './provided-texts.ts';
import { packageFolderOf, readsBeside } from './reads-beside.ts';
import {
  type CommonJsModule,
  strictEntry,
  strictnessOf,
  strictText,
  withStrictFunction,
} from './strict-modules.ts';

const globalRequire = "globalThis.require ??= __createRequire('file:///component.js');";

/** The file name and folder that code in one text sees; a tree has a real place, which Node reports. */
const ownPlace = {
  'import.meta.url': '"file:///component.js"',
  'import.meta.filename': '"/component.js"',
  'import.meta.dirname': '"/"',
};

/** A package imports a file that is neither code nor data. */
const noLoader = /^No loader is configured for /;
const awaitNeedsEsm = /Top-level await is currently not supported with the "cjs" output format/;

/**
 * Makes one JavaScript text of the entry, its own files and its packages; without `aliases` and with imports of
 * packages, says which ones it needs instead. CommonJS unless the component awaits at its top level.
 *
 * As a tree the text has its own files only and imports packages where it runs: as ES module, in which Node decides what
 * an import of either kind of module gives. What we provide comes in front of it, as texts of their own.
 *
 * esbuild reads any file it is pointed to. So it reads none here: every file goes through `onLoad`, which checks its
 * real path and reads it in this process, under the permission flags.
 */
export async function bundle(
  request: BundleRequest,
  lookUp: LookUp,
  providedTexts: ProvidedTexts,
): Promise<BundlerOutput> {
  const entry = { ...request.entry, loader: await loaderOfEntry(request.entry) };
  const runAs = (form: BundleForm | 'joined', apart?: Set<string>): BuildRun => {
    const seen: SeenPackages = { placed: new Set(), addons: new Set(), code: new Map() };
    const own = new Map<string, OwnFile>([[entry.path, entry]]);
    return { request, entry, own, lookUp, form, apart, needed: new Set(), seen };
  };
  const { form } = request;
  if (form === 'joined') return refuseTooLarge(await join(runAs(form, new Set())), request);
  const whole = async (run: BuildRun) => refuseTooLarge(await build(run, providedTexts), request);
  if (request.aliases !== undefined)
    return whole(form === 'tree' ? runAs('tree', new Set()) : runAs('inline'));
  // The provided modules cost more than all the rest, and do not show which packages are needed.
  const apart = new Set<string>();
  const listing = runAs(form, apart);
  const listed = await build(listing, providedTexts);
  if (listed.type !== 'bundled') return listed;
  const specifiers = [...listing.needed].sort();
  const fitting = refuseTooLarge(listed, request);
  if (specifiers.length > 0) {
    const asTree = form === 'tree' && fitting.type === 'bundled' ? { asTree: fitting } : {};
    return { type: 'needs', specifiers, ...asTree };
  }
  const isWhole = form === 'tree' ? apart.size > 0 : apart.size === 0;
  return isWhole ? fitting : whole(runAs('inline'));
}

type BuildOutput = Extract<BundlerOutput, { type: 'bundled' | 'unfit' }>;

function refuseTooLarge(output: BuildOutput, { bundleBytesMax }: BundleRequest): BuildOutput {
  if (output.type !== 'bundled' || Buffer.byteLength(output.code) <= bundleBytesMax) return output;
  const message = `the component with its packages is larger than ${bytesText(bundleBytesMax)}`;
  return { type: 'unfit', problem: { kind: 'caller', code: 'component_too_large', message, details: {} } };
}

/** Throws BuildFailure for what is wrong with the component itself. */
async function build(run: BuildRun, providedTexts: ProvidedTexts): Promise<BuildOutput> {
  const { request, seen } = run;
  const outcome = await runInAnyFormat(run);
  if ('errors' in outcome) {
    const problem = describeErrors(outcome.errors, request.folder);
    if (outcome.errors.every((error) => noLoader.test(error.text) || isOfPackage(error)))
      return { type: 'unfit', problem };
    throw new BuildFailure(problem);
  }
  const code = await withProvided(run, outcome.code + outcome.map, providedTexts);
  const { format, metafile } = outcome;
  const beside = await packagesThatReadBeside(metafile, request.folder, seen);
  return { type: 'bundled', code, format, beside, addons: [...seen.addons] };
}

/** The component's own files as one text. Imports of packages stay as they are, in the way in which they are found when it is built. */
async function join(run: BuildRun): Promise<BuildOutput> {
  const asModule = await runBuild(run, 'esm');
  // An ES module has no `require` of packages.
  const outcome = requiresPackages(asModule) ? await runBuild(run, 'cjs') : asModule;
  if ('errors' in outcome) throw new BuildFailure(describeErrors(outcome.errors, run.request.folder));
  const { code, format } = outcome;
  return { type: 'bundled', code, format, beside: [], addons: [] };
}

function requiresPackages(outcome: BuildOutcome): boolean {
  if ('errors' in outcome) return false;
  return Object.values(outcome.metafile.outputs).some(({ imports }) =>
    imports.some(({ kind, external }) => external === true && kind === 'require-call'),
  );
}

async function runInAnyFormat(run: BuildRun): Promise<BuildOutcome> {
  const outcome = await runBuild(run, run.form === 'tree' ? 'esm' : 'cjs');
  const needsEsm = 'errors' in outcome && outcome.errors.some((error) => awaitNeedsEsm.test(error.text));
  return needsEsm ? runBuild(run, 'esm') : outcome;
}

async function withProvided(
  { request, form, apart }: BuildRun,
  code: string,
  providedTexts: ProvidedTexts,
): Promise<string> {
  if (form !== 'tree') return code;
  const own = withOwnRequire(code);
  return apart === undefined || apart.size === 0 ? own : providedTexts.before(own, apart, request);
}

/** Only of files that are a part of the bundle: much of what was read is not. */
async function packagesThatReadBeside(
  metafile: Metafile,
  folder: string,
  seen: SeenPackages,
): Promise<string[]> {
  const found = new Set<string>();
  const inputs = Object.values(metafile.outputs).flatMap(({ inputs }) => Object.entries(inputs));
  for (const [path, { bytesInOutput }] of inputs) {
    const file = resolve(folder, path);
    const name = packageOfFile(file);
    if (bytesInOutput === 0 || found.has(name) || !seen.placed.has(file)) continue;
    if (await readsBeside(await readFile(file, 'utf8'), packageFolderOf(file))) found.add(name);
  }
  return [...found].sort();
}

/** A file of a package that esbuild does not understand: Node may. */
function isOfPackage({ pluginName, location }: Message): boolean {
  return pluginName === '' && /(?:^|[/\\])node_modules[/\\]/.test(location?.file ?? '');
}

async function loaderOfEntry(entry: OwnFile): Promise<'js' | 'ts' | 'json'> {
  if (entry.loader !== undefined && entry.loader !== 'either') return entry.loader;
  if (entry.loader === undefined) return loaderByExtension(entry.path);
  // As JavaScript first: TypeScript drops imports that look unused, and their side effects with them.
  const isJavaScript = await transform(entry.text, { loader: 'js', logLevel: 'silent' }).then(
    () => true,
    () => false,
  );
  return isJavaScript ? 'js' : 'ts';
}

/** `map`: the comment that ends the text. */
interface BuiltText {
  code: string;
  map: string;
  format: 'cjs' | 'esm';
  metafile: Metafile;
}

type BuildOutcome = BuiltText | { errors: Message[] };

/**
 * Asking for each import of a package where it leads triples what a bundle costs. So esbuild finds that out alone at
 * first, and what it finds is still looked at when it is loaded; only when something is wrong it is asked step by step, for
 * what may be missing and for errors that say who wanted what.
 */
async function runBuild(run: BuildRun, format: 'cjs' | 'esm'): Promise<BuildOutcome> {
  const outcome = await buildOnce(run, format, false);
  const asksForPackages = 'errors' in outcome && outcome.errors.some(({ text }) => !awaitNeedsEsm.test(text));
  const whole = asksForPackages ? await buildOnce(run, format, true) : outcome;
  return 'errors' in whole || format === 'esm' ? whole : withStrictModules(run, whole, asksForPackages);
}

/** A CommonJS text in which ES modules are strict: strict-modules.ts. */
async function withStrictModules(
  run: BuildRun,
  whole: BuiltText,
  asksForPackages: boolean,
): Promise<BuildOutcome> {
  const entry = { namespace: 'own', path: ownModuleName(run.entry) };
  const pathOf = (input: string): CommonJsModule =>
    input.startsWith('own:')
      ? { namespace: 'own', path: input.slice('own:'.length) }
      : { namespace: 'file', path: resolve(run.request.folder, input) };
  const strictness = strictnessOf(whole.metafile, entry, run.seen.code, pathOf);
  if (strictness.kind === 'none') return whole;
  if (strictness.kind === 'all') return { ...whole, code: strictText + whole.code };
  const ordered = await buildOnce(
    run,
    'cjs',
    asksForPackages,
    strictEntry(entryPoint, entry, strictness.commonJs),
  );
  const code = 'errors' in ordered ? undefined : withStrictFunction(ordered.code);
  // What cannot be made so is as it was: it is good but for this.
  return 'errors' in ordered || code === undefined ? whole : { ...ordered, code };
}

async function buildOnce(
  run: BuildRun,
  format: 'cjs' | 'esm',
  asksForPackages: boolean,
  ...before: Plugin[]
): Promise<BuildOutcome> {
  const isEsm = format === 'esm';
  const isTree = run.form === 'tree';
  const isJoined = run.form === 'joined';
  try {
    const result = await runEsbuild({
      entryPoints: [entryPoint],
      bundle: true,
      write: false,
      format,
      platform: 'node',
      target: 'node26',
      absWorkingDir: run.request.folder,
      alias: run.request.aliases ?? {},
      // The import() of a CommonJS bundle would need the runner's loader; require() of what is inlined does not.
      supported: isEsm || isJoined ? {} : { 'dynamic-import': false },
      define: isJoined
        ? {}
        : {
            ...(isTree ? {} : ownPlace),
            __filename: '"/component.js"',
            __dirname: '"/"',
          },
      // A global, since a constant of that name would collide with a component that makes its own `require`.
      banner:
        isEsm && !isJoined
          ? { js: standInLine(run) + importOfCreateRequire + (isTree ? '' : globalRequire) }
          : {},
      tsconfigRaw: {},
      charset: 'utf8',
      legalComments: 'none',
      logLevel: 'silent',
      outfile: 'component.js',
      sourcemap: 'external',
      sourcesContent: false,
      metafile: true,
      plugins: [...before, confinement(run, asksForPackages)],
    });
    const [code = '', map = ''] = ['.js', '.js.map'].map(
      (end) => result.outputFiles.find(({ path }) => path.endsWith(`component${end}`))?.text,
    );
    return { code, map: mapComment(map, run.entry), format, metafile: result.metafile };
  } catch (error) {
    if (isBuildFailure(error)) return { errors: error.errors };
    throw error;
  }
}

/** Read by the sandbox. Names of packages have none of the characters that would end it. */
function standInLine({ form, request: { standIns = [] } }: BuildRun): string {
  const names = standIns.filter((name) => /^[\w@./-]+$/.test(name));
  return form === 'tree' && names.length > 0 ? `// without addons of: ${names.join(' ')}\n` : '';
}

function isBuildFailure(error: unknown): error is { errors: Message[] } {
  return (
    error instanceof Error && 'errors' in error && Array.isArray(error.errors) && error.errors.length > 0
  );
}
