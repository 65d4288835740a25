import { Worker } from 'node:worker_threads';
import { Deferred } from '#lib/deferred.ts';
import { toError, UnavailableError } from '#lib/errors.ts';
import { FairQueue } from '#lib/fair-queue.ts';
import { programPath } from '#lib/installation.ts';
import type { ForeignProject } from './project.ts';
import { refused } from './project-files.ts';
import type { ReadingAnswer, ReadingTask } from './reader-thread.ts';

/** Projects read at once, each of another owner. */
const threadsMax = 2;
/** Projects of one owner that are read or wait: each holds its archive. */
const tasksOfOwnerMax = 8;

/** What the reading of one project may cost. */
interface ReadingBounds {
  heapMbMax: number;
  /** An honest project of the largest size takes a few seconds. */
  readMaxMs: number;
}

export type ProjectContent = Pick<ReadingTask, 'bytes' | 'files'>;

/**
 * Reads projects, each in a thread of its own that ends with it: what a hostile archive or YAML costs is bounded in time and memory, and
 * neither keeps others waiting for the service. Owners take turns.
 */
export class ProjectReader {
  readonly #bounds: ReadingBounds;
  readonly #turns = new FairQueue(threadsMax);
  readonly #tasks = new Map<string, number>();
  /** Ends a reading that is under way. */
  readonly #underWay = new Set<(reason: Error) => void>();
  #closed = false;

  constructor(bounds: Partial<ReadingBounds> = {}) {
    this.#bounds = { heapMbMax: 512, readMaxMs: 20_000, ...bounds };
  }

  /** Throws CallerError `invalid_import` for what cannot be read, or not within the bounds. */
  async project(ownerId: string, content: ProjectContent): Promise<ForeignProject> {
    return (await this.#read(ownerId, { wanted: 'project', ...content })) as ForeignProject;
  }

  /** The structure of an export (outline-export.ts). Throws as `project` does. */
  async outline(ownerId: string, content: ProjectContent): Promise<Record<string, unknown>> {
    return (await this.#read(ownerId, { wanted: 'outline', ...content })) as Record<string, unknown>;
  }

  /** What is not read yet is given up. */
  close(): void {
    this.#closed = true;
    for (const end of this.#underWay) end(stops());
  }

  async #read(ownerId: string, task: ReadingTask): Promise<unknown> {
    const tasks = this.#tasks.get(ownerId) ?? 0;
    if (tasks >= tasksOfOwnerMax)
      throw new UnavailableError(
        'overloaded',
        `${tasks} imports of this workspace are being read: try again when they are`,
      );
    this.#tasks.set(ownerId, tasks + 1);
    try {
      const json = await this.#turns.run(ownerId, () => this.#inThread(task));
      return JSON.parse(json) as unknown;
    } finally {
      const left = (this.#tasks.get(ownerId) ?? 1) - 1;
      if (left === 0) this.#tasks.delete(ownerId);
      else this.#tasks.set(ownerId, left);
    }
  }

  async #inThread(task: ReadingTask): Promise<string> {
    if (this.#closed) throw stops();
    const { heapMbMax, readMaxMs } = this.#bounds;
    const answer = new Deferred<string>();
    const end = (reason: Error) => answer.reject(reason);
    const worker = new Worker(programPath('src/imports/reader-thread.ts'), {
      name: 'import',
      resourceLimits: { maxOldGenerationSizeMb: heapMbMax },
    });
    worker.on('message', (given: ReadingAnswer) => {
      if ('refused' in given) answer.reject(refused(given.refused));
      else answer.resolve(given.json);
    });
    worker.on('error', (error) => {
      const isOut = (error as { code?: unknown }).code === 'ERR_WORKER_OUT_OF_MEMORY';
      answer.reject(
        isOut
          ? refused(`reading it takes more than ${heapMbMax} MB of memory: import it folder by folder`)
          : toError(error),
      );
    });
    worker.on('exit', () => answer.reject(new Error('the thread that read an import ended')));
    const timer = setTimeout(() => {
      const time = readMaxMs < 1000 ? `${readMaxMs} ms` : `${readMaxMs / 1000} seconds`;
      end(refused(`reading it takes more than ${time}: import it folder by folder`));
    }, readMaxMs);
    this.#underWay.add(end);
    try {
      worker.postMessage(task);
      return await answer.promise;
    } finally {
      clearTimeout(timer);
      this.#underWay.delete(end);
      // The next one starts when the memory of this one is free.
      await worker.terminate();
    }
  }
}

function stops(): UnavailableError {
  return new UnavailableError('overloaded', 'the service stops');
}
