import type { Clock } from '#lib/clock.ts';
import { toError, UnavailableError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import type { JobKind } from './job-kinds.ts';
import {
  claimJobs,
  forgetNodes,
  heartbeat,
  type LeasedJob,
  nextDueMs,
  pruneQuarantined,
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
export const runningMax = 512;
/** Of one lane: enough to keep it busy, few enough to leave room for the others. */
export const runningPerLaneMax = 32;
/** A node is dead when it has not renewed for this long; it renews three times as often. */
const leaseMs = 15_000;
/** The safety net for a lost wake-up; ordinary wake-ups are immediate. */
const pollMs = 1_000;
const claimMax = 128;
/** Quarantined jobs stand there for whoever looks after them for a month; then they go, a few at each heartbeat. */
const quarantineMs = 30 * 86_400_000;
const pruneMax = 200;
/**
 * What was full is filled again when it has run down to this, not at each job that ends: a claim costs a transaction,
 * whether it gets one job or many.
 */
const refillBelow = runningMax - claimMax;
const refillLaneBelow = runningPerLaneMax / 2;

/** Claims due jobs, runs them, and keeps this node's lease. Drains on stop. */
export class WorkerPool {
  readonly node: string;
  readonly #store: Store;
  readonly #handlers: Readonly<Record<JobKind, JobHandler>>;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #claims: boolean;
  readonly #stop = new AbortController();
  #draining = false;
  #stopping: Promise<void> | undefined;
  readonly #running = new Map<Promise<void>, LeasedJob>();
  readonly #perLane = new Map<string, number>();
  readonly #toRequeue: { job: LeasedJob; error: Error }[] = [];
  #timer: NodeJS.Timeout | undefined;
  #heartbeatTimer: NodeJS.Timeout | undefined;
  #claiming: Promise<void> | undefined;
  #beating: Promise<void> | undefined;
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
    await this.#store.transaction(async (tx) => {
      if (this.#store.name === 'sqlite') await forgetNodes(tx);
      await registerNode(tx, node, { nowMs: this.#clock.now(), leaseMs });
    });
    await this.#recover();
    this.#heartbeatTimer = setInterval(() => {
      this.#beating ??= this.#beat().finally(() => {
        this.#beating = undefined;
      });
    }, leaseMs / 3);
    this.#store.onNotify((channel) => {
      if (channel === 'millrace_jobs') this.poke();
    });
    this.poke();
  }

  /** Something may be due now. */
  poke(): void {
    if (!this.#claims || this.#draining) return;
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
      !this.#draining && this.#running.size < runningMax && (this.#perLane.get(lane) ?? 0) < runningPerLaneMax
    );
  }

  /** Runs a job that was, or is being, inserted as leased to this node. */
  run(job: LeasedJob): void {
    if (job.lane !== null) this.#perLane.set(job.lane, (this.#perLane.get(job.lane) ?? 0) + 1);
    const done = this.#attempt(job).finally(() => {
      this.#running.delete(done);
      let mayHaveLeftWork = this.#running.size === refillBelow;
      if (job.lane !== null) {
        const left = (this.#perLane.get(job.lane) ?? 1) - 1;
        if (left === 0) this.#perLane.delete(job.lane);
        else this.#perLane.set(job.lane, left);
        mayHaveLeftWork ||= left === refillLaneBelow;
      }
      // Work may have been left in the store because its lane, or the whole pool, was full.
      if (mayHaveLeftWork) this.poke();
    });
    this.#running.set(done, job);
  }

  runningCount(): number {
    return this.#running.size;
  }

  /**
   * Stops claiming, waits up to `graceMs` for jobs under way, then gives the rest back to the store. The lease is kept
   * until then. A second call waits for the first.
   */
  stop(graceMs: number): Promise<void> {
    this.#stopping ??= this.#drain(graceMs);
    return this.#stopping;
  }

  async #drain(graceMs: number): Promise<void> {
    this.#draining = true;
    clearTimeout(this.#timer);
    const finished = Promise.allSettled([...this.#running.keys(), this.#claiming]);
    const graceTimer = Promise.withResolvers<void>();
    const timer = setTimeout(graceTimer.resolve, graceMs);
    await Promise.race([finished, graceTimer.promise]);
    clearTimeout(timer);
    clearInterval(this.#heartbeatTimer);
    this.#stop.abort();
    await this.#beating;
    try {
      // Those that failed during the drain keep their pause and their count.
      await this.#requeueFailed();
      const released = await this.#store.transaction((tx) => releaseNode(tx, this.node, this.#clock.now()));
      this.#logger.info({ node: this.node, released }, 'jobs.released');
    } catch (error) {
      // The lease runs out by itself; whoever comes next takes over.
      this.#logger.warn({ node: this.node, error: toError(error).message }, 'jobs.release-failed');
    }
  }

  async #claim(): Promise<void> {
    clearTimeout(this.#timer);
    const kinds = Object.keys(this.#handlers) as JobKind[];
    let lookedAtMs = this.#clock.now();
    try {
      await this.#requeueFailed();
      for (;;) {
        const limit = Math.min(claimMax, runningMax - this.#running.size);
        if (limit <= 0 || this.#draining) break;
        lookedAtMs = this.#clock.now();
        const jobs = await claimJobs(this.#store, {
          node: this.node,
          kinds,
          limit,
          laneMax: runningPerLaneMax,
          runningByLane: this.#perLane,
          nowMs: lookedAtMs,
        });
        // What a claim brings while we drain goes back with the rest.
        if (this.#draining || jobs.length === 0) break;
        for (const job of jobs) this.run(job);
      }
      const due = await nextDueMs(this.#store.read, kinds, lookedAtMs);
      this.#sleep(due === undefined ? pollMs : due - this.#clock.now());
    } catch (error) {
      this.#logger.warn({ node: this.node, error: toError(error).message }, 'jobs.claim-failed');
      this.#sleep(pollMs);
    }
  }

  #sleep(ms: number): void {
    if (this.#draining) return;
    this.#timer = setTimeout(() => this.poke(), Math.min(Math.max(ms, 0), pollMs));
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
      const beforeMs = nowMs - quarantineMs;
      await this.#store.transaction((tx) => pruneQuarantined(tx, { beforeMs, limit: pruneMax }));
    } catch (error) {
      this.#logger.warn({ node: this.node, error: toError(error).message }, 'jobs.heartbeat-failed');
    }
  }

  async #recover(): Promise<void> {
    for (;;) {
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
      if (requeued + quarantined.length === 0) return;
    }
  }

  async #quarantined(job: LeasedJob): Promise<void> {
    this.#logger.error({ job: job.id, kind: job.kind, lane: job.lane }, 'job.quarantined');
    try {
      await this.#handlers[job.kind].quarantined(job);
    } catch (error) {
      // The job stays visible in quarantine; the others of this round must still be told of.
      this.#logger.error({ job: job.id, error: toError(error).message }, 'job.quarantine-not-told');
    }
  }

  /** Also a handler that throws before its first await is only a failed attempt. */
  async #attempt(job: LeasedJob): Promise<void> {
    try {
      await this.#handlers[job.kind].run(job, this.#stop.signal);
    } catch (error) {
      // One that never got to the disk was never accepted: there is nothing to run again.
      if (await isStored(job)) this.#failed(job, toError(error));
    }
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

  /**
   * Nothing of a failed attempt was stored; not even that it failed, while the store is away. Two callers may be in
   * here at once, so each takes its job out first.
   */
  async #requeueFailed(): Promise<void> {
    for (let failed = this.#toRequeue.shift(); failed !== undefined; failed = this.#toRequeue.shift()) {
      const { job, error } = failed;
      const nowMs = this.#clock.now();
      const runAtMs = nowMs + retryDelayMs(job.attempts, Math.random);
      // A store that was away is not the job's fault; anything else counts.
      const keepAttempts = !(error instanceof UnavailableError);
      const state = keepAttempts && job.attempts >= attemptsMax ? 'quarantined' : 'queued';
      let held: boolean;
      try {
        held = await this.#store.transaction((tx) =>
          requeueJob(tx, this.node, job, { state, runAtMs, nowMs, error: error.message, keepAttempts }),
        );
      } catch (cause) {
        // Behind the others: one that cannot be stored must not keep them from it.
        this.#toRequeue.push(failed);
        throw cause;
      }
      if (held && state === 'quarantined') await this.#quarantined(job);
    }
  }
}

async function isStored(job: LeasedJob): Promise<boolean> {
  if (job.arriving === undefined) return true;
  return job.arriving.write().then(
    () => true,
    () => false,
  );
}
