import { posix } from 'node:path';
import type { ScanOutput } from '#components/builder/build-messages.ts';
import type { FileChange } from '#components/builder/git-history.ts';
import type { FileEntry } from '#components/builder/git-messages.ts';
import { isAppPath } from '#components/builder/git-paths.ts';
import type { GitReadings } from '#components/git-reader-process.ts';
import type { PackageFetcher } from '#components/package-fetcher.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError, UnavailableError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import type { RegistryRepositoryTable, RegistryVersionTable } from '#storage/tables/registry-tables.ts';
import { OpenRepository, type RepositoryOptions } from './open-repository.ts';
import {
  changeRepository,
  countVersions,
  deleteOldVersions,
  findRepository,
  headVersions,
  insertVersions,
  setHead,
} from './repository-store.ts';
import { appOf, type FileProblem, readComponent, slugIn } from './scan-package.ts';

export const progressPhases = [
  'connecting',
  'downloading',
  'unpacking',
  'comparing',
  'reading',
  'saving',
] as const;

/** `total` is null where it is not known; `downloading` counts bytes. */
export interface RepositoryProgress {
  phase: (typeof progressPhases)[number];
  done: number;
  total: number | null;
}

export interface UpdateOptions {
  store: Store;
  clock: Clock;
  logger: Logger;
  fetcher: Pick<PackageFetcher, 'scan'>;
  repository: RepositoryOptions;
  /** Gets what is also written to the row of the repository. */
  onProgress?: (progress: RepositoryProgress) => void;
}

/** Progress is written at most this often. */
const progressMs = 1_000;
const problemsMax = 200;
/** Files that are in memory at a time. */
const filesAtOnce = 1_000;
const rowsPerTransaction = 500;

/**
 * Finds the versions of all components in the history of a repository: for each, the first commit that has it. What was found before
 * is used until the new index is whole; a crash leaves at most rows of a generation that does not count. Nothing is evaluated.
 *
 * A repository that cannot be read is recorded as failing, with the reason; only faults of this service are thrown.
 */
export async function updateRepository(
  options: UpdateOptions,
  id: string,
  signal: AbortSignal,
): Promise<void> {
  const { store, clock, logger } = options;
  const row = await findRepository(store.read, id);
  if (row === undefined) return;
  const startedMs = clock.now();
  await change(store, id, { state: 'updating', state_since_ms: startedMs, progress: null });
  try {
    const changes = await index(options, row, signal);
    const nowMs = clock.now();
    const ready = { state: 'ready', state_since_ms: nowMs, indexed_at_ms: nowMs } as const;
    await store.transaction(async (tx) => {
      const isThere = await changeRepository(tx, id, {
        ...{ ...ready, ...changes?.row, error: null, error_code: null, progress: null },
      });
      if (!isThere || changes === null) return;
      for (const head of changes.noHeads)
        await setHead(tx, { id, generation: changes.row.generation, head, isHead: false });
      for (const head of changes.heads)
        await setHead(tx, { id, generation: changes.row.generation, head, isHead: true });
    });
    if (changes === null) return;
    await removeOldVersions(store, id, changes.row.generation);
    const { commits, components, versions } = changes.row;
    logger.info(
      { repository: id, url: row.url, commits, components, versions, ms: nowMs - startedMs },
      'registry.repository-updated',
    );
  } catch (error) {
    if (signal.aborted) throw error;
    if (!(error instanceof CallerError || error instanceof UnavailableError)) throw error;
    const { message, code } = error;
    logger.warn({ repository: id, url: row.url, error: message }, 'registry.repository-failed');
    await markFailing(options, id, { reason: message, code });
  }
}

export async function markFailing(
  { store, clock }: Pick<UpdateOptions, 'store' | 'clock'>,
  id: string,
  { reason, code }: { reason: string; code: string },
): Promise<void> {
  const row = await findRepository(store.read, id);
  if (row === undefined) return;
  const nowMs = clock.now();
  await change(store, id, {
    state: 'failing',
    state_since_ms: nowMs,
    // No database takes this character in a text.
    error: reason.replaceAll('\0', '').slice(0, 1_000),
    ...{ error_code: code, progress: null },
  });
}

interface IndexChanges {
  row: Pick<
    RegistryRepositoryTable,
    'commit_id' | 'generation' | 'commits' | 'components' | 'versions' | 'problems'
  >;
  heads: HeadKey[];
  noHeads: HeadKey[];
}

type HeadKey = Pick<RegistryVersionTable, 'component_key' | 'version'>;

