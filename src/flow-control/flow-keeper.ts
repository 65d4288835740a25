import type { EventBus } from '#events/event-bus.ts';
import { arrivalLanes } from '#jobs/held-job-store.ts';
import { arrivalOf } from '#jobs/held-jobs.ts';
import type { ActiveOwners } from '#lib/active-owners.ts';
import { toError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import { Wakeable } from '#lib/wakeable.ts';
import type { Store } from '#storage/store.ts';
import { type FlowPassOptions, passQueue } from './flow-pass.ts';
import { dueQueues, nextQueueDueMs, queuedSubjects } from './flow-queue-store.ts';
import { PassRests } from './pass-rests.ts';

/** Arrivals that no process reported (its node died, or has no worker role) are found after this. */
const pollMs = 1_000;
/** And at most this often, however often something else happens. */
const scanMs = 250;
const lanesMax = 500;
const queuesMax = 500;
/** Least time between two looks while an owner rests. */
const restingMs = 20;
/** Passes of one workflow or source before the others get their turn. */
const passesInTurn = 4;

/** Evaluates the keys of arrived runs that are code; the keeper is poked when they are known. */
export interface EvaluatesKeys {
  evaluate(subjectId: string): void;
  stop(): void;
}

/** Looks after the queues of workflows and sources with flow control: on each node with the worker role, for all of them. */
export class FlowKeeper {
  readonly #options: FlowPassOptions & { store: Store; logger: Logger; bus: EventBus };
  readonly #evaluator: EvaluatesKeys;
  readonly #onStarted: () => void;
  readonly #onCancelled: (runId: string) => void;
  readonly #onRecorded: (subjectId: string) => void;
  readonly #wakeable: Wakeable;
  readonly #rests: PassRests;
  #poked = new Set<string>();
  /** Workflows and sources with a queue, as of the last scan. */
  #known = new Set<string>();
  /** False on a node without the worker role: others look after the queues. */
  #isStarted = false;
  #scannedAtMs = Number.NEGATIVE_INFINITY;

  constructor(
    options: FlowPassOptions & {
      store: Store;
      logger: Logger;
      bus: EventBus;
      evaluator: EvaluatesKeys;
      /** Absent: an owner is alone. */
      owners?: Pick<ActiveOwners, 'areSeveral'> | undefined;
      /** Runs may be claimed. */
      onStarted: () => void;
      /** A run under way was ended. */
      onCancelled: (runId: string) => void;
      /** Runs that never began were recorded. */
      onRecorded: (subjectId: string) => void;
    },
  ) {
    this.#options = options;
    this.#evaluator = options.evaluator;
    this.#onStarted = options.onStarted;
    this.#onCancelled = options.onCancelled;
    this.#onRecorded = options.onRecorded;
    this.#rests = new PassRests({
      areSeveral: () => options.owners?.areSeveral === true,
      onRested: (subjectId) => this.poke(subjectId),
    });
    this.#wakeable = new Wakeable({
      look: () => this.#look(),
      pollMs,
      logger: options.logger,
      failure: 'flow-control.look-failed',
    });
  }

  start(): void {
    this.#isStarted = true;
    this.#wakeable.poke();
  }

  stop(): Promise<void> {
    this.#evaluator.stop();
    return this.#wakeable.stop();
  }

  /** Runs of this workflow have arrived whose keys are code. */
  evaluate(subjectId: string): void {
    if (this.#isStarted) this.#evaluator.evaluate(subjectId);
  }

  /** Runs of this workflow or source have arrived. */
  poke(subjectId: string): void {
    this.#known.add(subjectId);
    if (!this.#isStarted) return;
    this.#poked.add(subjectId);
    this.#wakeable.poke();
  }

  /** A workflow or source without a queue has nothing that waits. */
  settingsChanged(subjectId: string): void {
    if (this.#known.has(subjectId)) this.poke(subjectId);
  }

  /** A run of this workflow or source has ended: its place may be free. */
  runEnded(subjectId: string): void {
    if (this.#known.has(subjectId)) this.poke(subjectId);
  }

  async #look(): Promise<number> {
    const ids = this.#poked;
    this.#poked = new Set();
    await this.#scan(ids);
    for (const id of ids) await this.#turnOf(id);
    const nowMs = this.#options.clock.now();
    if (this.#poked.size > 0) return 0;
    const dueMs = await nextQueueDueMs(this.#options.store.read);
    // What is due and rests is looked at when the rest is over.
    return dueMs === undefined ? pollMs : Math.max(this.#rests.areAny ? restingMs : 1, dueMs - nowMs);
  }

  /** What is due, and what no process of this node has reported. */
  async #scan(ids: Set<string>): Promise<void> {
    const { read } = this.#options.store;
    const nowMs = this.#options.clock.now();
    for (const id of await dueQueues(read, nowMs, queuesMax)) ids.add(id);
    if (performance.now() - this.#scannedAtMs < scanMs) return;
    this.#scannedAtMs = performance.now();
    for (const lane of await arrivalLanes(read, lanesMax)) {
      const arrival = arrivalOf(lane);
      if (arrival?.isEvaluated === true) ids.add(arrival.subject);
      else if (arrival !== undefined) this.#evaluator.evaluate(arrival.subject);
    }
    const queued = await queuedSubjects(read);
    // What was poked while the store was read may not have a queue yet.
    this.#known = new Set([...queued, ...ids, ...this.#poked]);
    this.#rests.keep(this.#known);
  }

  async #turnOf(subjectId: string): Promise<void> {
    try {
      for (let pass = 0; pass < passesInTurn; pass += 1)
        if (this.#rests.defer(subjectId) || !(await this.#pass(subjectId))) return;
      this.poke(subjectId);
    } catch (error) {
      // It is looked at again with the next poll: what waits is in the store.
      this.#options.logger.warn(
        { subject: subjectId, error: toError(error).message },
        'flow-control.pass-failed',
      );
    }
  }

  async #pass(subjectId: string): Promise<boolean> {
    const passed = await passQueue(this.#options, subjectId);
    const { isMore, started, recorded, cancelled, stored, ownerId, ms } = passed;
    if (ownerId !== undefined) this.#rests.passed(subjectId, { ownerId, ms });
    if (stored.length > 0) this.#options.bus.publish(stored);
    for (const runId of cancelled) this.#onCancelled(runId);
    if (recorded || cancelled.length > 0) this.#onRecorded(subjectId);
    if (started > 0) this.#onStarted();
    return isMore;
  }
}
