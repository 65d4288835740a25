import { readFile, realpath } from 'node:fs/promises';
import { extname, sep } from 'node:path';
import type { Loader, OnLoadResult } from 'esbuild';
import type { BundleRequest } from './build-messages.ts';
import { withRelativeRequires } from './folder-requires.ts';
import { withoutMap } from './own-source-map.ts';
import { namesItsPlace } from './reads-beside.ts';
import { isStrictText, keyOf, type SeenCode } from './strict-modules.ts';

/** What was seen of the packages while their files were read. */
export interface SeenPackages {
  /** Real paths of files that name their own place on the disk. */
  placed: Set<string>;
  /** Packages that bring a native addon. */
  addons: Set<string>;
  /** All code that was read. */
  code: SeenCode;
}

/** A file of a package, of the provided modules, or of the project, as esbuild sees it; nothing outside these folders. */
export async function loadPackageFile(
  path: string,
  attributes: Record<string, string>,
  request: BundleRequest,
  seen: SeenPackages,
): Promise<OnLoadResult> {
  const real = await realpath(path).catch(() => null);
  const roots = [request.folder, request.providedFolder, request.projectModules];
  if (real === null || !roots.some((root) => isInside(real, root))) {
    return { errors: [{ text: 'an import leaves the folder of the component' }] };
  }
  if (extname(real) === '.node') {
    const name = packageOfFile(real);
    seen.addons.add(name);
    return { contents: failingAddon(name), loader: 'js' };
  }
  const loader = loaderByAttribute(attributes) ?? loaderOfPackageFile(real);
  const contents = await readFile(real);
  if (!isCode(real, loader)) return { contents, loader };
  const code = withRelativeRequires(contents);
  seen.code.set(keyOf({ namespace: 'file', path }), { isStrict: isStrictText(headOf(code)) });
  if (isInside(real, request.folder) && namesItsPlace(code)) seen.placed.add(real);
  return { contents: withoutMap(code), loader };
}

/** Enough for a licence and the directive behind it. */
function headOf(code: Uint8Array): string {
  return Buffer.from(code.buffer, code.byteOffset, Math.min(code.byteLength, 64 * 1024)).toString('utf8');
}

/**
 * Fails where Node does: at the line that loads it, which may well expect that. It leaves a note for the sandbox, since a
 * package may make another error of it.
 */
function failingAddon(name: string): string {
  const message = `the package ${JSON.stringify(name)} needs a native addon, which components may not load here`;
  return `globalThis[Symbol.for('millrace.refused-addon')] = ${JSON.stringify(name)};
throw Object.assign(new Error(${JSON.stringify(message)}), { code: 'ERR_DLOPEN_DISABLED' });`;
}

function loaderOfPackageFile(path: string): Loader {
  return /^\.[cm]?js$/.test(extname(path)) || extname(path) === '' ? 'js' : 'default';
}

function isCode(path: string, loader: Loader): boolean {
  return loader === 'js' || (loader === 'default' && /\.[cm]?[jt]sx?$/.test(path));
}

export function loaderByAttribute(attributes: Record<string, string>): Loader | undefined {
  if (attributes.type === 'json') return 'json';
  if (attributes.type === 'text') return 'text';
  if (attributes.type === 'bytes') return 'binary';
  return undefined;
}

export function isInside(path: string, folder: string): boolean {
  return path.startsWith(folder.endsWith(sep) ? folder : folder + sep);
}

/** The name of the package whose file it is; '' for none. */
export function packageOfFile(path: string): string {
  const parts = path.split(sep);
  const at = parts.lastIndexOf('node_modules');
  if (at < 0) return '';
  const first = parts[at + 1] ?? '';
  return first.startsWith('@') ? `${first}/${parts[at + 2] ?? ''}` : first;
}
