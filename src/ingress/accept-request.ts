import { type KeyedItem, keyRow, writeOnce } from '#idempotency/idempotency-key-store.ts';
import type { RequestKey } from '#idempotency/request-key.ts';
import type { JobPayloads } from '#jobs/job-kinds.ts';
import { insertNewJobs, isQueued, jobRow, type LeasedJob, leasedHere, type NewJob } from '#jobs/job-store.ts';
import { recentMs } from '#jobs/recent-lanes.ts';
import { UnpersistedJob } from '#jobs/unpersisted-job.ts';
import type { WorkerPool } from '#jobs/worker-pool.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError, UnavailableError } from '#lib/errors.ts';
import { newTimeOrderedId } from '#lib/ids.ts';
import type { HttpReply } from '#runner/call-outcome.ts';
import { unknownEndpoint } from '#sources/endpoint-errors.ts';
import { holdRun } from '#sources/hold-run.ts';
import type { ReplyWaiter } from '#sources/reply-waiter.ts';
import type { SourceRuns } from '#sources/run-source.ts';
import { goneSources } from '#sources/source-store.ts';
import { WaitingRuns, waitingMax } from '#sources/waiting-runs.ts';
import type { BatchWrite } from '#storage/group-commit.ts';
import type { Store } from '#storage/store.ts';
import type { IdempotencyKeyTable } from '#storage/tables/idempotency-tables.ts';
import { carriedTrace } from '#telemetry/span.ts';
import type { SourceEndpoint } from './resolve-endpoint.ts';

/** Maximum requests of one source that wait for a reply in this process. */
const waitingForReplyMax = 256;

