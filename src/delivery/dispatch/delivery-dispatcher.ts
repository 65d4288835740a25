import { type HeldDelivery, withAttempt } from '#delivery/delivery.ts';
import type { Outcome, OutcomeRecorder } from '#health/outcome-store.ts';
import { ClaimMarks } from '#lib/claim-marks.ts';
import type { Clock } from '#lib/clock.ts';
import { toError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import { PeriodicTask } from '#lib/periodic-task.ts';
import { Wakeable } from '#lib/wakeable.ts';
import { deliveryUsage } from '#metering/invocation-usage.ts';
import type { Store } from '#storage/store.ts';
import type { DeliveryState } from '#storage/tables/delivery-tables.ts';
import { inSpan } from '#telemetry/span.ts';
import { noTracer, type Tracer } from '#telemetry/tracer.ts';
import { AttemptLog } from './attempt-log.ts';
import { DeliveryClaims, isSource, type ListenerTurns } from './delivery-claims.ts';
import { type DeliveryLane, DeliveryLanes, type DeliveryPlaces, type LaneBounds } from './delivery-lanes.ts';
import { DeliveryLeases } from './delivery-leases.ts';
import { type DeliveryEnd, DeliveryOutcomes } from './delivery-outcomes.ts';
import { nextDueMs, type SettledDelivery } from './delivery-queue-store.ts';
import { DeliveryRefills } from './delivery-refills.ts';
import { type AttemptOutcome, nextStep } from './delivery-retries.ts';
import { endDeliverySpan, startDeliverySpan } from './delivery-span.ts';
import { PacedStarts } from './paced-starts.ts';
import { PacedWebhooks, type WebhookPacing } from './paced-webhooks.ts';

/** Makes one attempt for a listener of its kind. Rejects only when it is unknown whether the listener got it; such an attempt is repeated. */
export type Deliver = (delivery: HeldDelivery, signal: AbortSignal) => Promise<AttemptOutcome>;

/** After each attempt, at most this many starved lanes try to send. */
const starvedTried = 8;
/** The safety net for a lost wake-up. */
const pollMs = 1_000;
/** Default of `watchMs`: a third of the default lease of a node. */
const defaultWatchMs = 5_000;
/** Wait before an attempt is repeated whose result is unknown. What is handed to a source is not lost on the way: it was not handed over. */
const unknownDelayMs = 5_000;
const unknownSourceDelayMs = 1_000;
/** A receiver that asks for a pause gets it for all of its deliveries, up to this. */
const laneRestMaxMs = 3_600_000;

/** Counts since the start, for metrics. */
export interface DeliveryCounts {
  attempts: Record<AttemptOutcome['kind'], number>;
  held: number;
  sending: number;
  listeners: number;
  unsettled: number;
}

/**
 * Sends deliveries. They come from the commit that stored their event, straight into memory while there is room, and
 * else from the store, in the order in which they are due. A delivery has ended only when its result is in the store. What a process has when
 * it dies stays leased to it until another node releases the lease and sends it.
 *
 * One slow receiver never holds up the others: each has a lane of its own, with bounds (`delivery-lanes.ts`).
 */
export class DeliveryDispatcher {
  readonly node: string;
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #attemptLog: AttemptLog;
  readonly #deliverTo: (listenerId: string) => Deliver;
  readonly #turns: ListenerTurns;
  readonly #sends: boolean;
  readonly #random: () => number;
  readonly #tracer: Tracer;
  readonly #onEnded: (listenerId: string, wasDelivered: boolean) => void;
  readonly #lanes: DeliveryLanes;
  readonly #claims: DeliveryClaims;
  /** Every id that is here: in a lane, being sent, or being settled. */
  readonly #known = new Set<string>();
  readonly #outcomes: DeliveryOutcomes;
  readonly #leases: DeliveryLeases;
  readonly #stop = new AbortController();
  /** Sources with deliveries in the store that no claim may have read yet. Newer ones go to the store too, which keeps the order. */
  readonly #unclaimed = new ClaimMarks();
  /** Lanes with queued deliveries that cannot start one because other lanes use all the room. */
  readonly #starved = new Set<DeliveryLane>();
  readonly #starts = new PacedStarts<DeliveryLane>((lane) => this.#send(lane));
  readonly #paced: PacedWebhooks<DeliveryLane>;
  #draining = false;
  readonly #wakeable: Wakeable;
  readonly #watch: PeriodicTask;
  readonly #refills: DeliveryRefills;
  /** What is being given back to the store. */
  readonly #releases = new Set<Promise<void>>();
  readonly #idle: (() => void)[] = [];
  readonly #attempts: DeliveryCounts['attempts'] = {
    delivered: 0,
    failed: 0,
    gone: 0,
    'not-sent': 0,
    postponed: 0,
  };

  constructor(options: {
    node: string;
    store: Store;
    outcomes: OutcomeRecorder;
    clock: Clock;
    logger: Logger;
    deliverTo: (listenerId: string) => Deliver;
    /** The turns of listening sources. */
    turns: ListenerTurns;
    /** False for a node without the worker role: it leaves all deliveries to others. */
    sends: boolean;
    /** Interval of the checks for deliveries that are leased to dead nodes, or to this node and not in its memory. */
    watchMs?: number;
    random?: () => number;
    tracer?: Tracer;
    /** Absent: requests to webhooks begin as soon as they can. */
    webhookPacing?: WebhookPacing | undefined;
    /** For tests of what fills them. */
    lanes?: LaneBounds;
    /** A delivery ended; its record is on disk. */
    onEnded?: (listenerId: string, wasDelivered: boolean) => void;
  }) {
    this.node = options.node;
    this.#store = options.store;
    this.#clock = options.clock;
    this.#logger = options.logger;
    this.#attemptLog = new AttemptLog({ logger: options.logger, nowMs: () => options.clock.now() });
    this.#deliverTo = options.deliverTo;
    this.#turns = options.turns;
    this.#sends = options.sends;
    this.#wakeable = new Wakeable({
      look: () => this.#claim(),
      pollMs,
      logger: options.logger,
      failure: 'delivery.claim-failed',
      about: { node: options.node },
      onRest: () => this.#tellIdle(),
    });
    this.#watch = new PeriodicTask({
      everyMs: options.watchMs ?? defaultWatchMs,
      work: () => this.#lookAfterLeases(),
      logger: options.logger,
      failure: 'delivery.watch-failed',
      about: { node: options.node },
    });
    this.#random = options.random ?? Math.random;
    this.#tracer = options.tracer ?? noTracer;
    this.#onEnded = options.onEnded ?? (() => {});
    this.#lanes = new DeliveryLanes(options.lanes);
    this.#paced = new PacedWebhooks(options.webhookPacing, (lane) => this.#send(lane));
    this.#claims = new DeliveryClaims({
      ...options,
      lanes: this.#lanes,
      onClaimed: (deliveries) => this.take(deliveries),
      isStopping: () => this.#draining,
    });
    this.#refills = new DeliveryRefills({
      ...{ lanes: this.#lanes, claims: this.#claims, logger: options.logger, pauseMs: pollMs / 2 },
      isStopping: () => this.#draining,
      onRefilled: (lane) => this.#send(lane),
      onFailed: () => this.#wakeable.wakeIn(pollMs),
      onIdle: () => this.#tellIdle(),
    });
    this.#leases = new DeliveryLeases(options);
    this.#outcomes = new DeliveryOutcomes({
      ...options,
      onSettled: (end) => this.#settled(end),
      onUnsaved: () => this.#tellIdle(),
    });
  }

  /** The lease of `node` must have begun. */
  async start(): Promise<void> {
    if (!this.#sends) return;
    await this.#leases.releaseOrphans();
    this.#turns.onTaken((ids) => {
      // Deliveries that the previous node left in the store are sent before new ones.
      for (const id of ids) if (isSource(id)) this.#unclaimed.mark(id);
      this.poke();
    });
    this.#store.onNotify((channel) => {
      if (channel === 'millrace_jobs') this.poke();
    });
    this.#watch.start();
    this.poke();
  }

  counts(): DeliveryCounts {
    const { held, sending, count } = this.#lanes;
    return {
      attempts: { ...this.#attempts },
      held,
      sending,
      listeners: count,
      unsettled: this.#outcomes.pending,
    };
  }

  /**
   * Reserves room for deliveries that are about to be inserted. With a place, a delivery is inserted as leased to this node, which sends it at
   * once. Without one it is inserted without a lease, for example because older ones wait in the store.
   */
  places(): Pick<DeliveryPlaces, 'take'> {
    const places = this.#lanes.places();
    const mayGive = (listenerId: string) =>
      this.#sends &&
      !this.#draining &&
      this.#lanes.find(listenerId)?.isBehind !== true &&
      (!isSource(listenerId) || (!this.#unclaimed.has(listenerId) && this.#turns.owns(listenerId)));
    return {
      take: (listenerId, ownerId, bytes) => mayGive(listenerId) && places.take(listenerId, ownerId, bytes),
    };
  }

  /** Takes deliveries that a commit has just stored as leased to this node. */
  take(deliveries: readonly HeldDelivery[]): void {
    // After the stop they stay leased to this node until the lease ends. Then another node sends them.
    if (this.#draining) return;
    const nowMs = this.#clock.now();
    const lanes = new Set<DeliveryLane>();
    for (const delivery of deliveries) {
      const lane = this.#lanes.of(delivery.listenerId, delivery.ownerId, nowMs);
      this.#known.add(delivery.id);
      this.#lanes.take(lane, delivery);
      lanes.add(lane);
    }
    for (const lane of lanes) this.#send(lane);
  }

  /** A delivery was stored without a lease, because there was no room for it here, or because it is not new. */
  leftInStore(listenerId: string): void {
    if (!this.#sends || this.#draining) return;
    if (isSource(listenerId)) this.#unclaimed.mark(listenerId);
    const lane = this.#lanes.find(listenerId);
    if (lane !== undefined && this.#lanes.isBusy(lane)) {
      this.#lanes.fallBehind(lane);
      this.#refills.note(lane);
    } else this.poke();
  }

  /** Something may be due now. */
  poke(): void {
    if (this.#sends) this.#wakeable.poke();
  }

  /** Resolves when nothing is here or due; for tests, which have no other sign of it. */
  async untilIdle(): Promise<void> {
    while (!this.#isIdle()) await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  /** Stops sending, waits up to `graceMs` for what is under way, then gives the rest back. May be called twice. */
  async stop(graceMs: number): Promise<void> {
    if (this.#draining || !this.#sends) return;
    this.#draining = true;
    this.#paced.close();
    const woken = this.#wakeable.stop();
    const watched = this.#watch.stop();
    for (const lane of this.#lanes) for (const { id } of this.#lanes.empty(lane)) this.#known.delete(id);
    const grace = setTimeout(() => this.#stop.abort(new Error('the service stops')), graceMs);
    await this.untilIdle();
    clearTimeout(grace);
    this.#outcomes.stop();
    await woken;
    await watched;
    await Promise.allSettled([...this.#releases, this.#refills.settled()]);
    try {
      await this.#leases.releaseAll();
    } catch (error) {
      // Its lease runs out by itself.
      this.#logger.warn({ node: this.node, error: toError(error).message }, 'delivery.release-failed');
    }
  }

  #isIdle(): boolean {
    return (
      !this.#wakeable.isLooking &&
      this.#refills.isIdle &&
      this.#releases.size === 0 &&
      this.#lanes.held === 0 &&
      // Results that the store could not save before the stop do not count: these deliveries are sent again.
      this.#outcomes.pending - (this.#draining ? this.#outcomes.unsaved : 0) === 0
    );
  }

  #tellIdle(): void {
    if (this.#isIdle()) for (const tell of this.#idle.splice(0)) tell();
  }

  /** Sends what the lane may send now. */
  #send(lane: DeliveryLane): void {
    const nowMs = this.#clock.now();
    if (lane.pausedUntilMs > nowMs) {
      // Those to a source stay here, in their order: in the store, newer ones would be due before them.
      if (isSource(lane.listenerId)) return;
      for (const delivery of this.#lanes.empty(lane))
        this.#settleAs(delivery, { kind: 'postponed', delayMs: lane.pausedUntilMs - nowMs });
    }
    while (this.#maySend() && this.#mayStart(lane)) {
      const delivery = this.#lanes.next(lane, nowMs);
      if (delivery === undefined) break;
      if (lane.kind !== 'quick') this.#starts.count();
      this.#paced.count(lane);
      void this.#attempt(lane, delivery);
    }
    const isStarved =
      lane.queue.length > 0 && lane.underWay.size === 0 && !this.#starts.has(lane) && !this.#paced.has(lane);
    if (isStarved) this.#starved.add(lane);
    else this.#starved.delete(lane);
    this.#refills.note(lane);
  }

  #maySend(): boolean {
    return this.#outcomes.hasRoom && !this.#draining;
  }

  /** False: the lane has none, or its owner or others have started so many that it continues later. */
  #mayStart(lane: DeliveryLane): boolean {
    if (lane.queue.length === 0 || !this.#paced.mayStart(lane)) return false;
    if (lane.kind === 'quick' || this.#starts.hasRoom) return true;
    if (lane.queue.length > 0) this.#starts.wait(lane);
    return false;
  }

  async #attempt(lane: DeliveryLane, delivery: HeldDelivery): Promise<void> {
    const span = startDeliverySpan(this.#tracer, delivery);
    let outcome: AttemptOutcome;
    try {
      const deliver = this.#deliverTo(delivery.listenerId);
      outcome = await inSpan(span, () => deliver(delivery, this.#stop.signal));
    } catch (error) {
      this.#logger.warn({ delivery: delivery.id, error: toError(error).message }, 'delivery.attempt-lost');
      const delayMs = isSource(delivery.listenerId) ? unknownSourceDelayMs : unknownDelayMs;
      outcome = { kind: 'postponed', delayMs };
    }
    endDeliverySpan(span, outcome);
    this.#attempts[outcome.kind] += 1;
    const hasFailed = outcome.kind === 'failed' || outcome.kind === 'gone';
    this.#lanes.sent(
      lane,
      delivery,
      outcome.kind === 'delivered' ? 'delivered' : hasFailed ? 'failed' : undefined,
    );
    if (hasFailed) this.#giveBackExcess(lane);
    if (outcome.kind === 'failed' && outcome.retryAfterMs !== undefined)
      lane.pausedUntilMs = this.#clock.now() + Math.min(outcome.retryAfterMs, laneRestMaxMs);
    if (outcome.kind === 'postponed' && isSource(lane.listenerId) && !this.#draining)
      this.#postpone(lane, delivery, outcome.delayMs);
    else this.#settleAs(delivery, outcome);
    this.#send(lane);
    this.#sendStarved();
  }

  /** A source gets events in their order: the others wait with the one that it could not take. */
  #postpone(lane: DeliveryLane, delivery: HeldDelivery, delayMs: number): void {
    this.#lanes.putBack(lane, delivery);
    lane.pausedUntilMs = this.#clock.now() + delayMs;
    this.#wakeable.wakeIn(delayMs);
  }

  /** One request less is under way: a few of those that found no room try again, those that waited longest first. */
  #sendStarved(): void {
    const few: DeliveryLane[] = [];
    for (const lane of this.#starved) {
      if (few.length === starvedTried) break;
      few.push(lane);
    }
    for (const lane of few) {
      // Behind the others, whether it can send or not.
      this.#starved.delete(lane);
      this.#send(lane);
    }
  }

  #settleAs(delivery: HeldDelivery, outcome: AttemptOutcome): void {
    const { attempts, id } = delivery;
    const step = nextStep(outcome, { attempts, nowMs: this.#clock.now(), random: this.#random });
    const attempt = 'attempt' in outcome ? outcome.attempt : undefined;
    const row: SettledDelivery = {
      id,
      emit_id: delivery.emitId,
      state: step.state,
      reason: step.reason,
      run_at_ms: step.runAtMs,
      attempts: step.attempts,
      attempt_log: attempt === undefined ? delivery.attemptLog : withAttempt(delivery.attemptLog, attempt),
      status: attempt?.status ?? null,
      latency_ms: attempt?.latency_ms ?? null,
      // What was not delivered can be sent again by hand.
      has_payload: step.state === 'delivered' || step.reason === 'listener_removed' ? 0 : 1,
      ended_at_ms: step.endedAtMs,
    };
    this.#logOutcome(delivery, outcome, step.state);
    const handover = outcome.kind === 'delivered' ? outcome.handover : undefined;
    const { listenerId, ownerId } = delivery;
    const ofWebhook = listenerId.startsWith('wh_') ? webhookOutcome(delivery, outcome) : undefined;
    this.#outcomes.add({
      ownerId,
      row,
      listenerId,
      ...(handover === undefined ? {} : { handover }),
      ...(ofWebhook === undefined ? {} : { outcome: ofWebhook }),
      ...('attempt' in outcome ? { usage: deliveryUsage(ownerId, this.#clock.now()) } : {}),
    });
  }

  #logOutcome(delivery: HeldDelivery, outcome: AttemptOutcome, state: DeliveryState): void {
    // Thousands a second; /metrics counts them, and each has its record.
    if (outcome.kind === 'delivered' || outcome.kind === 'postponed') return;
    const { status, latency_ms, error } = 'attempt' in outcome ? outcome.attempt : {};
    this.#attemptLog.failed({
      delivery: delivery.id,
      listener: delivery.listenerId,
      emitter: delivery.emitterId,
      attempt: delivery.attempts + 1,
      outcome: outcome.kind,
      state,
      status,
      ms: latency_ms,
      error,
    });
  }

  #settled({ row, listenerId }: DeliveryEnd): void {
    this.#known.delete(row.id);
    if (row.ended_at_ms !== null) this.#onEnded(listenerId, row.state === 'delivered');
    if (row.state === 'queued') this.#wakeable.wakeIn(row.run_at_ms - this.#clock.now());
    this.#tellIdle();
    if (this.#outcomes.hasDrained && this.#lanes.held > 0)
      for (const lane of this.#lanes) if (lane.queue.length > 0) this.#send(lane);
  }

  /** Gives back the excess of a lane in trouble: others need the room, and the deliveries wait in the store for their turn. */
  #giveBackExcess(lane: DeliveryLane): void {
    if (this.#draining) return;
    const ids = this.#lanes.takeExcess(lane).map(({ id }) => id);
    if (ids.length === 0) return;
    this.#lanes.fallBehind(lane);
    // The ids are removed before the release, because a claim may bring the deliveries back at once and adds them again.
    for (const id of ids) this.#known.delete(id);
    const given = this.#leases
      .release(ids)
      .catch((error: unknown) => {
        // Leased and not known: the watch gives it back.
        this.#logger.warn(
          { listener: lane.listenerId, error: toError(error).message },
          'delivery.release-failed',
        );
      })
      .finally(() => {
        this.#releases.delete(given);
        this.#tellIdle();
      });
    this.#releases.add(given);
  }

  /** Removes deliveries from memory that were cancelled, or changed otherwise, in the store. */
  letGo(listenerId: string, ids: ReadonlySet<string>): void {
    const lane = this.#lanes.find(listenerId);
    if (lane === undefined) return;
    for (const { id } of this.#lanes.empty(lane, ids)) this.#known.delete(id);
    this.#send(lane);
    this.#tellIdle();
  }

  /** Claims what is due, and answers in how many milliseconds something is due again. */
  async #claim(): Promise<number> {
    for (const lane of this.#lanes) {
      if (this.#lanes.noteOverdue(lane)) this.#giveBackExcess(lane);
      this.#send(lane);
    }
    this.#lanes.forgetIdle(this.#clock.now());
    const { newest } = this.#unclaimed;
    const { lookedAtMs, isAll } = await this.#claims.claimDue();
    if (isAll) this.#unclaimed.forget(newest);
    const due = await nextDueMs(this.#store.read, lookedAtMs);
    return due === undefined ? pollMs : due - this.#clock.now();
  }

  async #lookAfterLeases(): Promise<void> {
    const orphans = await this.#leases.releaseOrphans();
    const waiting = new Map<string, DeliveryLane>();
    for (const lane of this.#lanes) for (const { id } of lane.queue) waiting.set(id, lane);
    const { held, released: unknown } = await this.#leases.releaseUnknown((id) => this.#known.has(id));
    // They are queued here and no longer leased to this node. Most likely they were cancelled through another node.
    if (held !== undefined)
      for (const [id, lane] of waiting) if (!held.has(id)) this.letGo(lane.listenerId, new Set([id]));
    if (orphans + unknown > 0) this.poke();
  }
}

/** What an attempt says about the health of a webhook; undefined: nothing was sent. */
function webhookOutcome({ listenerId, ownerId }: HeldDelivery, outcome: AttemptOutcome): Outcome | undefined {
  if (outcome.kind === 'not-sent' || outcome.kind === 'postponed') return undefined;
  const { at, status, error } = outcome.attempt;
  const failure =
    outcome.kind === 'delivered' ? null : (error ?? `the receiver answered ${status}, expected 2xx`);
  return { subjectId: listenerId, ownerId, failure, atMs: at };
}
