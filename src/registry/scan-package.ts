import { posix } from 'node:path';
import type { ComponentHead, ScanOutput } from '#components/builder/build-messages.ts';
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
 * It is the turn of `ownerId`; absent: of the instance.
 */
export async function scanPackage(
  files: readonly PackageFile[],
  fetcher: Pick<PackageFetcher, 'scan'>,
  ownerId?: string,
): Promise<ScannedPackage> {
  const problems: FileProblem[] = [];
  const candidates = files.filter((file) => {
    const isCandidate = mayBeComponent(file);
    if (!isCandidate || file.text.length <= fileBytesMax) return isCandidate;
    problems.push({ path: file.path, message: `the file is larger than ${bytesText(fileBytesMax)}` });
    return false;
  });
  candidates.sort((a, b) => (a.path < b.path ? -1 : 1));
  const readings = await fetcher.scan(candidates, ownerId);
  const slugs = new Map<string, string>();
  for (const [index, { path }] of candidates.entries()) {
    const { head } = readings[index] ?? {};
    const slug = appFilePattern.test(path) && head ? slugIn(head) : undefined;
    if (slug !== undefined) slugs.set(posix.dirname(path), slug);
  }
  const found = new Map<string, ScannedComponent>();
  for (const [index, { path }] of candidates.entries()) {
    if (appFilePattern.test(path)) continue;
    const said = readComponent(path, readings[index] ?? { head: null });
    if (said === null) continue;
    if ('problem' in said) {
      problems.push({ path, message: said.problem });
      continue;
    }
    const first = found.get(said.key);
    if (first !== undefined) {
      // Published packages hold the output of their compiler beside its input.
      if (!path.split('/').includes('dist'))
        problems.push({ path, message: `the key ${said.key} is that of ${first.path} already` });
      continue;
    }
    found.set(said.key, { path, ...said, app: appOf(path, said.key, slugs) });
  }
  return { components: [...found.values()], apps: [...new Set(slugs.values())].sort(), problems };
}

/** What a file says of the component in it, or why that cannot be used; null: it is no component, and is not meant to be one. */
export function readComponent(
  path: string,
  { head, problem }: ScanOutput['readings'][number],
): Omit<ScannedComponent, 'path' | 'app'> | { problem: string } | null {
  const folder = kindFolderOf(path);
  if (problem !== undefined)
    return folder === undefined ? null : { problem: `the file does not parse: ${problem}` };
  const kind = kindOf(head?.type) ?? (head?.type === undefined ? folder?.kind : undefined);
  if (head?.key === undefined || kind === undefined || (folder === undefined && head.type === undefined)) {
    // Files beside a component are its helpers; one that has the name of its folder is meant to be one.
    const isMeant = folder !== undefined && isNamedLikeFolder(path);
    return isMeant ? { problem: noComponent(head !== null, head?.type) } : null;
  }
  if (!isKey(head.key))
    return { problem: `the key ${JSON.stringify(head.key.slice(0, 100))} cannot be used` };
  return {
    key: head.key,
    kind,
    name: shownText(head.name ?? head.key, textBytesMax),
    version: shownText(head.version ?? '', keyBytesMax),
    description: shownText(head.description ?? '', textBytesMax),
  };
}

/** The slug that app files say for a component at this path; else the first word of its key. */
export function appOf(path: string, key: string, slugs: ReadonlyMap<string, string>): string {
  return slugOf(path, slugs) ?? key.split('-', 1)[0] ?? key;
}

/** The slug of an app file, as it is stored. */
export function slugIn(head: ComponentHead): string | undefined {
  return head.app === undefined ? undefined : shownText(head.app, keyBytesMax);
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

/** What an address of the API and `key@version` can hold. Names that every object has are none: programs keep components in objects by key. */
function isKey(key: string): boolean {
  if (key in Object.prototype) return false;
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