/** Half of the time for which the owner of a lane remembers that other nodes accept requests too. */
const noticedForMs = recentMs / 2;
/** Maximum pause between two checks whether the job was claimed. Pauses double up to this, half a second in total. */
const noticePauseMaxMs = 256;

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
  readonly #runs: Pick<SourceRuns, 'awaitReply' | 'storedAnywhere' | 'stopAwaiting'>;
  readonly #clock: Clock;
  readonly #replyTimeoutMs: number;
  readonly #waiting: WaitingRuns;
  readonly #onHeld: (sourceId: string) => void;
  readonly #write: BatchWrite<NewInvocation, void>;
  readonly #writeOnce: BatchWrite<KeyedItem<NewInvocation>, boolean>;
  /** What ends the wait of each caller who waits here, by source. */
  readonly #waitingCallers = new Map<string, Set<() => void>>();
  /** Callers here whose runs may be on other nodes, by source. */
  readonly #elsewhere = new Map<string, number>();
  /** When this node last took a request for a lane that is not its own (performance.now). */
  readonly #noticedAtMs = new Map<string, number>();

  constructor(options: {
    store: Store;
    pool: WorkerPool;
    runs: Pick<SourceRuns, 'awaitReply' | 'storedAnywhere' | 'stopAwaiting'>;
    clock: Clock;
    /** How long a request waits for the turn of its run. The run has its own deadline. */
    replyTimeoutMs: number;
    waiting?: WaitingRuns;
    /** A request was stored that flow control has to look at. */
    onHeld: (sourceId: string) => void;
  }) {
    this.#store = options.store;
    this.#pool = options.pool;
    this.#runs = options.runs;
    this.#clock = options.clock;
    this.#replyTimeoutMs = options.replyTimeoutMs;
    this.#onHeld = options.onHeld;
    this.#waiting = options.waiting ?? new WaitingRuns({ store: options.store, clock: options.clock });
    this.#write = insertInvocations(options.store, () => options.pool.lanes.hasOthers);
    this.#writeOnce = writeOnce(this.#write);
  }

  /**
   * Resolves when the request is on disk, with false when there is already a request with this key. Throws `source_busy` when too
   * many requests wait for this source, `unknown_endpoint` when the source was deleted.
   * @param event JSON text of the argument of `run`
   */
  async accept(endpoint: SourceEndpoint, event: string, key?: RequestKey): Promise<boolean> {
    const job = this.#newJob(endpoint, event);
    const keyed = key && keyRow(key, { jobId: job.id, nowMs: job.nowMs, accepted: true });
    if (endpoint.flowControl !== null)
      return this.#hold(endpoint.sourceId, holdRun(job, endpoint.flowControl), event.length, keyed);
    if (!this.#pool.lanes.owns(endpoint.lane)) await this.#pool.takeIfFree(endpoint.lane, endpoint.ownerId);
    return this.#pool.hasRoom(endpoint.lane, endpoint.ownerId)
      ? this.#runHere(job, event.length, { key: keyed })
      : this.#leaveInStore(endpoint, job, event.length, keyed);
  }

  /**
   * The component's reply. Its `reply` is undefined when the run ended without one, or (`waits`) did not begin in time. Undefined: there is
   * already a request with this key. Throws `UnavailableError` when the run was interrupted; it will run again, without the caller.
   * If this node owns the lane of the source, the job stays in this process, and the request is refused when too many wait here.
   * If another node does, job and reply go through the store.
   */
  async acceptAndAwait(
    endpoint: SourceEndpoint,
    event: string,
    key?: RequestKey,
    { isPrivate = false } = {},
  ): Promise<{ jobId: string; reply: HttpReply | undefined; waits: boolean } | undefined> {
    if (!this.#pool.lanes.owns(endpoint.lane)) await this.#pool.takeIfFree(endpoint.lane, endpoint.ownerId);
    const isHere = this.#pool.hasTurn(endpoint.lane);
    const elsewhere = this.#elsewhere.get(endpoint.sourceId) ?? 0;
    // Both counts together: this node may take or lose the lane while callers wait.
    if (!isHere && elsewhere + this.#pool.stayingIn(endpoint.lane) >= waitingForReplyMax)
      throw tooMany(waitingForReplyMax, this.#clock.now());
    if (
      isHere &&
      !this.#pool.hasRoomToStay(endpoint.lane, endpoint.ownerId, waitingForReplyMax - elsewhere)
    ) {
      if (this.#pool.hasRoomToStay('', endpoint.ownerId, 1))
        throw tooMany(waitingForReplyMax, this.#clock.now());
      this.#pool.refusedToStay(endpoint.ownerId);
      throw new UnavailableError('overloaded', 'the service has too much to do, or is stopping; try again');
    }
    const job = this.#newJob(endpoint, event, {
      ...(isHere ? {} : { reply_to: this.#pool.node }),
      ...(key === undefined ? {} : { key_id: key.id, ...(isPrivate ? { is_private: true } : {}) }),
    });
    const keyed = key && keyRow(key, { jobId: job.id, nowMs: job.nowMs, accepted: false });
    const answer = Promise.withResolvers<HttpReply | undefined>();
    // The reply may arrive before the request is on disk, or after the store refused it.
    answer.promise.catch(() => {});
    // This node cannot see when a run on another node begins, so one timer covers both the wait for its turn and the run.
    const patienceMs = isHere ? this.#replyTimeoutMs : 2 * this.#replyTimeoutMs;
    let waits = false;
    const timer = setTimeout(() => {
      waits = true;
      answer.resolve(undefined);
    }, patienceMs);
    const waiter: ReplyWaiter = {
      started: () => {
        if (isHere) clearTimeout(timer);
      },
      respond: answer.resolve,
      ended: () => answer.resolve(undefined),
      interrupted: () => answer.reject(interrupted()),
    };
    const forgetCaller = this.#rememberCaller(endpoint.sourceId, () => answer.resolve(undefined));
    this.#runs.awaitReply(job.id, waiter, { anywhere: !isHere });
    if (!isHere) this.#waitsElsewhere(endpoint.sourceId, 1);
    try {
      const isNew = isHere
        ? await this.#runHere(job, event.length, { staysHere: true, key: keyed })
        : await this.#leaveInStore(endpoint, job, event.length, keyed);
      if (!isNew) return undefined;
      if (!isHere) this.#runs.storedAnywhere(job.id);
      const reply = await answer.promise;
      return { jobId: job.id, reply, waits };
    } finally {
      clearTimeout(timer);
      forgetCaller();
      if (!isHere) this.#waitsElsewhere(endpoint.sourceId, -1);
      this.#runs.stopAwaiting(job.id);
    }
  }

  /** A source was removed, on whichever node: nothing replies to those who wait for it. */
  removed(sourceId: string): void {
    for (const endWait of this.#waitingCallers.get(sourceId) ?? []) endWait();
  }

  #rememberCaller(sourceId: string, endWait: () => void): () => void {
    const callers = this.#waitingCallers.get(sourceId) ?? new Set();
    this.#waitingCallers.set(sourceId, callers.add(endWait));
    return () => {
      callers.delete(endWait);
      if (callers.size === 0 && this.#waitingCallers.get(sourceId) === callers)
        this.#waitingCallers.delete(sourceId);
    };
  }

  #waitsElsewhere(sourceId: string, change: 1 | -1): void {
    const count = (this.#elsewhere.get(sourceId) ?? 0) + change;
    if (count === 0) this.#elsewhere.delete(sourceId);
    else this.#elsewhere.set(sourceId, count);
  }

  /** Leaves the job to flow control. False: there is already a request with its key. */
  async #hold(
    sourceId: string,
    job: NewJob<'run_source'>,
    bytes: number,
    key: IdempotencyKeyTable | undefined,
  ): Promise<boolean> {
    if (!(await this.#waiting.admit(sourceId, bytes))) throw tooMany(waitingMax, this.#clock.now());
    if (key === undefined) await this.#store.writes.submit(this.#write, { job });
    else if (!(await this.#store.writes.submit(this.#writeOnce, { item: { job }, key }))) return false;
    this.#onHeld(sourceId);
    return true;
  }

  /** Leaves the job to the node that owns the lane. False: there is already a request with its key. */
  async #leaveInStore(
    { sourceId, lane }: SourceEndpoint,
    job: NewJob<'run_source'>,
    bytes: number,
    key: IdempotencyKeyTable | undefined,
  ): Promise<boolean> {
    if (!(await this.#waiting.admit(sourceId, bytes))) throw tooMany(waitingMax, this.#clock.now());
    job.payload.accepted_by = this.#pool.node;
    if (key === undefined) await this.#store.writes.submit(this.#write, { job });
    else if (!(await this.#store.writes.submit(this.#writeOnce, { item: { job }, key }))) return false;
    this.#pool.leftInStore(lane, job.ownerId);
    if (this.#store.isShared && !this.#pool.lanes.owns(lane)) await this.#noticed(lane, job.id);
    return true;
  }

  /**
   * The owner of a lane runs its own requests immediately, until it learns that other nodes accept requests too. So the first
   * request here in a while is answered only after the owner claimed it. A request that is sent after that answer runs after it,
   * whichever node accepts it.
   */
  async #noticed(lane: string, jobId: string): Promise<void> {
    const nowMs = performance.now();
    const isKnown = (this.#noticedAtMs.get(lane) ?? Number.NEGATIVE_INFINITY) > nowMs - noticedForMs;
    this.#noticedAtMs.set(lane, nowMs);
    if (isKnown) return;
    for (const [other, atMs] of this.#noticedAtMs)
      if (atMs <= nowMs - noticedForMs) this.#noticedAtMs.delete(other);
    for (let pauseMs = 2; pauseMs <= noticePauseMaxMs; pauseMs *= 2) {
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
      // If the store is unavailable now, the request is still on disk.
      if (!(await isQueued(this.#store.read, jobId).catch(() => false))) return;
    }
  }

  #newJob(
    endpoint: SourceEndpoint,
    event: string,
    options: Pick<JobPayloads['run_source'], 'reply_to' | 'key_id' | 'is_private'> = {},
  ): NewJob<'run_source'> {
    const nowMs = this.#clock.now();
    return {
      id: newTimeOrderedId(nowMs),
      kind: 'run_source',
      ownerId: endpoint.ownerId,
      lane: endpoint.lane,
      payload: {
        source_id: endpoint.sourceId,
        trigger: 'http',
        event,
        hops: 0,
        ...carriedTrace(),
        ...options,
      },
      runAtMs: nowMs,
      nowMs,
    };
  }

  /** The node that accepts the request runs it: the row is inserted as leased. False: there is already a request with its key. */
  async #runHere(
    job: NewJob<'run_source'>,
    bytes: number,
    { key, ...options }: Pick<LeasedJob, 'staysHere'> & { key: IdempotencyKeyTable | undefined },
  ): Promise<boolean> {
    const { writes } = this.#store;
    const invocation: NewInvocation = { job, node: this.#pool.node };
    if (key !== undefined) {
      // The job starts when its key is on disk, because only then is it known to be the first with that key.
      if (!(await writes.submit(this.#writeOnce, { item: invocation, key }))) return false;
      this.#pool.run({ ...leasedHere(job, bytes), ...options });
    } else if (writes.healthy) {
      const unpersisted = new UnpersistedJob(() => writes.place(this.#write, invocation));
      this.#pool.run({ ...leasedHere(job, bytes), ...options, unpersisted });
      await unpersisted.onDisk;
    } else {
      // The store is failing: the job starts only if its write succeeds.
      await writes.submit(this.#write, invocation);
      this.#pool.run({ ...leasedHere(job, bytes), ...options });
    }
    return true;
  }
}

function interrupted(): UnavailableError {
  return new UnavailableError(
    'overloaded',
    'the run was interrupted before its response; it will be run again later',
  );
}

/** The `retry_after` of a refused request. */
const tryAgainSeconds = 5;

function tooMany(limit: number, nowMs: number): CallerError {
  return new CallerError(
    'source_busy',
    'too many requests are waiting for this source; try again in a few seconds',
    { limit, retry_after: tryAgainSeconds, reset_at: Math.ceil(nowMs / 1000) + tryAgainSeconds },
  );
}

/**
 * Inserts run jobs, many in one statement. Where other nodes are there, one of them may have deleted a source that this node still
 * remembers: its request is refused, or it would be acknowledged and lost. A source that is removed after the check takes its accepted requests with it.
 */
function insertInvocations(store: Store, hasOthers: () => boolean): BatchWrite<NewInvocation, void> {
  return {
    name: 'insert-invocations',
    ownerOf: ({ job }) => job.ownerId,
    bytes: ({ job }) => job.payload.event?.length ?? 0,
    async run(tx, invocations) {
      if (hasOthers()) {
        const gone = await goneSources(tx, new Set(invocations.map(({ job }) => job.payload.source_id)));
        // The others of the batch are written one by one.
        if (gone.size > 0) throw unknownEndpoint();
      }
      await insertNewJobs(
        store,
        tx,
        invocations.map(({ job, node }) => jobRow(job, node)),
      );
      // The node that has the turn takes it from the store.
      if (invocations.some(({ node }) => node === undefined)) await store.notify(tx, 'millrace_jobs', '');
      return invocations.map(() => undefined);
    },
  };
}