/** Null: there are no new commits. */
async function index(
  options: UpdateOptions,
  row: RegistryRepositoryTable,
  signal: AbortSignal,
): Promise<IndexChanges | null> {
  const { store, repository: reading, fetcher } = options;
  const writer = new ProgressWriter(options, row.id);
  const progress = (now: RepositoryProgress): void => writer.write(now);
  const readings = {
    onProgress: (what: 'unpack' | 'history', done: number, total: number) =>
      progress({ phase: what === 'unpack' ? 'unpacking' : 'comparing', done: Math.round(done), total }),
  };
  progress({ phase: 'connecting', done: 0, total: null });
  const repository = await OpenRepository.open(reading, { id: row.id, url: row.url, signal }).finally(() =>
    writer.end(),
  );
  try {
    const named = await repository.resolve(row.ref);
    if (named === row.commit_id) return null;
    await repository.loadHistory(named, row.commit_id, {
      onBytes: (bytes) => progress({ phase: 'downloading', done: bytes, total: null }),
      readings,
    });
    const { oid } = await repository.ask({ type: 'resolve', oid: named });
    const tip = oid ?? named;
    const history = await readChanges(repository, { tip, since: row.commit_id, readings });
    const head = await listed(repository, tip);
    const { isContinued } = history;
    const generation = isContinued ? row.generation : row.generation + 1;
    // What a crash left.
    await removeOldVersions(store, row.id, row.generation);

    const pathOf = new Map([...history.changes, ...head].map(({ path, oid: blob }) => [blob, path]));
    const heads = new Map<string, ScanOutput['readings'][number]>();
    const blobs = [...pathOf.keys()];
    for (let at = 0; at < blobs.length; at += filesAtOnce) {
      progress({ phase: 'reading', done: at, total: blobs.length });
      const part = blobs.slice(at, at + filesAtOnce);
      const texts = await repository.texts(part);
      const files = part.flatMap((blob) => {
        const content = texts.get(blob);
        const isText = content !== undefined && content.encoding === undefined;
        return isText ? [{ path: pathOf.get(blob) ?? blob, text: content.text, blob }] : [];
      });
      const found = await fetcher.scan(
        files.map(({ path, text }) => ({ path, text })),
        row.user_id ?? undefined,
      );
      for (const [place, reading] of found.entries()) heads.set(files[place]?.blob ?? '', reading);
    }

    const slugs = new Map<string, string>();
    for (const { path, oid: blob } of head) {
      const said = isAppPath(path) ? heads.get(blob)?.head : null;
      const slug = said ? slugIn(said) : undefined;
      if (slug !== undefined) slugs.set(posix.dirname(path), slug);
    }
    const rowsByName = new Map<string, RegistryVersionTable>();
    const add = (change: FileChange): RegistryVersionTable | FileProblem | null => {
      const reading = heads.get(change.oid);
      const said = reading === undefined ? null : readComponent(change.path, reading);
      if (said === null) return null;
      if ('problem' in said) return { path: change.path, message: said.problem };
      const { key, version, kind, name, description } = said;
      if (version === '') return { path: change.path, message: 'the component names no version' };
      const known = rowsByName.get(`${key}@${version}`);
      if (known !== undefined) return known;
      const added: RegistryVersionTable = {
        ...{ repository_id: row.id, generation, component_key: key, version, kind, name, description },
        ...{ app: appOf(change.path, key, slugs), path: change.path },
        ...{ commit_id: change.commit, committed_at_ms: change.at * 1000, is_head: 0 },
      };
      rowsByName.set(`${key}@${version}`, added);
      return added;
    };
    for (const one of history.changes) add(one);
    const problems: FileProblem[] = [];
    const headByKey = new Map<string, RegistryVersionTable>();
    for (const { path, oid: blob } of head) {
      if (isAppPath(path)) continue;
      // In the index already, unless the history is not all there.
      const at = history.tipAt;
      const found = add({ rank: 0, commit: tip, at, path, oid: blob });
      if (found === null) continue;
      if ('message' in found) problems.push(found);
      else if (!headByKey.has(found.component_key)) headByKey.set(found.component_key, found);
      else problems.push({ path, message: `another file at the ref has the key ${found.component_key}` });
    }

    progress({ phase: 'saving', done: 0, total: rowsByName.size });
    if (!isContinued) for (const one of headByKey.values()) one.is_head = 1;
    const rows = [...rowsByName.values()];
    for (let at = 0; at < rows.length; at += rowsPerTransaction) {
      signal.throwIfAborted();
      progress({ phase: 'saving', done: at, total: rows.length });
      await store.transaction((tx) => insertVersions(store, tx, rows.slice(at, at + rowsPerTransaction)));
    }
    if (headByKey.size === 0) {
      const [first] = problems;
      const reason = first === undefined ? '' : `: ${first.path}: ${first.message}`;
      throw new CallerError(
        'no_components',
        `the repository has no components in folders actions or sources${reason}`,
      );
    }
    const before = isContinued ? await headVersions(store.read, row.id, generation) : [];
    const isBefore = new Set(before.map(nameOf));
    const isNow = new Set([...headByKey.values()].map(nameOf));
    return {
      row: {
        ...{ commit_id: tip, generation, components: headByKey.size },
        commits: isContinued ? Number(row.commits) + history.commits : history.commits,
        versions: await countVersions(store.read, row.id, generation),
        problems: JSON.stringify(problems.slice(0, problemsMax)),
      },
      heads: isContinued ? [...headByKey.values()].filter((one) => !isBefore.has(nameOf(one))) : [],
      noHeads: before.filter((one) => !isNow.has(nameOf(one))),
    };
  } finally {
    await repository.close();
    await writer.end();
  }
}

