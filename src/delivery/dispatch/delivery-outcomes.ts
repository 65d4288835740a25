import type { Outcome, OutcomeRecorder } from '#health/outcome-store.ts';
import { idsOfLeased, insertNewJobs } from '#jobs/job-store.ts';
import { toError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { UsageRow } from '#metering/invocation-usage.ts';
import { addUsage } from '#metering/usage-store.ts';
import type { BatchWrite } from '#storage/group-commit.ts';
import type { Store, Tx } from '#storage/store.ts';
import { insertRuns } from '#workflows/runs/run-store.ts';
import { type SettledDelivery, settleDeliveriesQuery } from './delivery-queue-store.ts';
import type { Handover } from './delivery-retries.ts';
import { dropPayloadsQuery } from './payload-store.ts';

/** Outcomes that may be on their way to the disk; beyond that nothing new is sent. */
const unsettledMax = 4_096;
const againMs = 1_000;

/** The outcome of a delivery, on its way to the disk. */
export interface DeliveryEnd {
  ownerId: string;
  listenerId: string;
  row: SettledDelivery;
  /** For the health of a webhook. */
  outcome?: Outcome;
  handover?: Handover;
  /** Absent: no attempt was made. */
  usage?: UsageRow;
}

/** With its place among all: an outcome that the store refuses at once, because too much waits, is known before an older one is written. */
interface NumberedEnd extends DeliveryEnd {
  number: number;
}

/**
 * Writes the outcomes of deliveries; outcomes that arrive together are written together. One that the store does not take
 * is kept and written again: it is known, and asking the receiver again would be a duplicate of our making. Jobs for the same listener are stored
 * with it, in the order in which they were added: a source gets events in their order, also when the store was away for one of them.
 */
export class DeliveryOutcomes {
  readonly #store: Store;
  readonly #logger: Logger;
  readonly #write: BatchWrite<NumberedEnd, Written>;
  readonly #onSettled: (end: DeliveryEnd) => void;
  readonly #onUnsaved: () => void;
  readonly #unsaved: NumberedEnd[] = [];
  /** Listeners with jobs among those. */
  readonly #unsavedListeners = new Set<string>();
  #added = 0;
  #pending = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: {
    store: Store;
    node: string;
    outcomes: OutcomeRecorder;
    logger: Logger;
    /** It is on disk, or was refused: another node, or a cancellation, was first. */
    onSettled: (end: DeliveryEnd) => void;
    /** The store did not take one. */
    onUnsaved: () => void;
  }) {
    this.#store = options.store;
    this.#logger = options.logger;
    this.#onSettled = options.onSettled;
    this.#onUnsaved = options.onUnsaved;
    this.#write = settleWrite({ ...options, isBehindUnsaved: (end) => this.#isBehindUnsaved(end) });
  }

  /** Outcomes that are not on disk. */
  get pending(): number {
    return this.#pending;
  }

  /** Those of them that the store did not take. */
  get unsaved(): number {
    return this.#unsaved.length;
  }

  /** True when further outcomes may be added. If the store takes none of them, receivers would get the same deliveries repeatedly. */
  get hasRoom(): boolean {
    return this.#unsaved.length === 0 && this.#pending < unsettledMax;
  }

  /** There is room again after there was none. */
  get hasDrained(): boolean {
    return this.#pending === unsettledMax >> 1 || this.#pending === 0;
  }

  add(end: DeliveryEnd): void {
    this.#pending += 1;
    this.#added += 1;
    this.#submit({ ...end, number: this.#added });
  }

  /** Deliveries whose outcome is not stored when this is called are sent again by the next node. */
  stop(): void {
    clearTimeout(this.#timer);
  }

  #submit(end: NumberedEnd): void {
    this.#store.writes.submitLazily(this.#write, end).then(
      (written) => {
        if (written === 'later') {
          this.#keep(end);
          return;
        }
        this.#pending -= 1;
        if (written === 'held') end.handover?.stored();
        else end.handover?.refused?.();
        this.#onSettled(end);
      },
      (error: unknown) => {
        this.#logger.warn(
          { delivery: end.row.id, error: toError(error).message },
          'delivery.outcome-not-stored',
        );
        this.#keep(end);
      },
    );
  }

  #keep(end: NumberedEnd): void {
    this.#unsaved.push(end);
    if (end.handover !== undefined) this.#unsavedListeners.add(end.listenerId);
    this.#timer ??= setTimeout(() => this.#again(), againMs);
    this.#onUnsaved();
  }

  /** True: a job for the same listener could not be stored; the two are written in their order, with the next try. */
  #isBehindUnsaved({ listenerId, handover }: DeliveryEnd): boolean {
    return handover !== undefined && this.#unsavedListeners.has(listenerId);
  }

  #again(): void {
    this.#timer = undefined;
    this.#unsavedListeners.clear();
    for (const end of this.#unsaved.splice(0).sort((a, b) => a.number - b.number)) this.#submit(end);
  }
}

