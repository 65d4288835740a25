import type { JobPayloads } from '#jobs/job-kinds.ts';
import type { JobHandler } from '#jobs/job-registry.ts';
import { insertJobs, jobRow, type LeasedJob, settleJobs } from '#jobs/job-store.ts';
import { type Clock, epochSeconds } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import { newId, newTimeOrderedId } from '#lib/ids.ts';
import type { Store } from '#storage/store.ts';
import type { RegistryRepositoryTable, RepositoryState } from '#storage/tables/registry-tables.ts';
import { forgetRepositories } from './open-repository.ts';
import {
  allRepositories,
  changeRepository,
  deleteRepository,
  findRepositories,
  findRepository,
  insertRepository,
} from './repository-store.ts';
import { readRepositoryRef, readRepositoryUrl } from './repository-url.ts';
import { registryOwner } from './resolve-component.ts';
import type { FileProblem } from './scan-package.ts';
import {
  markFailing,
  type RepositoryProgress,
  type UpdateOptions,
  updateRepository,
} from './update-repository.ts';

/** A repository as it is shown. */
export interface RepositoryView {
  id: string;
  url: string;
  ref: string;
  commit: string | null;
  state: RepositoryState;
  state_since: number;
  error: { code: string; message: string } | null;
  progress: RepositoryProgress | null;
  commits: number;
  components: number;
  versions: number;
  problems: FileProblem[];
  created_at: number;
  indexed_at: number | null;
}

export function viewRepository(row: RegistryRepositoryTable): RepositoryView {
  const { id, url, ref, state, error, error_code: code, progress, indexed_at_ms: indexedMs } = row;
  return {
    ...{ id, url, ref, commit: row.commit_id, state, state_since: epochSeconds(Number(row.state_since_ms)) },
    error: error === null ? null : { code: code ?? 'internal_error', message: error },
    progress: progress === null ? null : (JSON.parse(progress) as RepositoryProgress),
    ...{ commits: Number(row.commits), components: Number(row.components), versions: Number(row.versions) },
    problems: JSON.parse(row.problems) as FileProblem[],
    created_at: epochSeconds(Number(row.created_at_ms)),
    indexed_at: indexedMs === null ? null : epochSeconds(Number(indexedMs)),
  };
}

export interface ManageOptions {
  store: Store;
  clock: Clock;
}

/**
 * Adds a repository and has its history read; one that is there already is updated. Stored when it resolves: the update is made by a
 * job, also after a crash. Throws CallerError `invalid_parameter`.
 */
export async function addRepository(
  options: ManageOptions,
  wanted: { url: string; ref?: string | undefined; userId: string | null },
): Promise<RegistryRepositoryTable> {
  const row = await insertWanted(options, wanted);
  return requestUpdate(options, row.id);
}

/** The same without a job: the caller makes the update. */
export async function insertWanted(
  { store, clock }: ManageOptions,
  wanted: { url: string; ref?: string | undefined; userId: string | null },
): Promise<RegistryRepositoryTable> {
  const url = readRepositoryUrl(wanted.url);
  const ref = readRepositoryRef(wanted.ref ?? '');
  const nowMs = clock.now();
  const row: RegistryRepositoryTable = {
    ...{ id: newId('repo'), url, ref, commit_id: null, generation: 0 },
    ...{ state: 'ready', state_since_ms: nowMs, error: null, error_code: null, progress: null },
    ...{ commits: 0, components: 0, versions: 0, problems: '[]' },
    ...{ user_id: wanted.userId, created_at_ms: nowMs, indexed_at_ms: null },
  };
  return store.transaction(async (tx) => {
    if (await insertRepository(tx, row)) return row;
    const [known = row] = await findRepositories(tx, url, ref);
    return known;
  });
}

/** One update at a time: where one is due or under way, there is no second. Throws CallerError `not_found`. */
export async function requestUpdate(
  { store, clock }: ManageOptions,
  id: string,
): Promise<RegistryRepositoryTable> {
  const nowMs = clock.now();
  return store.transaction(async (tx) => {
    const row = await findRepository(tx, id);
    if (row === undefined) throw noRepository(id);
    if (row.state === 'waiting' || row.state === 'updating') return row;
    const waiting = { state: 'waiting', state_since_ms: nowMs, progress: null } as const;
    await changeRepository(tx, id, waiting);
    const job = jobRow({
      ...{ id: newTimeOrderedId(nowMs), kind: 'update_repository', ownerId: registryOwner },
      ...{ payload: { repository_id: id }, runAtMs: nowMs, nowMs },
    });
    await insertJobs(tx, [job]);
    await store.notify(tx, 'millrace_jobs', '');
    return { ...row, ...waiting };
  });
}

/** Removes a repository with its index. What was built from it stays, and what uses that runs on. Throws CallerError `not_found`. */
export async function removeRepository(
  { store }: Pick<ManageOptions, 'store'>,
  id: string,
): Promise<RegistryRepositoryTable> {
  return store.transaction(async (tx) => {
    const row = await findRepository(tx, id);
    if (row === undefined) throw noRepository(id);
    await deleteRepository(tx, id);
    return row;
  });
}

/** Updates a repository; the job ends with it, whatever came of it. */
export function updateRepositoryHandler(options: UpdateOptions & { node: string }): JobHandler {
  const { store, node, repository } = options;
  return {
    async run(job: LeasedJob, signal: AbortSignal) {
      const { repository_id: id } = job.payload as JobPayloads['update_repository'];
      await updateRepository(options, id, signal);
      await store.transaction((tx) => settleJobs(store, tx, { node, jobs: [job] }));
      // They may have been removed on another node, and this one meanwhile.
      await forgetRepositories(repository, await allRepositories(store.read));
    },
    async quarantined(job: LeasedJob) {
      const { repository_id: id } = job.payload as JobPayloads['update_repository'];
      const reason = 'the service ended several times while it read this repository';
      await markFailing(options, id, { reason, code: 'job_quarantined' });
    },
  };
}

export function noRepository(id: string): CallerError {
  return new CallerError('not_found', `the registry has no repository ${JSON.stringify(id)}`, {
    parameter: 'id',
  });
}
