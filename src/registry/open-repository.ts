import { mkdir, mkdtemp, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { BuildBudget } from '#components/build-budget.ts';
import type { BuilderProcessOptions } from '#components/builder-child.ts';
import { GitClient } from '#components/git-client.ts';
import { GitReaderProcess, type GitReadings } from '#components/git-reader-process.ts';
import type { PackageFile } from '#components/package-fetcher.ts';
import { processFolder } from '#components/process-folder.ts';
import type { GuardedDispatcher } from '#egress/guarded-dispatcher.ts';
import { CallerError } from '#lib/errors.ts';
import { cloneFolder, isClone } from './repository-url.ts';

type GitAsk = Parameters<GitReaderProcess['ask']>[0];

/** What all repositories of this process are read with. */
export interface RepositoryOptions extends BuilderProcessOptions {
  dispatcher: GuardedDispatcher;
  /** Ours alone: packs that were received. */
  folder: string;
  limits?: Partial<RepositoryLimits>;
}

export interface RepositoryLimits {
  /** One pack with the history of a repository. */
  historyBytesMax: number;
  historyTimeoutMs: number;
  /** One pack with a commit, or with files. */
  filesBytesMax: number;
  filesTimeoutMs: number;
  cpuMs: number;
  deadlineMs: number;
}

const defaultLimits: RepositoryLimits = {
  // The commits and folders of 100,000 commits take some hundred MB. A server that cannot leave out contents of files sends those too.
  historyBytesMax: 4 * 1024 ** 3,
  historyTimeoutMs: 60 * 60_000,
  filesBytesMax: 512 * 1024 * 1024,
  filesTimeoutMs: 10 * 60_000,
  cpuMs: 30 * 60_000,
  deadlineMs: 2 * 60 * 60_000,
};

/** Packs that are kept of one repository; then its history is fetched as a whole again. */
const packsMax = 24;
/** A request names each object in 50 bytes. */
const wantsMax = 2_000;

/** A repository that is open: a clone on this machine, or what a server sends of it. Close it when it was used. */
export class OpenRepository {
  readonly #limits: RepositoryLimits;
  readonly #reader: GitReaderProcess;
  readonly #client: GitClient | undefined;
  /** Packs that are removed when it is closed. */
  readonly #folder: string;
  readonly #kept: string;
  readonly #budget: BuildBudget;
  #packs = 0;

  /** `id` is that of the repository: what was received of its history is kept under that name. */
  static async open(
    options: RepositoryOptions,
    { id, url, signal }: { id: string; url: string; signal: AbortSignal },
  ): Promise<OpenRepository> {
    const limits = { ...defaultLimits, ...options.limits };
    // Looked at first: the folder of a clone has to be there when the process starts.
    const clone = isClone(url) ? await cloneFolder(url) : undefined;
    const parent = await processFolder(join(options.folder, 'open'), 0o700);
    const folder = await mkdtemp(join(parent, 'repository-'));
    const kept = join(options.folder, id);
    if (clone === undefined) await mkdir(kept, { recursive: true, mode: 0o700 });
    const { logger, walls } = options;
    const granted = clone === undefined ? [folder, kept] : [clone];
    let open: OpenRepository;
    try {
      const reader = await GitReaderProcess.start(granted, {
        logger,
        ...(walls === undefined ? {} : { walls }),
      });
      const client = clone === undefined ? new GitClient({ dispatcher: options.dispatcher, url }) : undefined;
      open = new OpenRepository({ limits, reader, client, folder, kept, signal });
    } catch (error) {
      await rm(folder, { recursive: true, force: true });
      throw error;
    }
    try {
      if (clone !== undefined) await open.ask({ type: 'open-clone', folder: clone });
    } catch (error) {
      await open.close();
      throw error;
    }
    return open;
  }

  private constructor(options: {
    limits: RepositoryLimits;
    reader: GitReaderProcess;
    client: GitClient | undefined;
    folder: string;
    kept: string;
    signal: AbortSignal;
  }) {
    const { limits, signal } = options;
    this.#limits = limits;
    this.#reader = options.reader;
    this.#client = options.client;
    this.#folder = options.folder;
    this.#kept = options.kept;
    const { cpuMs, deadlineMs } = limits;
    this.#budget = new BuildBudget({ what: 'reading the repository', limits: { cpuMs, deadlineMs }, signal });
  }

  async ask(request: GitAsk, readings?: GitReadings) {
    return this.#reader.ask(request, this.#budget, readings);
  }

  async close(): Promise<void> {
    this.#budget.end();
    await this.#reader.stop();
    await rm(this.#folder, { recursive: true, force: true });
  }

  /** The commit at a branch, a tag or a commit. Throws CallerError `repository_refused` where there is none. */
  async resolve(ref: string): Promise<string> {
    const isCommit = /^[0-9a-f]{40}$/.test(ref);
    if (this.#client === undefined) {
      const { oid } = await this.ask({ type: 'resolve', ref });
      if (oid === null || oid === undefined) throw noRef(ref);
      return oid;
    }
    const found = (await this.#client.resolve(ref, this.#budget.signal)) ?? (isCommit ? ref : null);
    if (found === null) throw noRef(ref);
    return found;
  }

  /** All commits and folders of the history of `tip`, without contents of files. Packs that were received before are used again. */
  async loadHistory(
    tip: string,
    since: string | null,
    progress: { onBytes: (bytes: number) => void; readings: GitReadings },
  ): Promise<void> {
    if (this.#client === undefined) return;
    const names = (await readdir(this.#kept)).filter((name) => /^\d+\.pack$/.test(name)).sort(byNumber);
    let haves: string[] = [];
    if (
      since !== null &&
      names.length > 0 &&
      names.length < packsMax &&
      (await this.#openKept(names, progress))
    ) {
      const { missing = [] } = await this.ask({ type: 'missing', oids: [since, tip] });
      if (!missing.includes(tip)) return;
      if (!missing.includes(since)) haves = [since];
    }
    const path = join(this.#kept, 'next.part');
    await this.#client.download({
      ...{ wants: [tip], haves, withoutBlobs: true, path, onBytes: progress.onBytes },
      bytesMax: this.#limits.historyBytesMax,
      timeoutMs: this.#limits.historyTimeoutMs,
      signal: this.#budget.signal,
    });
    await this.ask({ type: 'open-pack', path }, progress.readings);
    if (haves.length === 0) for (const name of names) await rm(join(this.#kept, name), { force: true });
    const last = Number.parseInt(names.at(-1) ?? '0', 10);
    await rename(path, join(this.#kept, `${last + 1}.pack`));
  }

  /** False: one of them is damaged on the disk, and all of them are fetched again. */
  async #openKept(names: readonly string[], { readings }: { readings: GitReadings }): Promise<boolean> {
    try {
      for (const name of names) await this.ask({ type: 'open-pack', path: join(this.#kept, name) }, readings);
      return true;
    } catch (error) {
      if (error instanceof CallerError && error.code === 'repository_refused') return false;
      throw error;
    }
  }

  /** One commit with its folders, without its history. */
  async loadCommit(commit: string): Promise<void> {
    const { missing = [] } = await this.ask({ type: 'missing', oids: [commit] });
    if (missing.length > 0) await this.#load([commit], { isShallow: true, withoutBlobs: true });
  }

  /** Contents of files by the name of their object. Those that are larger than code is, or no files, are left out. */
  async texts(oids: readonly string[]): Promise<Map<string, Omit<PackageFile, 'path'>>> {
    const { missing = [] } = await this.ask({ type: 'missing', oids: [...oids] });
    for (let at = 0; at < missing.length; at += wantsMax)
      await this.#load(missing.slice(at, at + wantsMax), {});
    const found = new Map<string, Omit<PackageFile, 'path'>>();
    await this.ask(
      { type: 'texts', oids: [...oids] },
      { onContents: (files) => files.forEach(({ path, ...content }) => void found.set(path, content)) },
    );
    return found;
  }

  async #load(wants: readonly string[], how: { isShallow?: boolean; withoutBlobs?: boolean }): Promise<void> {
    if (this.#client === undefined)
      throw new CallerError(
        'repository_refused',
        'the clone has only a part of its objects: fetch the rest into it',
        {},
      );
    this.#packs += 1;
    const path = join(this.#folder, `${this.#packs}.pack`);
    const { filesBytesMax: bytesMax, filesTimeoutMs: timeoutMs } = this.#limits;
    await this.#client.download({ wants, ...how, path, bytesMax, timeoutMs, signal: this.#budget.signal });
    await this.ask({ type: 'open-pack', path });
  }
}

/** Removes what is kept on this machine of repositories that are no longer in the registry. */
export async function forgetRepositories(
  { folder }: Pick<RepositoryOptions, 'folder'>,
  known: readonly { id: string }[],
): Promise<void> {
  const names = (await readdir(folder).catch(() => [])).filter((name) => name.startsWith('repo_'));
  const ids = new Set(known.map(({ id }) => id));
  for (const name of names) if (!ids.has(name)) await forgetRepository({ folder }, name);
}

export async function forgetRepository(
  options: Pick<RepositoryOptions, 'folder'>,
  id: string,
): Promise<void> {
  await rm(join(options.folder, id), { recursive: true, force: true });
}

function byNumber(a: string, b: string): number {
  return Number.parseInt(a, 10) - Number.parseInt(b, 10);
}

function noRef(ref: string): CallerError {
  const message =
    ref === ''
      ? 'the repository is empty, or its default branch has no commit: push one, or give the branch to read as ref'
      : `the repository has no branch, tag or commit ${JSON.stringify(ref)}: check the name, or leave ref out to read the default branch`;
  return new CallerError('repository_refused', message, { parameter: 'ref' });
}
