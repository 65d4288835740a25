import { ClaimMarks } from '#lib/claim-marks.ts';
import type { Clock } from '#lib/clock.ts';
import { toError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import { Wakeable } from '#lib/wakeable.ts';
import type { Store } from '#storage/store.ts';
import { currentSpan, inSpan } from '#telemetry/span.ts';
import { noTracer, type Tracer } from '#telemetry/tracer.ts';
import {
  type ClaimOptions,
  claimJobs,
  claimSuspect,
  dueSuspects,
  firstTurns,
  type SuspectOptions,
  whatWaits,
} from './claim-store.ts';
import { EarlierJobFirst, FailedAttempts } from './failed-attempts.ts';
import { FreeLanes } from './free-lanes.ts';
import type { JobPayloads } from './job-kinds.ts';
import type { JobRegistry } from './job-registry.ts';
import { endsWithAttempt, startJobSpan } from './job-span.ts';
import type { LeasedJob } from './job-store.ts';
import { LaneHandOver } from './lane-hand-over.ts';
import { releaseLanes } from './lane-lease-store.ts';
import { LaneLeases } from './lane-leases.ts';
import { LeaseClock } from './lease-clock.ts';
import { type Beat, NodeHeartbeat } from './node-heartbeat.ts';
import type { NodeClock } from './node-state-store.ts';
import { recoverExpired, releaseNode, releaseUnknown } from './node-store.ts';
import { PoolPlaces } from './pool-places.ts';
import { Quarantine } from './quarantine.ts';
import { RecentLanes } from './recent-lanes.ts';
import { retryDelayMs } from './retry-schedule.ts';
import { Solitude, type SolitudeTimes } from './solitude.ts';

/** Default of `leaseMs`. */
const defaultLeaseMs = 15_000;
/** The safety net for a lost wake-up; ordinary wake-ups are immediate. */
export const pollMs = 1_000;

/** What is delayed: due jobs that a claim passed over. What is refused: a caller who waits for the reply of a run. */
interface RunShareObserver {
  delayed(ownerId: string, resource: 'runs'): void;
  refused(ownerId: string, resource: 'runs', reason: string): void;
}

/** Claims due jobs, runs them, and keeps this node's lease. Drains on stop. */
export class WorkerPool {
  readonly node: string;
  /** The turns of lanes, where there are other nodes. */
  readonly lanes: LaneLeases;
  readonly #store: Store;
  readonly #jobs: JobRegistry;
  readonly #clock: Clock;
  readonly #leaseClock: LeaseClock;
  readonly #logger: Logger;
  readonly #tracer: Tracer;
  readonly #claims: boolean;
  readonly #leaseMs: number;
  readonly #places = new PoolPlaces();
  readonly #turns = firstTurns();
  readonly #shares: RunShareObserver;
  readonly #wakeable: Wakeable;
  readonly #heartbeat: NodeHeartbeat;
  readonly #handOver: LaneHandOver;
  readonly #solitude: Solitude;
  readonly #quarantine: Quarantine;
  readonly #failed: FailedAttempts;
  /** Lanes whose requests come to other nodes too: all of their jobs go through the store, where they are in order. */
  readonly #throughOthers = new RecentLanes();
  readonly #freeLanes: FreeLanes;
  /** Lanes that may have jobs in the store, for which there was no room here or which came through another node. `poolFull`: of any lane. */
  readonly #fullLanes = new ClaimMarks();
  #poolFull = false;
  /** Lanes in order with a suspect that is due: no further job of them begins, so that its turn comes. */
  #suspectLanes: ReadonlySet<string> = new Set();
  readonly #isBusy = (lane: string): boolean => this.#places.isBusy(lane);
  readonly #running = new Map<Promise<void>, LeasedJob>();
  readonly #stop = new AbortController();
  /** Aborted when this node learns that it lost its lease. */
  #lease = new AbortController();
  /** The signal of jobs that begin now. */
  #signal = AbortSignal.any([this.#stop.signal, this.#lease.signal]);
  #hasStarted = false;
  #draining = false;
  #stopping: Promise<void> | undefined;

  constructor(options: {
    node: string;
    store: Store;
    /** The handlers of jobs; complete when the pool starts. */
    jobs: JobRegistry;
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
    tracer?: Tracer;
    /** Learns which owners have their share of the places of this process. */
    shares?: RunShareObserver;
    /** For tests of jobs that were lost with their nodes. */
    solitude?: SolitudeTimes;
  }) {
    const { node, store, clock, logger } = options;
    const leaseClock = new LeaseClock(options);
    const leaseMs = options.leaseMs ?? defaultLeaseMs;
    this.node = node;
    this.#store = store;
    this.#jobs = options.jobs;
    this.#clock = clock;
    this.#leaseClock = leaseClock;
    this.#logger = logger;
    this.#tracer = options.tracer ?? noTracer;
    this.#claims = options.claims;
    this.#leaseMs = leaseMs;
    this.#shares = options.shares ?? { delayed: () => {}, refused: () => {} };
    this.#wakeable = new Wakeable({
      look: () => this.#claim(),
      pollMs,
      logger,
      failure: 'job.claim-failed',
      about: { node },
    });
    this.#heartbeat = new NodeHeartbeat({
      ...{ node, store, leaseClock, logger, leaseMs, claims: options.claims },
      predecessor: options.predecessor,
      nodeClock: options.nodeClock ?? (() => undefined),
      onLost: () => this.#leaseLost(),
      afterBeat: (beat) => this.#afterBeat(beat),
    });
    this.#solitude = new Solitude({
      ...{ store, logger, times: options.solitude },
      claim: () => claimSuspect(store, this.#claimOptions({ limit: 1 })),
      begin: (job) => this.#begin(job),
      onOver: () => this.poke(),
    });
    this.#quarantine = new Quarantine({
      ...{ node, store, clock, leaseClock, logger },
      notify: (job) => this.#jobs.of(job.kind).quarantined(job),
    });
    this.#failed = new FailedAttempts({ node, store, clock, quarantine: this.#quarantine });
    this.lanes = new LaneLeases(options);
    this.#freeLanes = new FreeLanes(this.lanes);
    this.lanes.onTaken((lanes) => this.#taken(lanes));
    this.#handOver = new LaneHandOver({ lanes: this.lanes, isBusy: this.#isBusy, logger });
  }

  async start(): Promise<void> {
    const nowMs = await this.#heartbeat.register();
    await this.recover();
    await this.#quarantine.notifyPending();
    this.#heartbeat.start();
    this.#store.onNotify((channel) => {
      if (channel === 'millrace_jobs') this.poke();
    });
    if (this.#claims) await this.#lookAtLanes(nowMs);
    this.#hasStarted = true;
    this.poke();
  }

  /** Something may be due now. A pool that has not started claims nothing: other nodes do not know its node, and would run the job again. */
  poke(): void {
    if (this.#claims && this.#hasStarted) this.#wakeable.poke();
  }

  /**
   * True when a new job of this lane and owner can run, or wait for its turn, here. While older jobs of its lane wait in the store, it
   * goes there too. Otherwise jobs that come one by one would take each place before those.
   */
  hasRoom(lane: string, ownerId: string): boolean {
    return (
      !this.#solitude.isUnderWay &&
      this.hasTurn(lane) &&
      !this.#fullLanes.has(lane) &&
      !this.#draining &&
      this.#places.areFreeIn(lane, ownerId, this.#poolFull)
    );
  }

  /** Keeps a place for a job that had room, and is going to be `run` when it is on disk. */
  promise(jobId: string): void {
    this.#places.promise(jobId);
  }

  /** For how many jobs the answer of `hasRoom` holds: a job takes its place only when it begins. */
  get placesLeft(): number {
    return this.#places.left;
  }

  /** Jobs that failed here, which is not stored yet. */
  get failedHere(): ReadonlySet<string> {
    return this.#failed.ids();
  }

  /** True when a job of this lane may run here as soon as it is accepted, before any that wait in the store. */
  hasTurn(lane: string): boolean {
    return this.lanes.owns(lane) && !this.#throughOthers.has(lane) && !this.#mayNotBegin(lane);
  }

  #mayNotBegin(lane: string): boolean {
    return this.#suspectLanes.has(lane) || this.rests(lane);
  }

  /** True while a job of this lane that could not run, or whose end could not be stored, is to run before the others of it. */
  rests(lane: string): boolean {
    return this.#failed.rests(lane);
  }

  /**
   * An attempt of a job fails. Called before the next job of its lane has its turn, so that this one finds that the lane rests: what `run` of
   * a handler rejects with is known later.
   */
  fails(job: LeasedJob, error: Error): void {
    this.#failed.begin(job, error);
  }

  /** Takes a lane that no node has, when this one has room for a job of it now (`free-lanes.ts`). */
  async takeIfFree(lane: string, ownerId: string): Promise<void> {
    const hasRoom =
      this.#claims && !this.#draining && !this.#solitude.isUnderWay && this.#places.areFreeIn(lane, ownerId);
    if (!hasRoom || !this.#store.writes.healthy || this.lanes.owns(lane)) return;
    await this.#freeLanes.take(lane);
  }

  /** The same as `hasRoom` for a job that has to stay in this process, with the bound of those in its lane. */
  hasRoomToStay(lane: string, ownerId: string, laneMax: number): boolean {
    return !this.#draining && this.#places.areFreeToStay(lane, ownerId, laneMax, this.#poolFull);
  }

  /** A caller who waits for a reply was refused, because no lane of this owner had room for a job that has to stay. */
  refusedToStay(ownerId: string): void {
    if (this.#draining) return;
    this.#shares.refused(ownerId, 'runs', 'runs of this owner have its share of the places of this node');
  }

  /** How many jobs of a lane have to stay in this process. */
  stayingIn(lane: string): number {
    return this.#places.stayingIn(lane);
  }

  /** A job of this lane was stored because it had no room here, or the lane is not this node's: it is fetched when there is room. */
  leftInStore(lane: string, ownerId: string): void {
    if (!this.#claims) return;
    this.#fullLanes.mark(lane);
    if (this.#places.areFreeIn(lane, ownerId)) this.poke();
    else if (!this.#places.areFree) this.#poolFull = true;
  }

  /**
   * A job of this lane is on its way to the store: what comes after it goes there too, until it has arrived. The result is called when it has, or
   * will not. A mark alone would not do: a claim that looks before the job is there finds nothing, and forgets it.
   */
  goesToStore(lane: string, ownerId: string): () => void {
    const arrived = this.#fullLanes.hold(lane);
    return () => {
      arrived();
      this.leftInStore(lane, ownerId);
    };
  }

  /** Runs a job that was, or is being, inserted as leased to this node. */
  run(job: LeasedJob): void {
    void this.#begin(job);
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

  /** After `stop`, when nothing of this node's lanes is under way anywhere in this process: other nodes take them immediately. */
  async releaseLanes(): Promise<void> {
    if (!this.#store.isShared) return;
    try {
      await this.#store.transaction(async (tx) => {
        await releaseLanes(tx, this.node);
        await this.#store.notify(tx, 'millrace_jobs', '');
      });
    } catch (error) {
      // They are freed with the next heartbeat of another node.
      this.#logger.warn({ node: this.node, error: toError(error).message }, 'job.release-failed');
    }
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
      if (requeued > 0) this.#logger.info({ node: this.node, requeued }, 'job.recovered');
      for (const job of quarantined) await this.#quarantine.notify({ job, rowId: `${job.id}~${nowMs}` });
      if (requeued + quarantined.length === 0) return;
    }
  }

  /** Claims what is due, and answers in how many milliseconds something is due again. */
  async #claim(): Promise<number> {
    let lookedAtMs = this.#clock.now();
    await this.#failed.requeue();
    this.#poolFull = false;
    const { newest } = this.#fullLanes;
    for (;;) {
      // What comes now waits behind what is in the store, until a claim has taken that.
      for (const lane of this.#failed.takeResting()) this.#fullLanes.mark(lane);
      const limit = this.#places.claimMax();
      this.#poolFull = !this.#places.areFree;
      if (limit === 0 || this.#draining) break;
      const laneMax = this.#places.laneMax();
      // Before the claim, not after it: a lane that drains meanwhile has ended the jobs that would have reported it.
      for (const [lane, running] of this.#places.runningByLane)
        if (running >= laneMax) this.#fullLanes.mark(lane);
      const claim = { ...this.#claimOptions({ limit }), rests: (lane: string) => this.#mayNotBegin(lane) };
      lookedAtMs = claim.nowMs;
      const jobs = await claimJobs(this.#store, claim);
      // What a claim brings while we drain goes back with the rest.
      if (this.#draining) break;
      this.#noteOrigins(jobs);
      for (const job of jobs) this.run(job);
      if (jobs.length > 0) continue;
      // Nothing that was there when this claim began is left, but in lanes that are full, or of owners without a place.
      if (!this.#poolFull) this.#fullLanes.forget(newest);
      break;
    }
    const { dueMs, suspects } = await whatWaits(this.#store.read, {
      node: this.node,
      kinds: this.#jobs.kinds,
      afterMs: lookedAtMs,
    });
    if (suspects && !this.#draining) await this.#runSuspects();
    else this.#suspectLanes = new Set();
    const dueInMs = dueMs === undefined ? pollMs : dueMs - this.#clock.now();
    return Math.min(dueInMs, this.#failed.restEndsInMs ?? pollMs);
  }

  /** A suspect that would wait for its turn does not run alone yet: all others would wait with it, and it would be to blame for what is before it. */
  async #runSuspects(): Promise<void> {
    const look = async () => {
      const { ready, lanes } = await dueSuspects(
        this.#store,
        this.#store.read,
        this.#claimOptions({ limit: 1 }),
      );
      this.#suspectLanes = lanes;
      for (const lane of lanes) this.#fullLanes.mark(lane);
      return ready.length > 0;
    };
    if (!(await look())) return;
    await this.#solitude.run(this.#running.keys());
    await look();
  }

  #claimOptions(options: Pick<ClaimOptions, 'limit'>): SuspectOptions {
    let held: Map<string, LeasedJob[]> | undefined;
    return {
      node: this.node,
      lanes: this.lanes,
      kinds: this.#jobs.kinds,
      runningByLane: this.#places.runningByLane,
      isBusy: this.#isBusy,
      places: this.#places,
      turns: this.#turns,
      onPassedOver: (ownerId) => this.#shares.delayed(ownerId, 'runs'),
      isUnderWay: (id, attempts) => {
        held ??= Map.groupBy(this.#running.values(), (job) => job.id);
        return held.get(id)?.some((job) => job.attempts === attempts) === true;
      },
      nowMs: this.#clock.now(),
      ...options,
    };
  }

  #begin(job: LeasedJob): Promise<void> {
    this.#places.take(job);
    const span = startJobSpan(this.#tracer, job);
    const done = inSpan(span, () => this.#attempt(job)).finally(() => {
      if (endsWithAttempt(job)) span?.end();
      this.#running.delete(done);
      this.#places.giveBack(job);
      if (this.#hasDrained(job)) this.poke();
    });
    this.#running.set(done, job);
    return done;
  }

  /** Also a handler that throws before its first await is only a failed attempt. */
  async #attempt(job: LeasedJob): Promise<void> {
    try {
      await this.#solitude.mayBegin(job);
      await this.#jobs.of(job.kind).run(job, this.#signal);
    } catch (error) {
      currentSpan()?.fail(toError(error).message);
      this.fails(job, toError(error));
      try {
        // A job that never reached the disk was never accepted, so there is nothing to run again.
        if (await isStored(job)) this.#attemptFailed(job, toError(error));
      } finally {
        this.#failed.isOver(job);
      }
    }
  }

  #attemptFailed(job: LeasedJob, error: Error): void {
    if (this.#stop.signal.aborted) return;
    if (!(error instanceof EarlierJobFirst))
      this.#logger.warn(
        { job: job.id, kind: job.kind, attempt: job.attempts, error: error.message },
        'job.attempt-failed',
      );
    this.#failed.add(job, error);
    this.poke();
  }

  /** True when there is room again for jobs that were left in the store. */
  #hasDrained({ lane, ownerId }: LeasedJob): boolean {
    if (this.#poolFull && (this.#places.haveDrained || this.#places.haveDrainedOf(ownerId))) return true;
    return lane !== null && this.#fullLanes.has(lane) && this.#places.haveDrainedIn(lane);
  }

  /** Older jobs of these may wait in the store, and, where there are other nodes, requests for them may come there too. */
  #taken(lanes: ReadonlySet<string>): void {
    if (!this.#claims) return;
    for (const lane of lanes) {
      this.#fullLanes.mark(lane);
      if (this.lanes.hasOthers) this.#throughOthers.add(lane);
    }
    this.poke();
  }

  /** Notes the lanes for which requests come to other nodes. */
  #noteOrigins(jobs: readonly LeasedJob[]): void {
    for (const { lane, payload } of jobs) {
      const { accepted_by = this.node } = payload as JobPayloads['run_source'];
      if (lane !== null && accepted_by !== this.node) this.#throughOthers.add(lane);
    }
  }

  /** Finds out which lanes this node should have, and hands over those that others should. */
  async #lookAtLanes(nowMs: number): Promise<boolean> {
    const comesElsewhere = (lane: string) => this.#throughOthers.has(lane);
    return this.lanes.look({ nowMs, isBusy: this.#isBusy, comesElsewhere });
  }

  /** Results of work under the lost lease are refused, so that work is aborted: other nodes do it again. */
  #leaseLost(): void {
    this.#lease.abort();
    this.#lease = new AbortController();
    this.#signal = AbortSignal.any([this.#stop.signal, this.#lease.signal]);
    this.lanes.forgetAll();
  }

  async #afterBeat({ nowMs, wasLate }: Beat): Promise<void> {
    await this.#failed.requeue();
    // Where this node could not renew (the database was away), the others could not either: they are given the time.
    if (!wasLate) {
      await this.recover();
      // For jobs that were taken over, and lanes that are free.
      this.poke();
    }
    if (this.#claims && (await this.#lookAtLanes(nowMs))) this.#handOver.begin();
    await this.#quarantine.notifyPending();
    this.#throughOthers.forgetOld();
    this.#freeLanes.forgetOld();
    await this.#releaseUnknown();
    await this.#quarantine.prune();
  }

  /** A commit whose answer was lost leaves jobs with this node that it does not know of: they go back into the queue. */
  async #releaseUnknown(): Promise<void> {
    const known = this.#failed.ids();
    for (const { id } of this.#running.values()) known.add(id);
    const released = await releaseUnknown(this.#store, {
      node: this.node,
      isRunning: (id) => known.has(id),
      nowMs: this.#clock.now(),
      olderThanMs: 2 * this.#leaseMs,
    });
    if (released === 0) return;
    this.#logger.warn({ node: this.node, released }, 'job.unknown-released');
    this.poke();
  }

  async #drain(graceMs: number): Promise<void> {
    this.#draining = true;
    this.#solitude.stop();
    const claimed = this.#wakeable.stop();
    const handedOver = this.#handOver.stop();
    const reported = this.#heartbeat.reportStopping();
    const finished = Promise.allSettled([...this.#running.keys(), claimed]);
    const graceTimer = Promise.withResolvers<void>();
    const timer = setTimeout(graceTimer.resolve, graceMs);
    await Promise.race([finished, graceTimer.promise]);
    clearTimeout(timer);
    const beaten = this.#heartbeat.stop();
    this.#stop.abort();
    await beaten;
    await handedOver;
    await reported;
    try {
      // Those that failed during the drain keep their pause and their count.
      await this.#failed.requeue();
      const released = await this.#store.transaction((tx) => releaseNode(tx, this.node, this.#clock.now()));
      this.#logger.info({ node: this.node, released }, 'job.released');
    } catch (error) {
      // The lease runs out by itself, and the next claim takes over.
      this.#logger.warn({ node: this.node, error: toError(error).message }, 'job.release-failed');
    }
  }
}

async function isStored(job: LeasedJob): Promise<boolean> {
  if (job.unpersisted === undefined) return true;
  return job.unpersisted.write().then(
    () => true,
    () => false,
  );
}
