import type { JobPayloads } from '#jobs/job-kinds.ts';
import type { JobHandler } from '#jobs/job-registry.ts';
import {
  insertNewJobs,
  jobRow,
  type LeasedJob,
  leasedHere,
  type NewJob,
  requeueJob,
  settleJobs,
} from '#jobs/job-store.ts';
import type { WorkerPool } from '#jobs/worker-pool.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import { FairQueue } from '#lib/fair-queue.ts';
import { newTimeOrderedId } from '#lib/ids.ts';
import type { Logger } from '#lib/logger.ts';
import { bytesText } from '#lib/units.ts';
import type { QuotaGuard } from '#metering/quota-guard.ts';
import { type PushedName, pageOfListeners } from '#sources/apphook-store.ts';
import { holdRun } from '#sources/hold-run.ts';
import { flowControlsOf } from '#sources/source-store.ts';
import { WaitingRuns, waitingMax } from '#sources/waiting-runs.ts';
import type { BatchWrite } from '#storage/group-commit.ts';
import type { Store, Tx } from '#storage/store.ts';
import type { JobTable } from '#storage/tables/job-tables.ts';

/** Runs that one transaction makes of an event, and the bytes of their copies of it (of one at least). */
const runsPerPart = 250;
const partBytesMax = 8 * 1024 * 1024;
/** Events of one owner that are still on their way to some of their sources, and their bytes. */
const fanningMax = { jobs: 1_000, bytes: 64 * 1024 * 1024 };
/** A source that has as many runs waiting as it may is asked again after this. */
const busyDelayMs = 5_000;
/** Events that are handed to further sources at a time, each of another owner. */
const fanningAtOnce = 2;

/** An event of an app, for the sources of an owner. */
export interface AppEvent extends PushedName {
  /** JSON text. */
  event: string;
}

/** A job that is going to be stored: leased to this node from the start, or left to a node that has room. */
interface PlacedRun<K extends 'run_source' | 'fan_out_apphook'> {
  job: NewJob<K>;
  isHere: boolean;
}

/** What is stored of one event at once: all of it, or none. */
interface Part {
  runs: readonly PlacedRun<'run_source'>[];
  /** The job that brings it to further sources. */
  rest: JobTable | undefined;
}

/** The sources that a job brings an event to: those behind `after`, of `only` where that is given. */
interface Rest {
  after: string;
  only?: string[];
  /** Default: now. */
  runAtMs?: number;
}

/**
 * Brings events of apps to the sources that listen to them. An event is on disk for each of its sources before it is
 * acknowledged (promise 1): as a run or, for those that are too many for one transaction, in a job that makes their runs.
 */
export class AppEvents implements JobHandler {
  readonly #store: Store;
  readonly #node: string;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #quotas: Pick<QuotaGuard, 'check' | 'started'>;
  readonly #pool: Pick<WorkerPool, 'hasRoom' | 'run' | 'leftInStore' | 'poke'>;
  readonly #payloadBytesMax: number;
  readonly #waiting: WaitingRuns;
  readonly #onHeld: (sourceId: string) => void;
  readonly #fanning: WaitingRuns;
  readonly #write: BatchWrite<Part, void>;
  readonly #turns = new FairQueue(fanningAtOnce);

  constructor(options: {
    store: Store;
    node: string;
    clock: Clock;
    logger: Logger;
    quotas: Pick<QuotaGuard, 'check' | 'started'>;
    pool: Pick<WorkerPool, 'hasRoom' | 'run' | 'leftInStore' | 'poke'>;
    payloadBytesMax: number;
    waiting?: WaitingRuns;
    /** An event was stored for a source whose flow control has to look at it. */
    onHeld: (sourceId: string) => void;
  }) {
    const { store, clock } = options;
    this.#store = store;
    this.#node = options.node;
    this.#clock = clock;
    this.#logger = options.logger;
    this.#quotas = options.quotas;
    this.#pool = options.pool;
    this.#onHeld = options.onHeld;
    this.#payloadBytesMax = options.payloadBytesMax;
    this.#waiting = options.waiting ?? new WaitingRuns({ store, clock });
    this.#fanning = new WaitingRuns({ store, clock, limits: fanningMax });
    this.#write = insertParts(store, options.node);
  }

