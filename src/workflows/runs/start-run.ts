import { parseFlowControl } from '#flow-control/flow-control.ts';
import { hasCode, keysFrom, plainValues } from '#flow-control/read-keys.ts';
import { type KeyedItem, keyRow, takeKeys, writeOnce } from '#idempotency/idempotency-key-store.ts';
import type { RequestKey } from '#idempotency/request-key.ts';
import { arrivalLane, arrivedMs, type FlowKeys } from '#jobs/held-jobs.ts';
import { insertNewJobs, jobRow, type LeasedJob } from '#jobs/job-store.ts';
import { sharedLane } from '#jobs/shared-lane.ts';
import { UnpersistedJob } from '#jobs/unpersisted-job.ts';
import type { WorkerPool } from '#jobs/worker-pool.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError, UnavailableError } from '#lib/errors.ts';
import { newSecret, newTimeOrderedId } from '#lib/ids.ts';
import { WaitingRuns, waitingMax } from '#sources/waiting-runs.ts';
import type { BatchWrite } from '#storage/group-commit.ts';
import type { Store, Tx } from '#storage/store.ts';
import type { IdempotencyKeyTable } from '#storage/tables/idempotency-tables.ts';
import type { RunTable } from '#storage/tables/workflow-tables.ts';
import { carriedTrace, currentSpan } from '#telemetry/span.ts';
import { derivedIds } from '#telemetry/trace-context.ts';
import { noTracer, type Tracer } from '#telemetry/tracer.ts';
import { newRunRow } from './new-run.ts';
import { refuseGone } from './refuse-gone.ts';
import type { FollowedRun, NewRun, RunReply, RunTrigger } from './run.ts';
import { runBacklog } from './run-backlog-store.ts';
import { insertRuns } from './run-store.ts';
import type { WorkflowRuns } from './run-workflow.ts';

/** Callers that wait for the answer of runs of one workflow, in this process. */
const waitingForReplyMax = 1_024;
/** Seconds after which it is worth trying again. */
const tryAgainSeconds = 5;
/** Maximum of workflows with flow control in memory. */
const heldMax = 10_000;
/** Maximum of workflows and sources that an event passes through: more of them are a loop. */
const hopsMax = 10;

/** A new run for a transaction of the caller's, who inserts both rows and calls `stored` after the commit. */
export interface PreparedRun extends NewRun {
  stored: () => void;
}

/** Starts runs of workflows. A run is on disk before its event is acknowledged (promise 1). */
export class RunStarter {
  readonly #store: Store;
  readonly #pool: WorkerPool;
  readonly #runs: WorkflowRuns;
  readonly #clock: Clock;
  readonly #write: BatchWrite<NewRun, void>;
  readonly #writeOnce: BatchWrite<KeyedItem<NewRun>, boolean>;
  readonly #waiting: Pick<WaitingRuns, 'admit'>;
  readonly #onRecorded: (workflowId: string) => void;
  readonly #onArrived: (workflowId: string, keys: { isEvaluated: boolean }) => void;
  readonly #hasOthers: () => boolean;
  readonly #tracer: Pick<Tracer, 'isOn'>;
  /** Workflows whose last run that was made here waits under flow control, also where the pool has room for it. */
  readonly #held = new Set<string>();

  constructor(options: {
    store: Store;
    pool: WorkerPool;
    runs: WorkflowRuns;
    clock: Clock;
    /** A run that never begins was recorded: there may be more than are kept. */
    onRecorded: (workflowId: string) => void;
    /** A run was stored that flow control has to look at. */
    onArrived: (workflowId: string, keys: { isEvaluated: boolean }) => void;
    /** How many may wait in the store. */
    waiting?: Pick<WaitingRuns, 'admit'>;
    tracer?: Pick<Tracer, 'isOn'>;
  }) {
    this.#tracer = options.tracer ?? noTracer;
    this.#onRecorded = options.onRecorded;
    this.#onArrived = options.onArrived;
    this.#waiting = options.waiting ?? new WaitingRuns({ ...options, count: runBacklog });
    this.#store = options.store;
    this.#pool = options.pool;
    this.#runs = options.runs;
    this.#clock = options.clock;
    this.#hasOthers = () => options.pool.lanes.hasOthers;
    this.#write = insertNewRuns(options.store, (tx, runs) => this.#refuseGone(tx, runs));
    this.#writeOnce = writeOnce(this.#write);
  }

