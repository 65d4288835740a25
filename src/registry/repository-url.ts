import { realpath, stat } from 'node:fs/promises';
import { isAbsolute, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { CallerError } from '#lib/errors.ts';

const urlMax = 2_000;
const refMax = 250;

/** Where a repository is, as it is stored: an https URL without a trailing slash, or an absolute path. Throws CallerError. */
export function readRepositoryUrl(text: string): string {
  const invalid = (found: string): CallerError =>
    new CallerError(
      'invalid_parameter',
      `url: ${found}, expected an https URL, or the absolute path of a clone on the machine of the service`,
      { parameter: 'url' },
    );
  if (text.length > urlMax || /\p{Cc}/u.test(text)) throw invalid('found no URL');
  if (isAbsolute(text)) return text.replace(/(?<=.)\/+$/, '');
  const url = URL.parse(text);
  if (url === null) throw invalid(`found ${JSON.stringify(withoutUser(text).slice(0, 200))}`);
  if (url.protocol === 'file:' && url.host === '') {
    const path = pathOf(url);
    if (path === undefined) throw invalid('found a file URL with an encoded slash or control character');
    return path.replace(/(?<=.)\/+$/, '');
  }
  if (url.protocol !== 'https:') throw invalid(`found a URL with ${JSON.stringify(url.protocol)}`);
  if (url.username !== '' || url.password !== '') throw invalid('found a user name or password in it');
  if (url.search !== '' || url.hash !== '') throw invalid('found a query or a fragment in it');
  return url.href.replace(/\/+$/, '');
}

/** What stands before the last `@` may be a password. */
function withoutUser(text: string): string {
  const end = text.lastIndexOf('@');
  return end === -1 ? text : `…${text.slice(end)}`;
}

/** Undefined for a file URL that names no path. */
function pathOf(url: URL): string | undefined {
  try {
    const path = fileURLToPath(url);
    return /\p{Cc}/u.test(path) ? undefined : path;
  } catch {
    return undefined;
  }
}

/** A branch, a tag or a commit, by the rules of Git for names. Throws CallerError. */
export function readRepositoryRef(ref: string): string {
  const isUsable =
    ref.length <= refMax &&
    !/[\s\p{Cc}~^:?*[\\]|\.\.|@\{|\/\/|\.lock(?:\/|$)|(?:^|\/)\.|[./]$/u.test(ref) &&
    !ref.startsWith('-') &&
    !ref.startsWith('/');
  if (isUsable) return ref;
  throw new CallerError(
    'invalid_parameter',
    `ref: found ${JSON.stringify(ref.slice(0, 200))}, expected the name of a branch or tag, or a commit`,
    { parameter: 'ref' },
  );
}

export function isClone(url: string): boolean {
  return isAbsolute(url);
}

/** The real path of the folder of a clone that has its objects. Throws CallerError `repository_refused`. */
export async function cloneFolder(path: string): Promise<string> {
  const refused = (what: string): CallerError =>
    new CallerError('repository_refused', `${path} ${what}`, { url: path });
  const root = await realpath(path).catch(() => null);
  if (root === null) throw refused('is not there, or cannot be read by the service');
  const inside = join(root, '.git');
  const kind = await stat(inside).catch(() => null);
  if (kind?.isFile() === true) throw refused('is a worktree: give the path of the clone that it is of');
  const folder = kind?.isDirectory() === true ? await realpath(inside) : root;
  // A folder `.git` that is a link to somewhere else is not that of this clone.
  if (folder !== root && folder !== inside) throw refused('has a link in the place of its folder .git');
  const objects = await stat(join(folder, 'objects')).catch(() => null);
  if (objects?.isDirectory() !== true)
    throw refused('is no clone of a Git repository: give the folder that git clone made');
  return folder;
}

/** Where a component comes from, as it is stored with it: an address, the commit, and the path of its file. */
export function originOf({ url, commit, path }: GitOrigin): string {
  return `git+${isClone(url) ? `file://${url}` : url}#${commit}:${path}`;
}

export interface GitOrigin {
  url: string;
  commit: string;
  path: string;
}

/** Null for a component that comes from somewhere else. */
export function readOrigin(text: string | null): GitOrigin | null {
  const [, url, commit, path] = /^git\+(.*)#([0-9a-f]{40}):(.*)$/s.exec(text ?? '') ?? [];
  if (url === undefined || commit === undefined || path === undefined) return null;
  return { url: url.replace(/^file:\/\//, ''), commit, path };
}