/** `refused`: the delivery was cancelled, or taken over, meanwhile. `later`: what comes before it has to be stored first. */
type Written = 'held' | 'refused' | 'later';

/** What is handed on as a job, and the run that it is for, are stored in the same transaction. */
function settleWrite({
  store,
  node,
  outcomes,
  isBehindUnsaved,
}: {
  store: Store;
  node: string;
  outcomes: OutcomeRecorder;
  isBehindUnsaved: (end: DeliveryEnd) => boolean;
}): BatchWrite<NumberedEnd, Written> {
  return {
    name: 'settle-deliveries',
    endsWork: true,
    ownerOf: ({ ownerId }) => ownerId,
    bytes: ({ row, handover }) =>
      row.attempt_log.length + (handover?.job.payload.length ?? 0) + (handover?.run?.event.length ?? 0),
    async run(tx, all) {
      const later = new Set(all.filter(isBehindUnsaved));
      const ends = all.filter((end) => !later.has(end));
      const done = new Set(ends.filter(({ row }) => row.has_payload === 0).map(({ row }) => row.emit_id));
      const isHandedOver = (end: DeliveryEnd) => end.handover !== undefined;
      const sent = ends.filter((end) => !isHandedOver(end));
      const handedOver = ends.filter(isHandedOver);
      const settle = (part: readonly DeliveryEnd[]) =>
        settleDeliveriesQuery(
          store,
          node,
          part.map(({ row }) => row),
        );
      // For what was sent it does not matter whether this node still had the delivery: the statement's result is not needed.
      if (sent.length > 0) await store.defer(tx, settle(sent));
      await outcomes.record(
        tx,
        sent.flatMap(({ outcome }) => (outcome === undefined ? [] : [outcome])),
      );
      const held = new Set<string>();
      if (handedOver.length > 0) {
        const { rows } = await tx.executeQuery(settle(handedOver));
        for (const { id } of rows) held.add(id);
        const handovers = handedOver.flatMap(({ row, handover }) =>
          handover !== undefined && held.has(row.id) ? [handover] : [],
        );
        const runs = handovers.flatMap(({ run }) => (run === undefined ? [] : [run]));
        const jobs = handovers.map(({ job }) => job);
        await insertRuns(store, tx, runs);
        await insertNewJobs(store, tx, jobs);
        if (jobs.some(({ state }) => state === 'queued')) await store.notify(tx, 'millrace_jobs', '');
        for (const id of await storedBefore(tx, node, handedOver, held)) held.add(id);
      }
      if (done.size > 0) await store.defer(tx, dropPayloadsQuery(store, [...done]));
      // Last, as in every transaction: rows of usage are shared by all that an owner does.
      await addUsage(
        store,
        tx,
        ends.flatMap(({ usage }) => (usage === undefined ? [] : [usage])),
      );
      return all.map((end) => {
        if (later.has(end)) return 'later';
        return !isHandedOver(end) || held.has(end.row.id) ? 'held' : 'refused';
      });
    },
  };
}

/**
 * Deliveries whose job an earlier try has stored for this node, which never learned that its commit had succeeded: nothing else would run the job until
 * the node misses it, and what comes after it would run before it.
 */
async function storedBefore(
  tx: Tx,
  node: string,
  ends: readonly DeliveryEnd[],
  held: ReadonlySet<string>,
): Promise<string[]> {
  const jobs = new Map(
    ends.flatMap(({ row, handover }) =>
      handover === undefined || held.has(row.id) ? [] : [[handover.job.id, row.id] as const],
    ),
  );
  const leased = await idsOfLeased(tx, node, [...jobs.keys()]);
  return [...jobs].flatMap(([jobId, id]) => (leased.has(jobId) ? [id] : []));
}
