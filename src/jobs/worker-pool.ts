import type { Clock } from '#lib/clock.ts';
import { toError, UnavailableError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import { Wakeable } from '#lib/wakeable.ts';
import type { Store, Tx } from '#storage/store.ts';
import { type ClaimOptions, claimJobs, claimSuspect, endSolitude, whatWaits } from './claim-store.ts';
import type { JobKind, JobPayloads } from './job-kinds.ts';
import { type LeasedJob, pruneQuarantined, requeueJob } from './job-store.ts';
import { releaseLanes } from './lane-lease-store.ts';
import { LaneLeases } from './lane-leases.ts';
import { LeaseClock } from './lease-clock.ts';
import { forgetNodeState, forgetNodeStates, type NodeClock, reportNode } from './node-state-store.ts';
import {
  forgetNode,
  forgetNodes,
  heartbeat,
  type QuarantinedJob,
  recoverExpired,
  registerNode,
  releaseNode,
  releaseUnknown,
  setTold,
  takeUntold,
} from './node-store.ts';
import { blamesMax, retryDelayMs, uncountedDelayMs } from './retry-schedule.ts';

/**
 * Does one job. It settles the job itself, in the transaction that stores what the job caused; a rejection means
 * nothing was stored, and the job runs again later. `quarantined` tells it of a job that took its nodes down too often.
 */
export interface JobHandler {
  run(job: LeasedJob, signal: AbortSignal): Promise<void>;
  quarantined(job: LeasedJob): Promise<void>;
}

/** Jobs of this process at most, running or waiting for the turn of their lane; the rest waits in the store. */
export const runningMax = 2048;
/** And the bytes of their payloads. */
const runningBytesMax = 256 * 1024 * 1024;
/** Of one lane: enough to keep it busy, and to take a burst without the way through the store. */
export const runningPerLaneMax = 128;
/**
 * A lane gets at most this part of the room that is left: lanes of slow sources, each with a backlog, can then never
 * take the room of all others (each runs one job at a time, and its others only wait).
 */
const laneShare = 1 / 16;
/** Default of `leaseMs`. */
const defaultLeaseMs = 15_000;
/** The safety net for a lost wake-up; ordinary wake-ups are immediate. */
export const pollMs = 1_000;
const claimMax = 128;
/** Quarantined jobs stand there for whoever looks after them for a month; then they go, a few at each heartbeat. */
const quarantineMs = 30 * 86_400_000;
const pruneMax = 200;
/**
 * What was full is filled again when it has run down to this, not at each job that ends: a claim costs a transaction,
 * whether it gets one job or many.
 */
const refillBelow = runningMax - claimMax;
const refillLanePart = 1 / 2;
/** A lane whose jobs came through other nodes goes through the store for so long after the last one. */
export const throughOthersMs = 10_000;
/** Of suspects, milliseconds. */
export interface SolitudeTimes {
  /** What runs for so long already is not what takes a node down as soon as it begins: it is not waited for longer. */
  provenMs: number;
  /** They are alone for so long at a time. */
  aloneMs: number;
  /** And everything else has so long before they are alone again. */
  betweenMs: number;
}
const solitudeTimes: Readonly<SolitudeTimes> = { provenMs: 10_000, aloneMs: 10_000, betweenMs: 10_000 };
/** Lanes that are handed over are looked at so often, until nothing of them is under way here. */
const handOverMs = 250;

/** Claims due jobs, runs them, and keeps this node's lease. Drains on stop. */
export class WorkerPool {
  readonly node: string;
  /** Whose turn each lane is, where there are other nodes. */
  readonly lanes: LaneLeases;
  readonly #store: Store;
  readonly #handlers: Readonly<Record<JobKind, JobHandler>>;
  readonly #kinds: readonly JobKind[];
  readonly #clock: Clock;
  readonly #leaseClock: LeaseClock;
  readonly #logger: Logger;
  readonly #claims: boolean;
  readonly #leaseMs: number;
  readonly #nodeClock: () => NodeClock | undefined;
  readonly #predecessor: string | undefined;
  readonly #solitudeTimes: Readonly<SolitudeTimes>;
  readonly #stop = new AbortController();
  #draining = false;
  #stopping: Promise<void> | undefined;
  #startedAtMs = 0;
  #stoppingSinceMs: number | null = null;
  readonly #running = new Map<Promise<void>, LeasedJob>();
  /** Those that might as well wait in the store, and those that cannot: only the first count where jobs are claimed. */
  readonly #perLane = new Map<string, number>();
  readonly #stayingPerLane = new Map<string, number>();
  #bytes = 0;
  /**
   * Lanes that may have jobs in the store, for which there was no room here or which came through another node: newer ones go behind
   * them. Each with the number of the mark, so that a claim forgets only what it has seen. `poolFull`: of any lane.
   */
  readonly #fullLanes = new Map<string, number>();
  #marks = 0;
  /** Lanes of which jobs came through other nodes, until when that is believed of them (performance.now). */
  readonly #throughOthers = new Map<string, number>();
  #poolFull = false;
  /** While suspects run: what else comes begins when it resolves. */
  #solitude: Promise<void> | undefined;
  #suspect: LeasedJob | undefined;
  /** The others get time before suspects are alone again (performance.now). */
  #suspectsFromMs = 0;
  readonly #stopsClaiming = new AbortController();
  readonly #toRequeue: { job: LeasedJob; error: Error }[] = [];
  /** Quarantined jobs whose handlers could not be told. */
  #untold: QuarantinedJob[] = [];
  /** Aborted when this node learns that it lost its lease. */
  #lease = new AbortController();
  /** Of the jobs that begin now. */
  #signal = AbortSignal.any([this.#stop.signal, this.#lease.signal]);
  readonly #wakeable: Wakeable;
  #heartbeatTimer: NodeJS.Timeout | undefined;
  #handOverTimer: NodeJS.Timeout | undefined;
  #handingOver: Promise<void> | undefined;
  #beating: Promise<void> | undefined;
  /** When this node last renewed its lease, by a clock that never steps. */
  #renewedAtMs = performance.now();

  constructor(options: {
    node: string;
    store: Store;
    handlers: Readonly<Record<JobKind, JobHandler>>;
    clock: Clock;
    logger: Logger;
    /** False for a node without the worker role: it runs only what it accepted itself, and that only in lanes that nodes share. */
    claims: boolean;
    /** A node is dead when it has not renewed its lease for this long; it renews three times as often. Default: 15 s. */
    leaseMs?: number;
    /** A node that is gone for sure. */
    predecessor?: string | undefined;
    /** What the clock of this machine is like. */
    nodeClock?: () => NodeClock | undefined;
    /** For tests of jobs that were lost with their nodes. */
    solitude?: SolitudeTimes;
  }) {
    this.node = options.node;
    this.#store = options.store;
    this.#handlers = options.handlers;
    this.#kinds = Object.keys(options.handlers) as JobKind[];
    this.#clock = options.clock;
    this.#leaseClock = new LeaseClock(options);
    this.#logger = options.logger;
    this.#claims = options.claims;
    this.#leaseMs = options.leaseMs ?? defaultLeaseMs;
    this.#predecessor = options.predecessor;
    this.#nodeClock = options.nodeClock ?? (() => undefined);
    this.#solitudeTimes = options.solitude ?? solitudeTimes;
    this.#wakeable = new Wakeable({
      look: () => this.#claim(),
      pollMs,
      logger: options.logger,
      failure: 'jobs.claim-failed',
      about: { node: options.node },
    });
    this.lanes = new LaneLeases(options);
    this.lanes.onTaken((lanes) => this.#taken(lanes));
  }

  async start(): Promise<void> {
    const { node } = this;
    const nowMs = await this.#leaseClock.nowMs();
    await this.#store.transaction(async (tx) => {
      if (!this.#store.isShared) {
        await forgetNodes(tx);
        await forgetNodeStates(tx);
      } else if (this.#predecessor !== undefined) {
        await forgetNode(tx, this.#predecessor);
        await forgetNodeState(tx, this.#predecessor);
      }
      await registerNode(tx, node, { nowMs, leaseMs: this.#leaseMs, claims: this.#claims });
      this.#startedAtMs = nowMs;
      await this.#report(tx, nowMs);
    });
    this.#renewedAtMs = performance.now();
    await this.recover();
    await this.#tellUntold();
    this.#heartbeatTimer = setInterval(() => {
      this.#beating ??= this.#beat().finally(() => {
        this.#beating = undefined;
      });
    }, this.#leaseMs / 3);
    this.#store.onNotify((channel) => {
      if (channel === 'millrace_jobs') this.poke();
    });
    if (this.#claims) await this.lanes.look({ nowMs, isBusy: (lane) => this.#isBusy(lane) });
    this.poke();
  }

  /** Something may be due now. */
  poke(): void {
    if (this.#claims) this.#wakeable.poke();
  }

  /**
   * Whether a new job of this lane can run, or wait for its turn, here. Where older ones of its lane wait in the store
   * it goes there too: jobs that come one by one would take each place before those.
   */
  hasRoom(lane: string): boolean {
    return (
      this.#solitude === undefined &&
      this.hasTurn(lane) &&
      !this.#fullLanes.has(lane) &&
      this.#hasPlaceIn(lane)
    );
  }

  /** Whether a job of this lane may run here as soon as it is accepted, before any that wait in the store. */
  hasTurn(lane: string): boolean {
    return this.lanes.owns(lane) && !this.#comesThroughOthers(lane);
  }

  /** Older jobs of these may wait in the store, and, where there are other nodes, requests for them may come there too. */
  #taken(lanes: ReadonlySet<string>): void {
    if (!this.#claims) return;
    const untilMs = performance.now() + throughOthersMs;
    for (const lane of lanes) {
      this.#mark(lane);
      if (this.lanes.hasOthers) this.#throughOthers.set(lane, untilMs);
    }
    this.poke();
  }

  /** Requests of this lane come to other nodes too: all go through the store, where they are in order. */
  #comesThroughOthers(lane: string): boolean {
    const untilMs = this.#throughOthers.get(lane);
    if (untilMs === undefined) return false;
    if (performance.now() < untilMs) return true;
    this.#throughOthers.delete(lane);
    return false;
  }

  /** The same as `hasRoom` for a job that has to stay in this process, with the bound of those in its lane. */
  hasRoomToStay(lane: string, laneMax: number): boolean {
    return this.#hasPlaces() && (this.#stayingPerLane.get(lane) ?? 0) < laneMax;
  }

  #hasPlaceIn(lane: string): boolean {
    return this.#hasPlaces() && (this.#perLane.get(lane) ?? 0) < this.#laneMax();
  }

  #hasPlaces(): boolean {
    return !this.#draining && this.#running.size < runningMax && this.#bytes < runningBytesMax;
  }

  /** A job of this lane was stored because it had no room here, or the lane is not this node's: it is fetched when there is room. */
  leftInStore(lane: string): void {
    if (!this.#claims) return;
    this.#mark(lane);
    if (this.#hasPlaceIn(lane)) this.poke();
  }

  #mark(lane: string): void {
    this.#marks += 1;
    this.#fullLanes.set(lane, this.#marks);
  }

  #laneMax(): number {
    const free = runningMax - this.#running.size;
    return Math.min(runningPerLaneMax, Math.max(1, Math.floor(free * laneShare)));
  }

  /** Runs a job that was, or is being, inserted as leased to this node. */
  run(job: LeasedJob): void {
    void this.#begin(job);
  }

  #begin(job: LeasedJob): Promise<void> {
    const perLane = job.staysHere === true ? this.#stayingPerLane : this.#perLane;
    if (job.lane !== null) perLane.set(job.lane, (perLane.get(job.lane) ?? 0) + 1);
    this.#bytes += job.bytes;
    const done = this.#attempt(job).finally(() => {
      this.#running.delete(done);
      this.#bytes -= job.bytes;
      if (job.lane !== null) {
        const left = (perLane.get(job.lane) ?? 1) - 1;
        if (left === 0) perLane.delete(job.lane);
        else perLane.set(job.lane, left);
      }
      if (this.#hasDrained(job.lane)) this.poke();
    });
    this.#running.set(done, job);
    return done;
  }

  /** Whether there is room again for what was left in the store. */
  #hasDrained(lane: string | null): boolean {
    if (this.#poolFull && this.#running.size <= refillBelow && this.#bytes < runningBytesMax) return true;
    if (lane === null || !this.#fullLanes.has(lane)) return false;
    return (this.#perLane.get(lane) ?? 0) <= this.#laneMax() * refillLanePart;
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
    this.#stopsClaiming.abort();
    const claimed = this.#wakeable.stop();
    const reported = this.#startedAtMs === 0 ? undefined : this.#reportStopping();
    const finished = Promise.allSettled([...this.#running.keys(), claimed]);
    const graceTimer = Promise.withResolvers<void>();
    const timer = setTimeout(graceTimer.resolve, graceMs);
    await Promise.race([finished, graceTimer.promise]);
    clearTimeout(timer);
    clearInterval(this.#heartbeatTimer);
    clearTimeout(this.#handOverTimer);
    this.#stop.abort();
    await this.#beating;
    await this.#handingOver;
    await reported;
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

  /** After `stop`, when nothing of this node's lanes is under way anywhere in this process: other nodes take them at once. */
  async releaseLanes(): Promise<void> {
    if (!this.#store.isShared) return;
    try {
      await this.#store.transaction(async (tx) => {
        await releaseLanes(tx, this.node);
        await this.#store.notify(tx, 'millrace_jobs', '');
      });
    } catch (error) {
      // They are freed with the next heartbeat of another node.
      this.#logger.warn({ node: this.node, error: toError(error).message }, 'jobs.release-failed');
    }
  }

  /** Claims what is due, and answers in how many milliseconds something is due again. */
  async #claim(): Promise<number> {
    let lookedAtMs = this.#clock.now();
    await this.#requeueFailed();
    this.#poolFull = false;
    const marks = this.#marks;
    for (;;) {
      const free = runningMax - this.#running.size;
      // A part of what is free, so that the share of a lane shrinks as lanes take theirs.
      const limit = Math.min(claimMax, Math.ceil(free / 4));
      this.#poolFull = limit <= 0 || this.#bytes >= runningBytesMax;
      if (this.#poolFull || this.#draining) break;
      lookedAtMs = this.#clock.now();
      const laneMax = this.#laneMax();
      // Before the claim, not after it: a lane that drains meanwhile has ended the jobs that would have told of it.
      for (const [lane, running] of this.#perLane) if (running >= laneMax) this.#mark(lane);
      const jobs = await claimJobs(this.#store, this.#claimOptions({ limit, laneMax, nowMs: lookedAtMs }));
      // What a claim brings while we drain goes back with the rest.
      if (this.#draining) break;
      this.#noteOrigins(jobs);
      for (const job of jobs) this.run(job);
      if (jobs.length > 0) continue;
      // Nothing that was there when this claim began is left, but in lanes that are full.
      for (const [lane, mark] of this.#fullLanes) if (mark <= marks) this.#fullLanes.delete(lane);
      break;
    }
    const { dueMs, suspects } = await whatWaits(this.#store.read, {
      node: this.node,
      kinds: this.#kinds,
      afterMs: lookedAtMs,
    });
    if (suspects && !this.#draining) await this.#runSuspects();
    return dueMs === undefined ? pollMs : dueMs - this.#clock.now();
  }

  #claimOptions(options: Pick<ClaimOptions, 'limit' | 'laneMax' | 'nowMs'>): ClaimOptions {
    let held: Map<string, LeasedJob[]> | undefined;
    return {
      node: this.node,
      lanes: this.lanes,
      kinds: this.#kinds,
      runningByLane: this.#perLane,
      isUnderWay: (id, attempts) => {
        held ??= Map.groupBy(this.#running.values(), (job) => job.id);
        return held.get(id)?.some((job) => job.attempts === attempts) === true;
      },
      ...options,
    };
  }

  /**
   * Runs jobs that were lost with their nodes twice, one at a time and alone: if this node dies too, it is known of which. Nothing else
   * begins until they have ended, or have had their time; what runs already has run for long without harm, or is waited for.
   */
  async #runSuspects(): Promise<void> {
    if (performance.now() < this.#suspectsFromMs) return;
    const { provenMs, aloneMs, betweenMs } = this.#solitudeTimes;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#solitude = promise;
    try {
      await Promise.race([Promise.allSettled([...this.#running.keys()]), this.#pause(provenMs)]);
      const untilMs = performance.now() + aloneMs;
      while (performance.now() < untilMs && !this.#draining) {
        const nowMs = this.#clock.now();
        const job = await claimSuspect(
          this.#store,
          this.#claimOptions({ limit: 1, laneMax: runningPerLaneMax, nowMs }),
        );
        if (job === undefined) break;
        this.#logger.warn({ job: job.id, kind: job.kind, lane: job.lane }, 'job.runs-alone');
        this.#suspect = job;
        const done = this.#begin(job).then(() => true);
        const hasEnded = await Promise.race([done, this.#pause(untilMs - performance.now())]);
        if (hasEnded !== true) await this.#endSolitude(job);
      }
      this.#suspectsFromMs = performance.now() + betweenMs;
    } finally {
      this.#suspect = undefined;
      this.#solitude = undefined;
      resolve();
      // What came meanwhile waits in the store.
      this.poke();
    }
  }

  /** It goes on among others. They begin when that is on disk, so that it is not blamed for them. */
  async #endSolitude(job: LeasedJob): Promise<void> {
    while (!this.#draining) {
      try {
        return await this.#store.transaction((tx) => endSolitude(tx, job));
      } catch (error) {
        this.#logger.warn({ job: job.id, error: toError(error).message }, 'jobs.solitude-not-ended');
        await this.#pause(pollMs);
      }
    }
  }

  /** Resolves with undefined; earlier when the pool stops. */
  async #pause(ms: number): Promise<undefined> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, Math.max(0, ms));
    const stop = () => resolve();
    this.#stopsClaiming.signal.addEventListener('abort', stop, { once: true });
    await promise;
    clearTimeout(timer);
    this.#stopsClaiming.signal.removeEventListener('abort', stop);
    return undefined;
  }

  /** Whether requests for these lanes come to other nodes. */
  #noteOrigins(jobs: readonly LeasedJob[]): void {
    const untilMs = performance.now() + throughOthersMs;
    for (const { lane, payload } of jobs) {
      const { accepted_by = this.node } = payload as JobPayloads['run_source'];
      if (lane !== null && accepted_by !== this.node) this.#throughOthers.set(lane, untilMs);
    }
  }

  async #beat(): Promise<void> {
    const leaseMs = this.#leaseMs;
    try {
      const nowMs = await this.#leaseClock.nowMs();
      const known = await this.#store.transaction(async (tx) => {
        await this.#report(tx, nowMs);
        return heartbeat(tx, this.node, { nowMs, leaseMs });
      });
      if (!known) {
        // Another node took our jobs over while this process was suspended. What we finish now will be refused.
        this.#logger.error({ node: this.node }, 'jobs.lease-lost');
        // And it need not go on: others do it again.
        this.#lease.abort();
        this.#lease = new AbortController();
        this.#signal = AbortSignal.any([this.#stop.signal, this.#lease.signal]);
        this.lanes.forgetAll();
        const claims = this.#claims;
        await this.#store.transaction((tx) => registerNode(tx, this.node, { nowMs, leaseMs, claims }));
      }
      const silentMs = performance.now() - this.#renewedAtMs;
      this.#renewedAtMs = performance.now();
      await this.#requeueFailed();
      // Where this node could not renew (the database was away), the others could not either: they are given the time.
      if (silentMs < leaseMs) {
        await this.recover();
        // For jobs that were taken over, and lanes that are free.
        this.poke();
      }
      if (this.#claims && (await this.lanes.look({ nowMs, isBusy: (lane) => this.#isBusy(lane) })))
        this.#handOver();
      await this.#tellUntold();
      for (const [lane, untilMs] of this.#throughOthers)
        if (untilMs < performance.now()) this.#throughOthers.delete(lane);
      const running = new Set([...this.#running.values()].map(({ id }) => id));
      const waiting = new Set(this.#toRequeue.map(({ job }) => job.id));
      const released = await releaseUnknown(this.#store, {
        node: this.node,
        isRunning: (id) => running.has(id) || waiting.has(id),
        nowMs: this.#clock.now(),
        olderThanMs: 2 * leaseMs,
      });
      if (released > 0) {
        this.#logger.warn({ node: this.node, released }, 'jobs.unknown-released');
        this.poke();
      }
      const beforeMs = this.#clock.now() - quarantineMs;
      await this.#store.transaction((tx) => pruneQuarantined(tx, { beforeMs, limit: pruneMax }));
    } catch (error) {
      this.#logger.warn({ node: this.node, error: toError(error).message }, 'jobs.heartbeat-failed');
    }
  }

  #report(tx: Tx, nowMs: number): Promise<void> {
    return reportNode(tx, this.node, {
      nowMs,
      leaseMs: this.#leaseMs,
      startedAtMs: this.#startedAtMs,
      clock: this.#nodeClock(),
      stoppingSinceMs: this.#stoppingSinceMs,
    });
  }

  /** Others see at once that it stops. It stops as well where that cannot be written. */
  async #reportStopping(): Promise<void> {
    try {
      const nowMs = await this.#leaseClock.nowMs();
      this.#stoppingSinceMs = nowMs;
      await this.#store.transaction((tx) => this.#report(tx, nowMs));
    } catch (error) {
      this.#logger.warn({ node: this.node, error: toError(error).message }, 'jobs.heartbeat-failed');
    }
  }

  #isBusy(lane: string): boolean {
    return this.#perLane.has(lane) || this.#stayingPerLane.has(lane);
  }

  /** Gives lanes to nodes that have less, each as soon as nothing of it is under way here. */
  #handOver(): void {
    if (this.#draining || this.#handingOver !== undefined) return;
    clearTimeout(this.#handOverTimer);
    this.#handingOver = this.lanes
      .giveUp((lane) => this.#isBusy(lane))
      .catch((error: unknown) =>
        this.#logger.warn({ node: this.node, error: toError(error).message }, 'jobs.hand-over-failed'),
      )
      .finally(() => {
        this.#handingOver = undefined;
        if (this.lanes.isLeaving && !this.#draining)
          this.#handOverTimer = setTimeout(() => this.#handOver(), handOverMs);
      });
  }

  /** Takes over what nodes that are gone left behind; each heartbeat does that too. */
  async recover(): Promise<void> {
    const nowMs = await this.#leaseClock.nowMs();
    for (;;) {
      const { requeued, quarantined } = await recoverExpired(this.#store, {
        node: this.node,
        nowMs,
        retryDelayMs: (attempt) => retryDelayMs(attempt, Math.random),
      });
      if (requeued > 0) this.#logger.info({ node: this.node, requeued }, 'jobs.recovered');
      for (const job of quarantined) await this.#quarantined({ job, rowId: `${job.id}~${nowMs}` });
      if (requeued + quarantined.length === 0) return;
    }
  }

  async #quarantined({ job, rowId }: QuarantinedJob): Promise<void> {
    this.#logger.error({ job: job.id, kind: job.kind, lane: job.lane }, 'job.quarantined');
    try {
      await this.#handlers[job.kind].quarantined(job);
      await this.#store.transaction((tx) => setTold(tx, rowId));
    } catch (error) {
      // The job stays visible in quarantine, and is told of later; the others of this round must be told of too.
      this.#logger.error({ job: job.id, error: toError(error).message }, 'job.quarantine-not-told');
      this.#untold.push({ job, rowId });
    }
  }

  /** Until its handler knows, what a quarantined job was for neither goes on nor has ended. */
  async #tellUntold(): Promise<void> {
    const untold = this.#untold;
    this.#untold = [];
    const left = await takeUntold(this.#store, {
      node: this.node,
      nowMs: await this.#leaseClock.nowMs(),
    }).catch((error: unknown) => {
      this.#untold = untold;
      throw error;
    });
    for (const job of [...untold, ...left]) await this.#quarantined(job);
  }

  /** Also a handler that throws before its first await is only a failed attempt. */
  async #attempt(job: LeasedJob): Promise<void> {
    try {
      if (this.#suspect !== job) await this.#solitude;
      await this.#handlers[job.kind].run(job, this.#signal);
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
      // A store that was away is not the job's fault; anything else counts.
      const blamed = !(error instanceof UnavailableError);
      const runAtMs =
        nowMs +
        (blamed
          ? retryDelayMs((job.blames ?? 0) + 1, Math.random)
          : uncountedDelayMs(nowMs - job.createdAtMs, Math.random));
      const state = blamed && (job.blames ?? 0) + 1 >= blamesMax ? 'quarantined' : 'queued';
      let held: boolean;
      try {
        held = await this.#store.transaction((tx) =>
          requeueJob(tx, this.node, job, { state, runAtMs, nowMs, error: error.message, blamed }),
        );
      } catch (cause) {
        // Behind the others: one that cannot be stored must not keep them from it.
        this.#toRequeue.push(failed);
        throw cause;
      }
      if (held && state === 'quarantined') await this.#quarantined({ job, rowId: `${job.id}~${nowMs}` });
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