  /**
   * Resolves with the number of sources it is for, when it is on disk for all of them. Throws CallerError `body_too_large`,
   * `quota_exceeded`, or `source_busy` when one of the sources, or the owner, has too much waiting: it is then for none.
   */
  async push(pushed: AppEvent): Promise<number> {
    const { ownerId, event } = pushed;
    if (Buffer.byteLength(event) > this.#payloadBytesMax)
      throw new CallerError(
        'body_too_large',
        `payload: expected at most ${bytesText(this.#payloadBytesMax)} of JSON`,
        { parameter: 'payload' },
      );
    this.#quotas.check(ownerId);
    const { sourceIds, total } = await this.#listeners(pushed);
    if (total === 0) return 0;
    const { runs, busy } = await this.#place(pushed, sourceIds, { upToBusy: true });
    if (busy.length > 0) throw tooMany(busy[0], this.#clock.now());
    const isPart = total > sourceIds.length;
    if (isPart && !(await this.#fanning.admit(fanningLane(ownerId), event.length)))
      throw tooMany(undefined, this.#clock.now());
    const rest = isPart ? jobRow(this.#restOf(pushed, { after: sourceIds.at(-1) ?? '' })) : undefined;
    await this.#store.writes.submit(this.#write, { runs, rest });
    this.#start(runs);
    if (isPart) this.#pool.poke();
    this.#quotas.started(ownerId, total - 1);
    return total;
  }

  /** Makes the runs of a part of the sources that are left, and the jobs that continue with the others. */
  async run(job: LeasedJob, signal: AbortSignal): Promise<void> {
    await this.#turns.run(job.ownerId, async () => {
      signal.throwIfAborted();
      await this.#fanOut(job);
    });
  }

  async quarantined(job: LeasedJob): Promise<void> {
    const { owner_id, app, event_names, after } = job.payload as JobPayloads['fan_out_apphook'];
    this.#logger.error(
      { job: job.id, owner: owner_id, app, eventNames: event_names, after },
      'apphook.not-delivered',
    );
  }

  async #fanOut(job: LeasedJob): Promise<void> {
    const payload = job.payload as JobPayloads['fan_out_apphook'];
    const { owner_id: ownerId, app, event_names: eventNames, event, after, only } = payload;
    const pushed = { ownerId, app, eventNames, event };
    const page = await pageOfListeners(this.#store.read, pushed, after, only);
    const part = page.sourceIds.slice(0, runsIn(event));
    const { runs, busy } = await this.#place(pushed, part);
    const next = part.length < page.sourceIds.length ? part.at(-1) : page.next;
    if (busy.length > 0 && runs.length === 0 && next === undefined) {
      await this.#store.transaction((tx) => this.#postpone(tx, job, busy));
      return;
    }
    // It stays here, before what was pushed later: a claim for each part would take longer than the part.
    const isHere = this.#pool.hasRoom(fanningLane(ownerId), ownerId);
    const rest =
      next === undefined
        ? undefined
        : this.#restOf(pushed, { after: next, runAtMs: job.createdAtMs, ...(only && { only }) });
    const rows = runs.map((run) => rowOf(run, this.#node));
    if (rest !== undefined) rows.push(rowOf({ job: rest, isHere }, this.#node));
    if (busy.length > 0) {
      // Those that have no room hold up none of the others.
      const runAtMs = this.#clock.now() + busyDelayMs;
      rows.push(jobRow(this.#restOf(pushed, { after: '', only: busy, runAtMs })));
    }
    const isStored = await this.#store.transaction(async (tx) => {
      const held = await settleJobs(this.#store, tx, { node: this.#node, jobs: [job] });
      if (held.has(job.id)) await insertNewJobs(this.#store, tx, rows);
      if (rows.some(({ state }) => state === 'queued')) await this.#store.notify(tx, 'millrace_jobs', '');
      return held.has(job.id);
    });
    if (!isStored) return;
    this.#start(runs);
    if (rest !== undefined && isHere) this.#pool.run(leasedHere(rest, event.length));
    else if (rest !== undefined || busy.length > 0) this.#pool.poke();
  }

  async #postpone(tx: Tx, job: LeasedJob, busy: readonly string[]): Promise<void> {
    const nowMs = this.#clock.now();
    await requeueJob(tx, this.#node, job, {
      state: 'queued',
      runAtMs: nowMs + busyDelayMs,
      nowMs,
      error: `too many runs of ${busy[0]} are waiting`,
      blamed: false,
    });
  }

  /** How many sources listen, and as many of the first as one transaction takes. */
  async #listeners(pushed: AppEvent): Promise<{ sourceIds: string[]; total: number }> {
    const limit = runsIn(pushed.event);
    const sourceIds: string[] = [];
    let total = 0;
    let after: string | undefined = '';
    while (after !== undefined) {
      const page = await pageOfListeners(this.#store.read, pushed, after);
      for (const id of page.sourceIds) if (sourceIds.length < limit) sourceIds.push(id);
      total += page.sourceIds.length;
      after = page.next;
    }
    return { sourceIds, total };
  }

  /** A place for a run of each source but those that have none (`busy`); `upToBusy`: the first of these is the end. */
  async #place(
    { ownerId, event }: AppEvent,
    sourceIds: readonly string[],
    { upToBusy = false } = {},
  ): Promise<{ runs: PlacedRun<'run_source'>[]; busy: string[] }> {
    const runs: PlacedRun<'run_source'>[] = [];
    const busy: string[] = [];
    const nowMs = this.#clock.now();
    const flowControls = await flowControlsOf(this.#store.read, sourceIds);
    for (const sourceId of sourceIds) {
      const flowControl = flowControls.get(sourceId);
      const isHere = flowControl === undefined && this.#pool.hasRoom(sourceId, ownerId);
      if (!isHere && !(await this.#waiting.admit(sourceId, event.length))) {
        busy.push(sourceId);
        if (upToBusy) break;
        continue;
      }
      const job: NewJob<'run_source'> = {
        id: newTimeOrderedId(nowMs),
        kind: 'run_source',
        ownerId,
        lane: sourceId,
        payload: { source_id: sourceId, trigger: 'apphook', event, hops: 0 },
        runAtMs: nowMs,
        nowMs,
      };
      runs.push({ job: flowControl === undefined ? job : holdRun(job, flowControl), isHere });
    }
    return { runs, busy };
  }

  /** What is on disk may run. */
  #start(runs: readonly PlacedRun<'run_source'>[]): void {
    const pool = this.#pool;
    for (const { job, isHere } of runs) {
      if (job.payload.flow !== undefined) this.#onHeld(job.payload.source_id);
      else if (isHere) pool.run(leasedHere(job, job.payload.event?.length ?? 0));
      else pool.leftInStore(job.payload.source_id, job.ownerId);
    }
  }

  #restOf(
    { ownerId, app, eventNames, event }: AppEvent,
    { after, only, runAtMs }: Rest,
  ): NewJob<'fan_out_apphook'> {
    const nowMs = this.#clock.now();
    return {
      id: newTimeOrderedId(nowMs),
      kind: 'fan_out_apphook',
      ownerId,
      lane: fanningLane(ownerId),
      payload: { owner_id: ownerId, app, event_names: [...eventNames], event, after, ...(only && { only }) },
      runAtMs: runAtMs ?? nowMs,
      nowMs,
    };
  }
}

/** Runs with a copy of this event that one transaction makes. */
function runsIn(event: string): number {
  return Math.min(runsPerPart, Math.max(1, Math.floor(partBytesMax / Math.max(1, event.length))));
}

function fanningLane(ownerId: string): string {
  return `apphooks ${ownerId}`;
}

function rowOf(
  { job, isHere }: PlacedRun<'run_source'> | PlacedRun<'fan_out_apphook'>,
  node: string,
): JobTable {
  return isHere ? jobRow(job, node) : jobRow(job);
}

/** Inserts the rows of many events together. */
function insertParts(store: Store, node: string): BatchWrite<Part, void> {
  return {
    name: 'insert-app-events',
    // An event of an app goes to sources of one owner.
    ownerOf: ({ runs, rest }) => runs[0]?.job.ownerId ?? rest?.owner_id,
    bytes: ({ runs, rest }) =>
      runs.reduce((sum, { job }) => sum + (job.payload.event?.length ?? 0), rest?.payload.length ?? 0),
    async run(tx, parts) {
      const rests = parts.flatMap(({ rest }) => (rest === undefined ? [] : [rest]));
      const runs = parts.flatMap((part) => part.runs.map((run) => rowOf(run, node)));
      await insertNewJobs(store, tx, [...runs, ...rests]);
      if ([...runs, ...rests].some(({ state }) => state === 'queued'))
        await store.notify(tx, 'millrace_jobs', '');
      return parts.map(() => undefined);
    },
  };
}

/** Seconds after which it is worth trying again. */
const tryAgainSeconds = 5;

/** `sourceId`: the one that is full; undefined: too many events are on their way to too many sources. */
function tooMany(sourceId: string | undefined, nowMs: number): CallerError {
  const what =
    sourceId === undefined
      ? 'too many events are on their way to their sources'
      : `too many runs of ${sourceId} are waiting: deactivate the source, or wait until some have run`;
  return new CallerError('source_busy', `${what}; the event was delivered to no source`, {
    ...(sourceId === undefined ? {} : { source: sourceId }),
    limit: sourceId === undefined ? fanningMax.jobs : waitingMax,
    retry_after: tryAgainSeconds,
    reset_at: Math.ceil(nowMs / 1000) + tryAgainSeconds,
  });
}
