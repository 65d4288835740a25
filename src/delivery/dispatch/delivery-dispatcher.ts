import { type HeldDelivery, withAttempt } from '#delivery/delivery.ts';
import type { Outcome, OutcomeRecorder } from '#health/outcome-store.ts';
import { ClaimMarks } from '#lib/claim-marks.ts';
import type { Clock } from '#lib/clock.ts';
import { toError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import { PeriodicTask } from '#lib/periodic-task.ts';
import { Wakeable } from '#lib/wakeable.ts';
import type { Store } from '#storage/store.ts';
import type { DeliveryState } from '#storage/tables/delivery-tables.ts';
import { DeliveryClaims, isSource, type ListenerTurns } from './delivery-claims.ts';
import { type DeliveryLane, DeliveryLanes, type DeliveryPlaces, type LaneBounds } from './delivery-lanes.ts';
import { DeliveryLeases } from './delivery-leases.ts';
import { type DeliveryEnd, DeliveryOutcomes } from './delivery-outcomes.ts';
import { nextDueMs, type SettledDelivery } from './delivery-queue-store.ts';
import { type AttemptOutcome, nextStep } from './delivery-schedule.ts';

/** Makes one attempt for a listener of its kind. Rejects only when nothing is known of the attempt. */
export type Deliver = (delivery: HeldDelivery, signal: AbortSignal) => Promise<AttemptOutcome>;

/** Lanes without room that try again when another one has sent something. */
const starvedTried = 8;
/** The safety net for a lost wake-up. */
const pollMs = 1_000;
/** Default of `watchMs`: a third of the default lease of a node. */
const defaultWatchMs = 5_000;
/** An attempt of which nothing is known is made again after this. */
const unknownDelayMs = 5_000;
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
 * else from the store, in the order in which they are due. Promise 3: a delivery ends only by a write that says how;
 * what this process has when it dies is leased to it, and the next node sends it again.
 *
 * One slow receiver never holds up the others: each has a lane of its own, with bounds (`delivery-lanes.ts`).
 */
export class DeliveryDispatcher {
  readonly node: string;
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #deliverTo: (listenerId: string) => Deliver;
  readonly #turns: ListenerTurns;
  readonly #sends: boolean;
  readonly #random: () => number;
  readonly #onEnded: (listenerId: string, wasDelivered: boolean) => void;
  readonly #lanes: DeliveryLanes;
  readonly #claims: DeliveryClaims;
  /** Every id that is here: in a lane, being sent, or being settled. */
  readonly #known = new Set<string>();
  readonly #outcomes: DeliveryOutcomes;
  readonly #leases: DeliveryLeases;
  readonly #stop = new AbortController();
  /** Sources of which some were left in the store that no claim may have seen yet: newer ones go behind them. */
  readonly #unclaimed = new ClaimMarks();
  /** Lanes that could send if others left room for it. */
  readonly #starved = new Set<DeliveryLane>();
  #draining = false;
  readonly #wakeable: Wakeable;
  readonly #watch: PeriodicTask;
  #refills = new Set<Promise<void>>();
  /** After a failure nothing is read for single lanes before this (performance.now): the next look does it. */
  #refillFromMs = 0;
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
    /** Time between two looks at what dead nodes left behind, and at what this one holds and does not know of. */
    watchMs?: number;
    random?: () => number;
    /** For tests of what fills them. */
    lanes?: LaneBounds;
    /** A delivery ended; its record is on disk. */
    onEnded?: (listenerId: string, wasDelivered: boolean) => void;
  }) {
    this.node = options.node;
    this.#store = options.store;
    this.#clock = options.clock;
    this.#logger = options.logger;
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
    this.#onEnded = options.onEnded ?? (() => {});
    this.#lanes = new DeliveryLanes(options.lanes);
    this.#claims = new DeliveryClaims({
      ...options,
      lanes: this.#lanes,
      onClaimed: (deliveries) => this.take(deliveries),
      isStopping: () => this.#draining,
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
      // What the node before had, or left in the store, comes first.
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
   * Places for deliveries that are made now: with one, a delivery can be sent from here at once, and is inserted as leased
   * to this node. Where older ones wait in the store it has to wait behind them.
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
    // What comes after the release stays leased to a node that is gone, and the next node sends it.
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
      this.#refillIfDrained(lane);
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
    const woken = this.#wakeable.stop();
    const watched = this.#watch.stop();
    for (const lane of this.#lanes) for (const { id } of this.#lanes.empty(lane)) this.#known.delete(id);
    const grace = setTimeout(() => this.#stop.abort(new Error('the service stops')), graceMs);
    await this.untilIdle();
    clearTimeout(grace);
    this.#outcomes.stop();
    await woken;
    await watched;
    await Promise.allSettled(this.#refills);
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
      this.#refills.size === 0 &&
      this.#lanes.held === 0 &&
      // What the store does not take when the service stops is sent again after the next start.
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
      for (const delivery of this.#lanes.empty(lane))
        this.#settleAs(delivery, { kind: 'postponed', delayMs: lane.pausedUntilMs - nowMs });
    }
    while (this.#maySend()) {
      const delivery = this.#lanes.next(lane, nowMs);
      if (delivery === undefined) break;
      void this.#attempt(lane, delivery);
    }
    if (lane.queue.length > 0 && lane.underWay.size === 0) this.#starved.add(lane);
    else this.#starved.delete(lane);
    this.#refillIfDrained(lane);
  }

  #maySend(): boolean {
    return this.#outcomes.hasRoom && !this.#draining;
  }

  async #attempt(lane: DeliveryLane, delivery: HeldDelivery): Promise<void> {
    let outcome: AttemptOutcome;
    try {
      outcome = await this.#deliverTo(delivery.listenerId)(delivery, this.#stop.signal);
    } catch (error) {
      this.#logger.warn({ delivery: delivery.id, error: toError(error).message }, 'delivery.attempt-lost');
      outcome = { kind: 'postponed', delayMs: unknownDelayMs };
    }
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
    this.#settleAs(delivery, outcome);
    this.#send(lane);
    this.#sendStarved();
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
    const { listenerId } = delivery;
    const ofWebhook = listenerId.startsWith('wh_') ? webhookOutcome(delivery, outcome) : undefined;
    this.#outcomes.add({
      row,
      listenerId,
      ...(handover === undefined ? {} : { handover }),
      ...(ofWebhook === undefined ? {} : { outcome: ofWebhook }),
    });
  }

  #logOutcome(delivery: HeldDelivery, outcome: AttemptOutcome, state: DeliveryState): void {
    // Thousands a second; /metrics counts them, and each has its record.
    if (outcome.kind === 'delivered' || outcome.kind === 'postponed') return;
    const { status, latency_ms, error } = 'attempt' in outcome ? outcome.attempt : {};
    this.#logger.info(
      {
        delivery: delivery.id,
        listener: delivery.listenerId,
        emitter: delivery.emitterId,
        attempt: delivery.attempts + 1,
        outcome: outcome.kind,
        state,
        status,
        ms: latency_ms,
        error,
      },
      'delivery.attempted',
    );
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
    // Forgotten before the release: as soon as they are free they may come back, and are then known again.
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
        this.#refills.delete(given);
        this.#tellIdle();
      });
    this.#refills.add(given);
  }

  /** Deliveries to a listener were cancelled, or changed otherwise, in the store: what waits here of them is let go. */
  letGo(listenerId: string, ids: ReadonlySet<string>): void {
    const lane = this.#lanes.find(listenerId);
    if (lane === undefined) return;
    for (const { id } of this.#lanes.empty(lane, ids)) this.#known.delete(id);
    this.#send(lane);
    this.#tellIdle();
  }

  #refillIfDrained(lane: DeliveryLane): void {
    if (this.#draining || !this.#lanes.hasDrained(lane)) return;
    if (performance.now() < this.#refillFromMs) return;
    lane.isRefilling = true;
    const refill = this.#refill(lane).finally(() => {
      lane.isRefilling = false;
      this.#refills.delete(refill);
      this.#send(lane);
      this.#tellIdle();
    });
    this.#refills.add(refill);
  }

  /** Brings what waits in the store for one listener into memory. */
  async #refill(lane: DeliveryLane): Promise<void> {
    const { left } = lane;
    try {
      // From here on new ones may come to memory first; when there is more in the store, they will not.
      const isAll = await this.#claims.claimFor(lane.listenerId);
      if (isAll && lane.left === left) lane.isBehind = false;
    } catch (error) {
      this.#logger.warn(
        { listener: lane.listenerId, error: toError(error).message },
        'delivery.claim-failed',
      );
      // Not at once again, by this lane or a thousand others.
      this.#refillFromMs = performance.now() + pollMs / 2;
      this.#wakeable.wakeIn(pollMs);
    }
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
    // Cancelled through another node, most likely.
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
