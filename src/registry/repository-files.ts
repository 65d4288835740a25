import { posix } from 'node:path';
import type { FileEntry } from '#components/builder/git-messages.ts';
import type { ReadStored } from '#components/own-files.ts';
import type { PackageFile } from '#components/package-fetcher.ts';
import { CallerError, UnavailableError } from '#lib/errors.ts';
import { Slots } from '#lib/slots.ts';
import { OpenRepository, type RepositoryOptions } from './open-repository.ts';

/** Repositories that are open for a component at a time: each has a process. */
const openMax = 2;
const waitingMax = 64;
/** What one component may take, its build included, which has limits of its own. */
const limits = {
  cpuMs: 2 * 60_000,
  deadlineMs: 20 * 60_000,
  filesTimeoutMs: 3 * 60_000,
};
/** Files of an app that are fetched with its first one. */
const togetherMax = 400;

export interface CommitFile {
  repositoryId: string;
  url: string;
  commit: string;
  /** The file of a component. */
  path: string;
}

/** The files of commits, for the components that are used: fetched for a build, and not kept. */
export class RepositoryFiles {
  readonly #options: RepositoryOptions;
  readonly #slots = new Slots(openMax);
  readonly #closing = new AbortController();
  readonly #running = new Set<Promise<unknown>>();

  constructor(options: RepositoryOptions) {
    this.#options = { ...options, limits: { ...options.limits, ...limits } };
  }

  /** `work` reads files of the commit. Throws what opening a repository does, UnavailableError `builder_busy`, and what `work` does. */
  async use<T>(file: CommitFile, work: (read: ReadStored) => Promise<T>): Promise<T> {
    const turn = this.#useNow(file, work);
    this.#running.add(turn);
    try {
      return await turn;
    } finally {
      this.#running.delete(turn);
    }
  }

  async close(): Promise<void> {
    this.#closing.abort(new CallerError('build_cancelled', 'the service is stopping'));
    await Promise.allSettled(this.#running);
  }

  async #useNow<T>(file: CommitFile, work: (read: ReadStored) => Promise<T>): Promise<T> {
    const { signal } = this.#closing;
    if (this.#running.size > waitingMax)
      throw new UnavailableError('builder_busy', 'too many components of Git repositories wait to be built');
    await this.#slots.enter();
    try {
      signal.throwIfAborted();
      const { repositoryId: id, url, commit } = file;
      const repository = await OpenRepository.open(this.#options, { id, url, signal });
      try {
        await repository.loadCommit(commit);
        return await work(readerOf(repository, file));
      } finally {
        await repository.close();
      }
    } finally {
      this.#slots.leave();
    }
  }
}

/** Reads one file after the other: the process that has them takes one request at a time. */
function readerOf(repository: OpenRepository, { commit, path }: CommitFile): ReadStored {
  const known = new Map<string, Omit<PackageFile, 'path'>>();
  let last: Promise<unknown> | undefined;
  const readNow = async (address: string) => {
    const { oid } = await repository.ask({ type: 'stat', commit, path: address });
    if (oid === null || oid === undefined) return null;
    if (known.size === 0)
      for (const [name, content] of await repository.texts(await nearby(repository, commit, path)))
        known.set(name, content);
    const content = known.get(oid) ?? (await repository.texts([oid])).get(oid);
    if (content === undefined)
      throw new CallerError(
        'component_too_large',
        `${address} in commit ${commit} is larger than code may be`,
      );
    known.set(oid, content);
    return content;
  };
  return (address) => {
    const read = (last ?? Promise.resolve()).then(() => readNow(address));
    last = read.catch(() => undefined);
    return read;
  };
}

/** The files that a component of this path is likely to import: a request for each would take longer. */
async function nearby(repository: OpenRepository, commit: string, path: string): Promise<string[]> {
  const own = posix.dirname(path);
  const folders = own.split('/');
  const at = Math.max(folders.lastIndexOf('actions'), folders.lastIndexOf('sources'));
  const below = folders.slice(0, Math.max(at, 0)).join('/');
  const entries: FileEntry[] = [];
  await repository.ask(
    { type: 'list', commit, below, all: true },
    { onEntries: (some) => void entries.push(...some) },
  );
  const isNear = (file: string): boolean => {
    const rest = file.slice(below === '' ? 0 : below.length + 1).split('/');
    const isOther =
      ['actions', 'sources', 'node_modules', 'dist'].includes(rest[0] ?? '') && !rest.includes('common');
    return /\.(?:[mc]?[jt]s|json)$/.test(file) && (!isOther || file.startsWith(`${own}/`));
  };
  const near = entries.filter(({ path: file }) => isNear(file)).slice(0, togetherMax);
  const entry = entries.find(({ path: file }) => file === path);
  return [...new Set([...(entry === undefined ? [] : [entry]), ...near].map(({ oid }) => oid))];
}