  /**
   * Resolves when the run is on disk; as `repeated` when one of this key is there already. Throws CallerError
   * `too_many_hops`, `workflow_busy` when too many wait for this workflow already, `unknown_endpoint` when it is gone,
   * UnavailableError.
   */
  async start(trigger: RunTrigger, key?: RequestKey): Promise<{ runId: string; repeated: boolean }> {
    const lane = sharedLane(trigger.workflowId);
    const here = trigger.flowControl === null && this.#pool.hasRoom(lane, trigger.ownerId);
    const made = this.#make(trigger, lane, here);
    const keyed = key && keyOf(key, made, { accepted: true });
    const runId = made.run.id;
    if (here) return { runId, repeated: !(await this.#runHere(made, { key: keyed })) };
    if (!(await this.#waiting.admit(trigger.workflowId, trigger.event.length)))
      throw tooMany(waitingMax, this.#clock.now());
    if (keyed === undefined) await this.#store.writes.submit(this.#write, made);
    else if (!(await this.#store.writes.submit(this.#writeOnce, { item: made, key: keyed })))
      return { runId, repeated: true };
    if (trigger.flowControl === null) this.#pool.leftInStore(lane, trigger.ownerId);
    else this.#arrived(trigger.workflowId, trigger.flowControl);
    return { runId, repeated: false };
  }

  /**
   * The answer of the run: `$.respond`, or that it ended or came to a wait without one. Undefined when a run of this key
   * is there already. Throws CallerError `workflow_busy`
   * when too many wait for this workflow already, `UnavailableError` when the run was interrupted: it continues later,
   * without a caller that waits.
   */
  async startAndAwait(
    trigger: RunTrigger,
    key?: RequestKey,
  ): Promise<(RunReply & { runId: string }) | undefined> {
    if (trigger.flowControl !== null) {
      // Refused when it is deployed; a node that does not know of the deployment yet answers as for a run that waits.
      const { runId, repeated } = await this.start(trigger, key);
      return repeated ? undefined : { kind: 'ended', waits: true, state: 'queued', runId };
    }
    const pool = this.#pool;
    const lane = sharedLane(trigger.workflowId);
    if (!pool.hasRoomToStay(lane, trigger.ownerId, waitingForReplyMax)) {
      if (pool.hasRoomToStay('', trigger.ownerId, 1)) throw tooMany(waitingForReplyMax, this.#clock.now());
      pool.refusedToStay(trigger.ownerId);
      throw new UnavailableError('overloaded', 'the service has too much to do, or is stopping; try again');
    }
    const made = this.#make(trigger, lane, true, key?.id);
    const answer = this.#runs.awaitReply(made.run.id);
    // It may be rejected while the run is still on its way to the disk, or was refused there.
    answer.catch(() => {});
    try {
      const keyed = key && keyOf(key, made, { accepted: false });
      if (!(await this.#runHere(made, { staysHere: true, key: keyed }))) return undefined;
      return { ...(await answer), runId: made.run.id };
    } finally {
      this.#runs.stopAwaiting(made.run.id);
    }
  }

  /**
   * Starts a run and waits until it has ended, or waits; resolves with its outcome in this process. A run of a workflow with flow control
   * waits from the start. Undefined when a run of this key is there already.
   */
  async startAndFollow(trigger: RunTrigger): Promise<FollowedRun>;
  async startAndFollow(trigger: RunTrigger, key: RequestKey): Promise<FollowedRun | undefined>;
  async startAndFollow(trigger: RunTrigger, key?: RequestKey): Promise<FollowedRun | undefined> {
    if (trigger.flowControl !== null) {
      const { runId, repeated } = await this.start(trigger, key);
      if (repeated) return undefined;
      return { runId, state: 'queued', result: '{}', lastNamespace: undefined, message: '' };
    }
    const made = this.#make(trigger, sharedLane(trigger.workflowId), true);
    const ended = this.#runs.follow(made.run.id);
    ended.catch(() => {});
    const keyed = key && keyOf(key, made, { accepted: true });
    if (await this.#runHere(made, { key: keyed })) return ended;
    this.#runs.stopFollowing(made.run.id);
    return undefined;
  }

  /**
   * True when one more run of `prepare`, with an event of `bytes`, may wait. Otherwise a caller who knows an endpoint URL could fill the
   * disk of all others.
   */
  async hasRoom(
    { workflowId, ownerId }: { workflowId: string; ownerId: string },
    bytes: number,
  ): Promise<boolean> {
    const begins = !this.#held.has(workflowId) && this.#pool.hasRoom(sharedLane(workflowId), ownerId);
    return begins || this.#waiting.admit(workflowId, bytes);
  }

  /** Rows of a new run for a transaction of the caller's. With `inStore` it waits its turn in the store, in order. */
  prepare(trigger: RunTrigger, { inStore = false }: { inStore?: boolean } = {}): PreparedRun {
    const lane = inStore ? trigger.workflowId : sharedLane(trigger.workflowId);
    const { flowControl } = trigger;
    const here = !inStore && flowControl === null && this.#pool.hasRoom(lane, trigger.ownerId);
    const made = this.#make(trigger, lane, here);
    if (flowControl !== null)
      return { ...made, stored: () => this.#arrived(trigger.workflowId, flowControl) };
    if (here) this.#pool.promise(made.job.id);
    const stored = here
      ? () => this.#take(made, leased(made))
      : () => this.#pool.leftInStore(lane, trigger.ownerId);
    return { ...made, stored };
  }

  #noteHeld(workflowId: string, isHeld: boolean): void {
    if (!isHeld) {
      this.#held.delete(workflowId);
      return;
    }
    if (this.#held.size >= heldMax) this.#held.clear();
    this.#held.add(workflowId);
  }

  #arrived(workflowId: string, flowControl: string): void {
    this.#onArrived(workflowId, { isEvaluated: !hasCode(parseFlowControl(flowControl)) });
  }

  /** Keeps an event that is not to be run (`x-pd-notrigger`), as a run that never began. */
  async recordOnly(trigger: RunTrigger, key?: RequestKey): Promise<{ runId: string; repeated: boolean }> {
    const made = this.#make(trigger, trigger.workflowId, false);
    const { run } = made;
    const kept: RunTable = { ...run, state: 'not_triggered', ended_at_ms: run.created_at_ms };
    const isNew = await this.#store.transaction(async (tx) => {
      if (key !== undefined && (await takeKeys(tx, [keyOf(key, made, { accepted: true })])).size === 0)
        return false;
      await this.#refuseGone(tx, [run]);
      await insertRuns(this.#store, tx, [kept]);
      return true;
    });
    if (isNew) this.#onRecorded(run.workflow_id);
    return { runId: run.id, repeated: !isNew };
  }

  async #refuseGone(tx: Tx, runs: readonly Pick<RunTable, 'workflow_id'>[]): Promise<void> {
    if (!this.#hasOthers()) return;
    await refuseGone(
      tx,
      runs.map(({ workflow_id }) => workflow_id),
    );
  }

  #make(trigger: RunTrigger, lane: string, here: boolean, keyId?: string): NewRun {
    if (trigger.hops > hopsMax)
      throw new CallerError(
        'too_many_hops',
        `the event came through more than ${hopsMax} workflows and sources`,
      );
    const nowMs = this.#clock.now();
    const id = newTimeOrderedId(nowMs);
    const { workflowId, ownerId } = trigger;
    const held = trigger.flowControl === null ? undefined : heldBy(trigger, trigger.flowControl);
    this.#noteHeld(workflowId, held !== undefined);
    const traceId = trigger.traceId ?? this.#traceIdOf(id);
    const traced = traceId === undefined ? trigger : { ...trigger, traceId };
    return {
      ...carriedTrace(),
      run: newRunRow(traced, { id, nowMs, token: newSecret(24), state: here ? 'running' : 'queued' }),
      job: jobRow(
        {
          id,
          kind: 'run_workflow',
          ownerId,
          lane: held?.lane ?? lane,
          payload: {
            run_id: id,
            workflow_id: workflowId,
            ...carriedTrace(),
            ...(keyId === undefined ? {} : { key_id: keyId }),
            ...(held === undefined ? {} : { flow: held.keys }),
          },
          runAtMs: held === undefined ? nowMs : arrivedMs,
          nowMs,
        },
        here ? this.#pool.node : undefined,
      ),
    };
  }

  /** The trace that the run will be part of; undefined when tracing is off. */
  #traceIdOf(id: string): string | undefined {
    if (!this.#tracer.isOn) return undefined;
    return currentSpan()?.context.traceId ?? derivedIds(id).traceId;
  }

  /**
   * The node that accepts it runs it: no claim is needed, and it runs while its rows are on their way to the disk. False: its
   * key is there already.
   */
  async #runHere(
    made: NewRun,
    { key, ...options }: Pick<LeasedJob, 'staysHere'> & { key: IdempotencyKeyTable | undefined },
  ): Promise<boolean> {
    const { writes } = this.#store;
    if (key !== undefined) {
      // It runs when its key is known to be on disk: only then is it known to be the first with it.
      if (!(await writes.submit(this.#writeOnce, { item: made, key }))) return false;
      this.#take(made, { ...leased(made), ...options });
    } else if (writes.healthy) {
      const unpersisted = new UnpersistedJob(() => writes.place(this.#write, made));
      this.#take(made, { ...leased(made), ...options, unpersisted });
      await unpersisted.onDisk;
    } else {
      // What a store that fails would refuse does not run.
      await writes.submit(this.#write, made);
      this.#take(made, { ...leased(made), ...options });
    }
    return true;
  }

  #take(made: NewRun, job: LeasedJob): void {
    this.#runs.expect(made);
    this.#pool.run(job);
  }
}

/** Where a run under flow control arrives, with its keys as far as no code is needed to know them. */
function heldBy(trigger: RunTrigger, flowControl: string): { lane: string; keys: FlowKeys } {
  const flow = parseFlowControl(flowControl);
  const event = { bytes: trigger.event.length, repeats: trigger.replayOf !== undefined };
  const isEvaluated = !hasCode(flow);
  const keys = isEvaluated
    ? keysFrom(flow, plainValues(flow, trigger.event), event)
    : { bytes: event.bytes, ...(event.repeats ? { repeats: true as const } : {}) };
  return { lane: arrivalLane(trigger.workflowId, { isEvaluated }), keys };
}

function keyOf(key: RequestKey, { run }: NewRun, { accepted }: { accepted: boolean }): IdempotencyKeyTable {
  return keyRow(key, { jobId: run.id, nowMs: run.created_at_ms, accepted });
}

function tooMany(limit: number, nowMs: number): CallerError {
  return new CallerError(
    'workflow_busy',
    'too many requests are waiting for this workflow; try again in a few seconds',
    {
      limit,
      retry_after: tryAgainSeconds,
      reset_at: Math.ceil(nowMs / 1000) + tryAgainSeconds,
    },
  );
}

function leased({ run, job, trace }: NewRun): LeasedJob {
  return {
    id: job.id,
    kind: 'run_workflow',
    ownerId: job.owner_id,
    lane: job.lane,
    attempts: 1,
    payload: {
      run_id: run.id,
      workflow_id: run.workflow_id,
      ...(trace === undefined ? {} : { trace }),
    },
    bytes: run.event.length,
    createdAtMs: run.created_at_ms,
  };
}

/** Inserts runs with their jobs, many in two statements, unless `check` throws: then they are written one by one. */
function insertNewRuns(
  store: Store,
  check: (tx: Tx, runs: readonly RunTable[]) => Promise<void>,
): BatchWrite<NewRun, void> {
  return {
    name: 'insert-runs',
    ownerOf: ({ run }) => run.owner_id,
    bytes: ({ run }) => run.event.length,
    async run(tx, made) {
      const runs = made.map(({ run }) => run);
      await check(tx, runs);
      await insertRuns(store, tx, runs);
      await insertNewJobs(
        store,
        tx,
        made.map(({ job }) => job),
      );
      return made.map(() => undefined);
    },
  };
}