function nameOf({ component_key, version }: HeadKey): string {
  return `${component_key}@${version}`;
}

/** In the order in which they count. With `isContinued`, only what is newer than `since`, which is an ancestor of the tip. */
async function readChanges(
  repository: OpenRepository,
  { tip, since, readings }: { tip: string; since: string | null; readings: GitReadings },
): Promise<{ changes: FileChange[]; commits: number; isContinued: boolean; tipAt: number }> {
  const read = async (from: string | null) => {
    const changes: FileChange[] = [];
    const { report } = await repository.ask(
      { type: 'history', tip, ...(from === null ? {} : { since: from }) },
      { ...readings, onChanges: (some) => void changes.push(...some) },
    );
    changes.sort((a, b) => a.rank - b.rank || (a.path < b.path ? -1 : 1));
    return { changes, commits: report?.commits ?? 0, hasSince: report?.hasSince === true };
  };
  const continued = since === null ? undefined : await read(since);
  // A history that was rewritten is read from its beginning: what it no longer has is no longer found.
  const { changes, commits } = continued?.hasSince === true ? continued : await read(null);
  const tipAt = changes.reduce((latest, { at }) => Math.max(latest, at), 0);
  return { changes, commits, isContinued: continued?.hasSince === true, tipAt };
}

/** Files of components and apps at the tip, in the order of their paths. */
async function listed(repository: OpenRepository, commit: string): Promise<FileEntry[]> {
  const entries: FileEntry[] = [];
  await repository.ask(
    { type: 'list', commit, below: '', all: false },
    { onEntries: (some) => void entries.push(...some) },
  );
  return entries.sort((a, b) => (a.path < b.path ? -1 : 1));
}

/** Writes how far an update is, behind the work. */
class ProgressWriter {
  readonly #options: UpdateOptions;
  readonly #id: string;
  #writtenMs = Number.NEGATIVE_INFINITY;
  #writing: Promise<void> | undefined;

  constructor(options: UpdateOptions, id: string) {
    this.#options = options;
    this.#id = id;
  }

  write(progress: RepositoryProgress): void {
    const { store, clock, logger, onProgress } = this.#options;
    onProgress?.(progress);
    const nowMs = clock.now();
    if (this.#writing !== undefined || nowMs - this.#writtenMs < progressMs) return;
    this.#writtenMs = nowMs;
    this.#writing = change(store, this.#id, { progress: JSON.stringify(progress) })
      .catch((error: Error) =>
        logger.debug({ repository: this.#id, error: error.message }, 'registry.progress-lost'),
      )
      .finally(() => {
        this.#writing = undefined;
      });
  }

  /** When it resolves, nothing is written after it. */
  async end(): Promise<void> {
    await this.#writing;
  }
}

async function change(
  store: Store,
  id: string,
  changes: Parameters<typeof changeRepository>[2],
): Promise<void> {
  await store.transaction((tx) => changeRepository(tx, id, changes));
}

async function removeOldVersions(store: Store, id: string, generation: number): Promise<void> {
  for (let removed = rowsPerTransaction; removed === rowsPerTransaction; )
    removed = await store.transaction((tx) =>
      deleteOldVersions(tx, { id, generation, limit: rowsPerTransaction }),
    );
}
