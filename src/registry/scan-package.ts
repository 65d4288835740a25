import { posix } from 'node:path';
import type { PackageFetcher, PackageFile } from '#components/package-fetcher.ts';
import { bytesText } from '#lib/units.ts';
import { type ComponentKind, componentKinds } from '#storage/tables/registry-tables.ts';

/** A component of a package, as its text says. */
export interface ScannedComponent {
  path: string;
  key: string;
  kind: ComponentKind;
  /** Slug of its app. */
  app: string;
  name: string;
  version: string;
  description: string;
}

/** The problem of one file; the rest of the package is usable. */
export interface FileProblem {
  path: string;
  message: string;
}

export interface ScannedPackage {
  components: ScannedComponent[];
  /** Slugs of the apps that the package has an app file of. */
  apps: string[];
  problems: FileProblem[];
}

/** Longest file that is read for a component. */
const fileBytesMax = 2 * 1024 * 1024;
const keyBytesMax = 200;
const textBytesMax = 4_000;

const codePattern = /\.[mc]?[jt]s$/;
const appFilePattern = /\.app\.[mc]?[jt]s$/;
const kinds = { source: 'sources', action: 'actions' } as const;

/**
 * Finds the components of a package by where files are and what they say: files below `actions` and `sources` (not below
 * `common`), and any other that names both a key and a type. Nothing is evaluated. The first file with a key has it.
 */
export async function scanPackage(
  files: readonly PackageFile[],
  fetcher: Pick<PackageFetcher, 'scan'>,
): Promise<ScannedPackage> {
  const problems: FileProblem[] = [];
  const candidates = files.filter((file) => {
    const isCandidate = mayBeComponent(file);
    if (!isCandidate || file.text.length <= fileBytesMax) return isCandidate;
    problems.push({ path: file.path, message: `the file is larger than ${bytesText(fileBytesMax)}` });
    return false;
  });
  candidates.sort((a, b) => (a.path < b.path ? -1 : 1));
  const readings = await fetcher.scan(candidates);
  const slugs = new Map<string, string>();
  for (const [index, { path }] of candidates.entries()) {
    const { head } = readings[index] ?? {};
    if (appFilePattern.test(path) && head?.app !== undefined)
      slugs.set(posix.dirname(path), shownText(head.app, keyBytesMax));
  }
  const found = new Map<string, ScannedComponent>();
  for (const [index, { path }] of candidates.entries()) {
    if (appFilePattern.test(path)) continue;
    const folder = kindFolderOf(path);
    const { head = null, problem } = readings[index] ?? {};
    if (problem !== undefined) {
      if (folder !== undefined) problems.push({ path, message: `the file does not parse: ${problem}` });
      continue;
    }
    const kind = kindOf(head?.type) ?? (head?.type === undefined ? folder?.kind : undefined);
    if (head?.key === undefined || kind === undefined || (folder === undefined && head.type === undefined)) {
      // Files beside a component are its helpers; one that has the name of its folder is meant to be one.
      if (folder !== undefined && isNamedLikeFolder(path))
        problems.push({ path, message: noComponent(head !== null, head?.type) });
      continue;
    }
    if (!isKey(head.key)) {
      problems.push({ path, message: `the key ${JSON.stringify(head.key.slice(0, 100))} cannot be used` });
      continue;
    }
    const first = found.get(head.key);
    if (first !== undefined) {
      // Published packages hold the output of their compiler beside its input.
      if (!path.split('/').includes('dist'))
        problems.push({ path, message: `the key ${head.key} is that of ${first.path} already` });
      continue;
    }
    found.set(head.key, {
      path,
      key: head.key,
      kind,
      app: slugOf(path, slugs) ?? head.key.split('-', 1)[0] ?? head.key,
      name: shownText(head.name ?? head.key, textBytesMax),
      version: shownText(head.version ?? '', keyBytesMax),
      description: shownText(head.description ?? '', textBytesMax),
    });
  }
  return { components: [...found.values()], apps: [...new Set(slugs.values())].sort(), problems };
}

function mayBeComponent({ path, text, encoding }: PackageFile): boolean {
  if (encoding !== undefined) return false;
  if (!codePattern.test(path) || /\.d\.[mc]?ts$|\.(?:test|spec)\.|(?:^|\/)test-event\./.test(path))
    return false;
  const folders = path.split('/').slice(0, -1);
  if (folders.includes('node_modules')) return false;
  if (appFilePattern.test(path)) return true;
  if (folders.includes('common')) return false;
  return kindFolderOf(path) !== undefined || (/\bkey\b/.test(text) && /\btype\b/.test(text));
}

/** The folder `actions` or `sources` that a file is below. */
function kindFolderOf(path: string): { kind: ComponentKind; at: number } | undefined {
  const folders = path.split('/').slice(0, -1);
  const at = Math.max(...componentKinds.map((kind) => folders.lastIndexOf(kind)));
  const kind = componentKinds.find((known) => known === folders[at]);
  return kind === undefined ? undefined : { kind, at };
}

function kindOf(type: string | undefined): ComponentKind | undefined {
  return type === 'source' || type === 'action' ? kinds[type] : undefined;
}

function isNamedLikeFolder(path: string): boolean {
  return posix.basename(path).replace(codePattern, '') === posix.basename(posix.dirname(path));
}

function noComponent(hasObject: boolean, type: string | undefined): string {
  if (!hasObject) return 'the file exports no object that could be read as a component';
  return type === undefined || kindOf(type) !== undefined
    ? 'no key could be read: expected `key: "…"` in the exported object'
    : `the type ${JSON.stringify(type.slice(0, 100))} is neither "source" nor "action"`;
}

/** As it can be stored and shown: bounded, without what no database takes in a text. */
function shownText(text: string, max: number): string {
  return text.replaceAll('\0', '').slice(0, max).toWellFormed();
}

/** What an address of the API and `key@version` can hold. */
function isKey(key: string): boolean {
  return key.length <= keyBytesMax && /^[\w.~-]+$/.test(key) && !key.startsWith('sc_') && !/^\.+$/.test(key);
}

/** The slug that the nearest app file says: in a folder above the component, or in `app` there. */
function slugOf(path: string, slugs: ReadonlyMap<string, string>): string | undefined {
  const folders = path.split('/').slice(0, -1);
  for (let length = folders.length; length >= 0; length -= 1) {
    const folder = folders.slice(0, length).join('/');
    const slug = slugs.get(folder === '' ? '.' : folder) ?? slugs.get(posix.join(folder, 'app'));
    if (slug !== undefined) return slug;
  }
  return undefined;
}
