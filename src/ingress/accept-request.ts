import { ArrivingJob } from '#jobs/arriving-job.ts';
import { insertNewJobs, jobRow, type LeasedJob, type NewJob } from '#jobs/job-store.ts';
import type { WorkerPool } from '#jobs/worker-pool.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError, UnavailableError } from '#lib/errors.ts';
import { newTimeOrderedId } from '#lib/ids.ts';
import type { HttpReply } from '#runner/call-outcome.ts';
import type { SourceRuns } from '#sources/run-source.ts';
import { WaitingRuns, waitingMax } from '#sources/waiting-runs.ts';
import type { BatchWrite } from '#storage/group-commit.ts';
import type { Store } from '#storage/store.ts';
import type { SourceEndpoint } from './resolve-endpoint.ts';

/** Requests of one source whose callers wait for its reply, in this process. */
const waitingForReplyMax = 256;

/** The job of a request; `node` when that node runs it from the start. */
interface NewInvocation {
  job: NewJob<'run_source'>;
  node?: string;
}

/**
 * Turns requests to sources into invocations. A request is on disk before it is acknowledged (promise 1); with room it runs at
 * once on the node that accepted it, else it waits in the store.
 */
export class RequestAcceptor {
  readonly #store: Store;
  readonly #pool: WorkerPool;
  readonly #runs: Pick<SourceRuns, 'awaitReply' | 'stopAwaiting'>;
  readonly #clock: Clock;
  readonly #replyTimeoutMs: number;
  readonly #waiting: WaitingRuns;
  readonly #write: BatchWrite<NewInvocation, void>;

  constructor(options: {
    store: Store;
    pool: WorkerPool;
    runs: Pick<SourceRuns, 'awaitReply' | 'stopAwaiting'>;
    clock: Clock;
    /** How long a request waits for the turn of its run. The run has its own deadline. */
    replyTimeoutMs: number;
    waiting?: WaitingRuns;
  }) {
    this.#store = options.store;
    this.#pool = options.pool;
    this.#runs = options.runs;
    this.#clock = options.clock;
    this.#replyTimeoutMs = options.replyTimeoutMs;
    this.#waiting = options.waiting ?? new WaitingRuns({ store: options.store, clock: options.clock });
    this.#write = insertInvocations(options.store);
  }

  /**
   * Resolves when the request is on disk. Throws `source_busy` when too many requests wait for this source already.
   * @param event JSON text of the argument of `run`
   */
  async accept(endpoint: SourceEndpoint, event: string): Promise<void> {
    const job = this.#newJob(endpoint, event);
    if (this.#pool.hasRoom(endpoint.sourceId)) return this.#runHere(job, event.length);
    if (!(await this.#waiting.admit(endpoint.sourceId, event.length)))
      throw tooMany(waitingMax, this.#clock.now());
    await this.#store.writes.submit(this.#write, { job });
    this.#pool.leftInStore(endpoint.sourceId);
  }

  /**
   * The component's reply; undefined when it ended, or its turn did not come in time, without one. Throws
   * `UnavailableError` when the run was interrupted: it will be run again, without anybody who waits. The job never
   * leaves this process, where the caller waits: beyond what may wait here, the request is refused.
   */
  async acceptAndAwait(endpoint: SourceEndpoint, event: string): Promise<HttpReply | undefined> {
    if (!this.#pool.hasRoomToStay(endpoint.sourceId, waitingForReplyMax)) {
      if (this.#pool.hasRoomToStay('', 1)) throw tooMany(waitingForReplyMax, this.#clock.now());
      throw new UnavailableError('overloaded', 'the service has too much to do, or is stopping; try again');
    }
    const job = this.#newJob(endpoint, event);
    const answer = Promise.withResolvers<HttpReply | undefined>();
    // It may come while the request is still on its way to the disk, or was refused there.
    answer.promise.catch(() => {});
    const timer = setTimeout(() => answer.resolve(undefined), this.#replyTimeoutMs);
    this.#runs.awaitReply(job.id, {
      started: () => clearTimeout(timer),
      respond: answer.resolve,
      ended: () => answer.resolve(undefined),
      interrupted: () => answer.reject(interrupted()),
    });
    try {
      await this.#runHere(job, event.length, { staysHere: true });
      return await answer.promise;
    } finally {
      clearTimeout(timer);
      this.#runs.stopAwaiting(job.id);
    }
  }

  #newJob(endpoint: SourceEndpoint, event: string): NewJob<'run_source'> {
    const nowMs = this.#clock.now();
    return {
      id: newTimeOrderedId(nowMs),
      kind: 'run_source',
      ownerId: endpoint.ownerId,
      lane: endpoint.sourceId,
      payload: { source_id: endpoint.sourceId, trigger: 'http', event, hops: 0 },
      runAtMs: nowMs,
      nowMs,
    };
  }

  /** The node that accepts it runs it: the row is leased from birth, and no claim is needed. */
  async #runHere(
    job: NewJob<'run_source'>,
    bytes: number,
    options: Pick<LeasedJob, 'staysHere'> = {},
  ): Promise<void> {
    const { writes } = this.#store;
    const invocation: NewInvocation = { job, node: this.#pool.node };
    if (writes.healthy) {
      const arriving = new ArrivingJob(() => writes.place(this.#write, invocation));
      this.#pool.run({ ...leased(job, bytes), ...options, arriving });
      await arriving.onDisk;
    } else {
      // What a store that fails would refuse does not run.
      await writes.submit(this.#write, invocation);
      this.#pool.run({ ...leased(job, bytes), ...options });
    }
  }
}

function interrupted(): UnavailableError {
  return new UnavailableError(
    'overloaded',
    'the run was interrupted before its response; it will be run again later',
  );
}

/** Seconds after which it is worth trying again. */
const tryAgainSeconds = 5;

function tooMany(limit: number, nowMs: number): CallerError {
  return new CallerError(
    'source_busy',
    'too many requests are waiting for this source: it takes more when it has worked some off',
    { limit, retry_after: tryAgainSeconds, reset_at: Math.ceil(nowMs / 1000) + tryAgainSeconds },
  );
}

function leased(job: NewJob<'run_source'>, bytes: number): LeasedJob {
  return {
    id: job.id,
    kind: job.kind,
    ownerId: job.ownerId,
    lane: job.lane ?? null,
    attempts: 1,
    payload: job.payload,
    bytes,
    createdAtMs: job.nowMs,
  };
}

/** Inserts run jobs, many in one statement. */
function insertInvocations(store: Store): BatchWrite<NewInvocation, void> {
  return {
    name: 'insert-invocations',
    bytes: ({ job }) => job.payload.event?.length ?? 0,
    async run(tx, invocations) {
      await insertNewJobs(
        store,
        tx,
        invocations.map(({ job, node }) => jobRow(job, node)),
      );
      return invocations.map(() => undefined);
    },
  };
}
