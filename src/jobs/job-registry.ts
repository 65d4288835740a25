import { type JobKind, jobKinds } from '#storage/tables/job-tables.ts';
import type { LeasedJob } from './job-store.ts';

/**
 * Does one job. It settles the job itself, in the transaction that stores what the job caused; a rejection means
 * nothing was stored, and the job runs again later. `quarantined` is called for a job that took its nodes down too often.
 */
export interface JobHandler {
  run(job: LeasedJob, signal: AbortSignal): Promise<void>;
  quarantined(job: LeasedJob): Promise<void>;
}

/**
 * Which function does the jobs of a kind. What does jobs also makes some: the pool, which makes room for new jobs, is there before those who
 * do them, and they are registered before it starts.
 */
export class JobRegistry {
  readonly #handlers = new Map<JobKind, JobHandler>();

  constructor(handlers: Readonly<Partial<Record<JobKind, JobHandler>>> = {}) {
    this.register(handlers);
  }

  register(handlers: Readonly<Partial<Record<JobKind, JobHandler>>>): void {
    for (const kind of jobKinds) {
      const handler = handlers[kind];
      if (handler !== undefined) this.#handlers.set(kind, handler);
    }
  }

  /** Those that this process can do; it leaves others in the store. */
  get kinds(): JobKind[] {
    return [...this.#handlers.keys()];
  }

  of(kind: JobKind): JobHandler {
    const handler = this.#handlers.get(kind);
    if (handler === undefined) throw new Error(`nothing does jobs of the kind ${kind}`);
    return handler;
  }
}
