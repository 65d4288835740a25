import type { Clock } from '#lib/clock.ts';
import { toError, UnavailableError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import type { JobKind } from './job-kinds.ts';
import {
  claimJobs,
  heartbeat,
  type LeasedJob,
  nextDueMs,
  recoverExpired,
  registerNode,
  releaseNode,
  requeueJob,
} from './job-store.ts';
import { attemptsMax, retryDelayMs } from './retry-schedule.ts';

/**
 * Does one job. It settles the job itself, in the transaction that stores what the job caused; a rejection means
 * nothing was stored, and the job runs again later. `quarantined` tells it of a job that took its nodes down too often.
 */
export interface JobHandler {
  run(job: LeasedJob, signal: AbortSignal): Promise<void>;
  quarantined(job: LeasedJob): Promise<void>;
}

/** Jobs under way in this process at most; the rest waits in the store. */
const runningMax = 512;
/** Of one lane: enough to keep it busy, few enough to leave room for the others. */
const runningPerLaneMax = 32;
/** A node is dead when it has not renewed for this long; it renews three times as often. */
const leaseMs = 15_000;
/** The safety net for a lost wake-up; ordinary wake-ups are immediate. */
const pollMs = 1_000;
const claimMax = 128;

/** Claims due jobs, runs them, and keeps this node's lease. Drains on stop. */
export class WorkerPool {
  readonly node: string;
  readonly #store: Store;
  readonly #handlers: Readonly<Record<JobKind, JobHandler>>;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #claims: boolean;
  readonly #stop = new AbortController();
  readonly #running = new Map<Promise<void>, LeasedJob>();
  readonly #perLane = new Map<string, number>();
  readonly #toRequeue: { job: LeasedJob; error: Error }[] = [];
  #timer: NodeJS.Timeout | undefined;
  #heartbeatTimer: NodeJS.Timeout | undefined;
  #claiming: Promise<void> | undefined;
  #pokedWhileClaiming = false;

  constructor(options: {
    node: string;
    store: Store;
    handlers: Readonly<Record<JobKind, JobHandler>>;
    clock: Clock;
    logger: Logger;
    /** False for a node without the worker role: it runs only what it accepted itself. */
    claims: boolean;
  }) {
    this.node = options.node;
    this.#store = options.store;
    this.#handlers = options.handlers;
    this.#clock = options.clock;
    this.#logger = options.logger;
    this.#claims = options.claims;
  }

  async start(): Promise<void> {
    const { node } = this;
    await this.#store.transaction((tx) => registerNode(tx, node, { nowMs: this.#clock.now(), leaseMs }));
    await this.#recover();
    this.#heartbeatTimer = setInterval(() => void this.#beat(), leaseMs / 3);
    this.#store.onNotify((channel) => {
      if (channel === 'millrace_jobs') this.poke();
    });
    this.poke();
  }

  /** Something may be due now. */
  poke(): void {
    if (!this.#claims || this.#stop.signal.aborted) return;
    if (this.#claiming !== undefined) {
      this.#pokedWhileClaiming = true;
      return;
    }
    this.#claiming = this.#claim().finally(() => {
      this.#claiming = undefined;
      if (this.#pokedWhileClaiming) {
        this.#pokedWhileClaiming = false;
        this.poke();
      }
    });
  }

  /** Whether a new job of this lane can start here at once (rather than wait in the store). */
  hasRoom(lane: string): boolean {
    return (
      !this.#stop.signal.aborted &&
      this.#running.size < runningMax &&
      (this.#perLane.get(lane) ?? 0) < runningPerLaneMax
    );
  }

  /** Runs a job that was inserted as leased to this node. */
  run(job: LeasedJob): void {
    const done = this.#handlers[job.kind]
      .run(job, this.#stop.signal)
      .catch((error: unknown) => this.#failed(job, toError(error)))
      .finally(() => {
        this.#running.delete(done);
        if (job.lane !== null) {
          const left = (this.#perLane.get(job.lane) ?? 1) - 1;
          if (left === 0) this.#perLane.delete(job.lane);
          else this.#perLane.set(job.lane, left);
          // Work of this lane may have been left in the store because the lane was full.
          if (left === runningPerLaneMax - 1 || this.#running.size === runningMax - 1) this.poke();
        }
      });
    this.#running.set(done, job);
    if (job.lane !== null) this.#perLane.set(job.lane, (this.#perLane.get(job.lane) ?? 0) + 1);
  }

  runningCount(): number {
    return this.#running.size;
  }

  /** Stops claiming, waits up to `graceMs` for jobs under way, then gives the rest back to the store. */
  async stop(graceMs: number): Promise<void> {
    if (this.#stop.signal.aborted) return;
    clearTimeout(this.#timer);
    clearInterval(this.#heartbeatTimer);
    this.#pokedWhileClaiming = false;
    const finished = Promise.allSettled([...this.#running.keys(), this.#claiming ?? Promise.resolve()]);
    const graceTimer = Promise.withResolvers<void>();
    const timer = setTimeout(graceTimer.resolve, graceMs);
    await Promise.race([finished, graceTimer.promise]);
    clearTimeout(timer);
    this.#stop.abort();
    try {
      const released = await this.#store.transaction((tx) => releaseNode(tx, this.node, this.#clock.now()));
      this.#logger.info({ node: this.node, released }, 'jobs.released');
    } catch (error) {
      // The lease runs out by itself; whoever comes next takes over.
      this.#logger.warn({ node: this.node, error: toError(error).message }, 'jobs.release-failed');
    }
  }

  async #claim(): Promise<void> {
    clearTimeout(this.#timer);
    try {
      await this.#requeueFailed();
      for (;;) {
        const limit = Math.min(claimMax, runningMax - this.#running.size);
        if (limit <= 0 || this.#stop.signal.aborted) break;
        const busyLanes = [...this.#perLane]
          .filter(([, count]) => count >= runningPerLaneMax)
          .map(([lane]) => lane);
        const jobs = await claimJobs(this.#store, {
          node: this.node,
          kinds: Object.keys(this.#handlers) as JobKind[],
          limit: Math.min(limit, runningPerLaneMax),
          busyLanes,
          nowMs: this.#clock.now(),
        });
        for (const job of jobs) this.run(job);
        if (jobs.length === 0) break;
      }
      const due = await nextDueMs(this.#store.read, Object.keys(this.#handlers) as JobKind[]);
      this.#sleep(due === undefined ? pollMs : Math.max(0, due - this.#clock.now()));
    } catch (error) {
      this.#logger.warn({ node: this.node, error: toError(error).message }, 'jobs.claim-failed');
      this.#sleep(pollMs);
    }
  }

  #sleep(ms: number): void {
    if (this.#stop.signal.aborted) return;
    // A due job that was not claimed is in a full lane or on another node: never spin on it.
    this.#timer = setTimeout(() => this.poke(), Math.min(Math.max(ms, 20), pollMs));
  }

  async #beat(): Promise<void> {
    try {
      const nowMs = this.#clock.now();
      const known = await this.#store.transaction((tx) => heartbeat(tx, this.node, { nowMs, leaseMs }));
      if (!known) {
        // Another node took our jobs over while this process was suspended. What we finish now will be refused.
        this.#logger.error({ node: this.node }, 'jobs.lease-lost');
        await this.#store.transaction((tx) => registerNode(tx, this.node, { nowMs, leaseMs }));
      }
      await this.#requeueFailed();
      await this.#recover();
    } catch (error) {
      this.#logger.warn({ node: this.node, error: toError(error).message }, 'jobs.heartbeat-failed');
    }
  }

  async #recover(): Promise<void> {
    const { requeued, quarantined } = await recoverExpired(this.#store, {
      nowMs: this.#clock.now(),
      attemptsMax,
      retryDelayMs: (attempt) => retryDelayMs(attempt, Math.random),
    });
    if (requeued > 0) {
      this.#logger.info({ node: this.node, requeued }, 'jobs.recovered');
      this.poke();
    }
    for (const job of quarantined) await this.#quarantined(job);
  }

  async #quarantined(job: LeasedJob): Promise<void> {
    this.#logger.error({ job: job.id, kind: job.kind, lane: job.lane }, 'job.quarantined');
    await this.#handlers[job.kind].quarantined(job);
  }

  #failed(job: LeasedJob, error: Error): void {
    if (this.#stop.signal.aborted) return;
    this.#logger.warn(
      { job: job.id, kind: job.kind, attempt: job.attempts, error: error.message },
      'job.attempt-failed',
    );
    this.#toRequeue.push({ job, error });
    this.poke();
  }

  /** Nothing of a failed attempt was stored; not even that it failed, while the store is away. */
  async #requeueFailed(): Promise<void> {
    for (;;) {
      const failed = this.#toRequeue[0];
      if (failed === undefined) return;
      const { job, error } = failed;
      const nowMs = this.#clock.now();
      const runAtMs = nowMs + retryDelayMs(job.attempts, Math.random);
      // A store that was away is not the job's fault; anything else counts.
      const keepAttempts = !(error instanceof UnavailableError);
      const state = keepAttempts && job.attempts >= attemptsMax ? 'quarantined' : 'queued';
      const held = await this.#store.transaction((tx) =>
        requeueJob(tx, this.node, job, { state, runAtMs, nowMs, error: error.message, keepAttempts }),
      );
      this.#toRequeue.shift();
      if (held && state === 'quarantined') await this.#quarantined(job);
    }
  }
}
