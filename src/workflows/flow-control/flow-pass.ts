import type { EmitStore, EventRouter } from '#events/emit-event.ts';
import type { StoredEvent } from '#events/event.ts';
import { type ArrivedJob, arrivedJobs, holdJobs, releaseJobs } from '#jobs/held-job-store.ts';
import { arrivalLane } from '#jobs/held-jobs.ts';
import { lockJobOf } from '#jobs/run-job-store.ts';
import type { Clock } from '#lib/clock.ts';
import type { Store, Tx } from '#storage/store.ts';
import type { FlowBlock, FlowGroupTable, FlowQueueTable, FlowRunTable } from '#storage/tables/flow-tables.ts';
import { type AppliedFlowControl, parseFlowControl } from '#workflows/definitions/flow-control.ts';
import { findWorkflow } from '#workflows/definitions/workflow-store.ts';
import { endLockedRun } from '#workflows/runs/end-run.ts';
import { isTerminal } from '#workflows/runs/run.ts';
import { cancelNotice } from '#workflows/runs/run-notices.ts';
import { lockRun } from '#workflows/runs/run-store.ts';
import { mergeRuns } from './batch-store.ts';
import {
  awakeGroups,
  collectedRuns,
  collectedSums,
  deleteFlowOf,
  deleteFlowRuns,
  deleteGroups,
  dueKeys,
  endedRuns,
  freePlaces,
  insertFlowRuns,
  insertGroups,
  lastStartOnAccount,
  lockQueue,
  nextWakeMs,
  nthStartMs,
  placesHeld,
  pruneEnded,
  queueHeads,
  rateContenders,
  rateLimitsOf,
  setFlowRuns,
  singletonHolders,
  startedOnAccount,
  startedSince,
  unfinished,
  updateGroups,
  updateQueue,
  wakeAll,
  wakeBlocked,
  wakeGroupsOf,
} from './flow-queue-store.ts';
import {
  blockOf,
  giveBack,
  type Room,
  shareOfAccount,
  sharePlaces,
  type WaitingGroup,
} from './share-places.ts';
import { keepUnbegun, type UnbegunEnd } from './unbegun-run-store.ts';

/** What one transaction takes in and lets begin: the writer of the store is held for some tens of milliseconds at most. */
const arrivalsMax = 300;
const startsMax = 400;
const groupsMax = 400;
const dueKeysMax = 100;
const endedMax = 2_000;
/** Bytes of the events of one batch: a run may hold 6 MB, with what its steps export. */
const batchBytesMax = 3 * 1024 * 1024;
/** A queue with waiting runs is looked at so often even if nothing happens to it, in case a wake-up was lost with its node. */
const waitingPollMs = 2_000;
const startedPollMs = 30_000;
/** When other workflows have their turn on an account first. */
const contendedMs = 100;

/** What a pass did that the process has to know after the commit. */
export interface PassResult {
  /** There is more to do now. */
  isMore: boolean;
  /** Runs that may be claimed now. */
  started: number;
  /** Events that did not become runs were recorded. */
  recorded: boolean;
  /** Runs under way that were ended. */
  cancelled: string[];
  stored: StoredEvent[];
}

export interface FlowPassOptions {
  store: EmitStore & Pick<Store, 'transaction' | 'lockRows' | 'notify'>;
  router: EventRouter;
  clock: Clock;
}

/**
 * Decides, in one transaction, which of the waiting runs of a workflow may begin. Everything it decides by is in the store, and the row of
 * the queue is locked, so that limits hold over all nodes and a crash leaves nothing half done: a run holds its place from this commit to
 * the one that ends it.
 */
export async function passQueue(options: FlowPassOptions, workflowId: string): Promise<PassResult> {
  return options.store.transaction((tx) => new FlowPass(options, tx, workflowId).run());
}

class FlowPass {
  readonly #store: FlowPassOptions['store'];
  readonly #router: EventRouter;
  readonly #clock: Clock;
  readonly #tx: Tx;
  readonly #id: string;
  #nowMs: number;
  readonly #result: PassResult = { isMore: false, started: 0, recorded: false, cancelled: [], stored: [] };
  readonly #ends: UnbegunEnd[] = [];
  #queue!: FlowQueueTable;
  #flow: AppliedFlowControl = {};
  /** No group can start a run before this, whichever it is: the account of the rate limit allows no more. */
  #closedUntilMs: number | undefined;

  constructor({ store, router, clock }: FlowPassOptions, tx: Tx, workflowId: string) {
    this.#store = store;
    this.#router = router;
    this.#clock = clock;
    this.#tx = tx;
    this.#id = workflowId;
    this.#nowMs = clock.now();
  }

  async run(): Promise<PassResult> {
    const workflow = await findWorkflow(this.#tx, this.#id);
    if (workflow === undefined) {
      await deleteFlowOf(this.#tx, this.#id);
      return this.#result;
    }
    this.#queue = await lockQueue(this.#store, this.#tx, { id: this.#id, ownerId: workflow.owner_id });
    // After the wait for the lock: what another node let begin meanwhile is not in the future.
    this.#nowMs = this.#clock.now();
    this.#flow = workflow.flow_control === null ? {} : parseFlowControl(workflow.flow_control);
    await this.#applySettings(workflow.flow_control);
    await this.#freePlaces();
    const arrivals = await arrivedJobs(this.#tx, arrivalLane(this.#id, { isEvaluated: true }), arrivalsMax);
    if (arrivals.length === arrivalsMax) this.#result.isMore = true;
    await this.#takeIn(arrivals);
    await this.#releaseDue();
    await this.#recordEnds();
    await this.#startRuns();
    await this.#planNext();
    return this.#result;
  }

  /** Runs that wait keep the keys that they came with; the limits are those of now. */
  async #applySettings(flowControl: string | null): Promise<void> {
    const queue = this.#queue;
    const { account_id, rate_limit } = this.#flow;
    if (queue.flow_control !== flowControl) await wakeAll(this.#tx, this.#id, this.#nowMs);
    queue.flow_control = flowControl;
    queue.rate_key = account_id ?? null;
    queue.rate_limit = rate_limit?.limit ?? null;
    queue.rate_seconds = rate_limit?.seconds ?? null;
    await updateQueue(this.#tx, queue);
    // The row of an account is the lock of what workflows share on it; always after that of a workflow.
    if (account_id !== undefined)
      await lockQueue(this.#store, this.#tx, { id: account_id, ownerId: queue.owner_id });
  }

  async #freePlaces(): Promise<void> {
    const ended = await endedRuns(this.#tx, this.#id, endedMax);
    if (ended.length === endedMax) this.#result.isMore = true;
    const limits = this.#queue.rate_key === null ? [] : await rateLimitsOf(this.#tx, this.#queue.rate_key);
    const seconds = [this.#flow.throttle?.seconds ?? 0, ...limits.map((limit) => limit.seconds)];
    const keepMs = Math.max(...seconds) * 1000;
    await freePlaces(
      this.#tx,
      ended.map(({ run_id }) => run_id),
      keepMs === 0 ? undefined : keepMs,
    );
    await pruneEnded(this.#tx, this.#id, this.#nowMs);
    const places = new Map<string, number>();
    for (const { concurrency_key: key } of ended) places.set(key, (places.get(key) ?? 0) + 1);
    await this.#wakeFor(places);
  }

  /** Groups that wait for a place of these concurrency keys are looked at in this pass. */
  async #wakeFor(places: ReadonlyMap<string, number>): Promise<void> {
    if (!this.#hasCrossKeys()) return wakeGroupsOf(this.#tx, this.#id, [...places.keys()], this.#nowMs);
    for (const [key, count] of places)
      await wakeBlocked(this.#tx, this.#id, { key, places: count, nowMs: this.#nowMs });
  }

  /** True when runs with one concurrency key may have different throttle keys. */
  #hasCrossKeys(): boolean {
    const { concurrency, throttle } = this.#flow;
    return throttle !== undefined && concurrency !== undefined && throttle.key !== concurrency.key;
  }

  async #takeIn(arrivals: readonly ArrivedJob[]): Promise<void> {
    if (arrivals.length === 0) return;
    const ids = arrivals.map(({ id }) => id);
    await holdJobs(this.#tx, { ids, subject: this.#id, nowMs: this.#nowMs });
    const rows = arrivals.map((job) => this.#rowOf(job));
    const { debounce, batch } = this.#flow;
    const isCollected = (row: FlowRunTable) =>
      row.coalesce_key !== null && (debounce !== undefined || batch !== undefined);
    await this.#enqueue(
      rows.filter((row) => !isCollected(row)),
      { areNew: true },
    );
    const collected = rows.filter(isCollected);
    if (collected.length === 0) return;
    if (debounce !== undefined) await this.#debounce(collected, debounce);
    else if (batch !== undefined) await this.#batch(collected, batch);
  }

  #rowOf({ id, payload, createdAtMs }: ArrivedJob): FlowRunTable {
    const { concurrency = '', throttle = '', ...keys } = payload.flow ?? { bytes: 0 };
    const group = this.#hasCrossKeys()
      ? JSON.stringify([concurrency, throttle])
      : this.#flow.concurrency === undefined
        ? throttle
        : concurrency;
    return {
      run_id: id,
      workflow_id: this.#id,
      owner_id: this.#queue.owner_id,
      state: 'waiting',
      group_key: group,
      concurrency_key: concurrency,
      throttle_key: throttle,
      singleton_key: keys.singleton ?? null,
      coalesce_key: keys.debounce ?? keys.batch ?? null,
      rate_key: this.#queue.rate_key,
      place_ms: createdAtMs - (keys.priority ?? 0) * 1000,
      arrived_ms: createdAtMs,
      first_ms: createdAtMs,
      due_ms: null,
      bytes: keys.bytes,
      started_ms: null,
      warning: keys.warning ?? null,
    };
  }

  /** The last event of a key counts; each one before it is recorded as a run that never began. */
  async #debounce(
    rows: readonly FlowRunTable[],
    { seconds, max_wait_seconds }: { seconds: number; max_wait_seconds: number },
  ): Promise<void> {
    const keys = [...new Set(rows.map(keyOf))];
    const before = await collectedRuns(this.#tx, this.#id, keys);
    const stored = new Set(before.map(({ run_id }) => run_id));
    const current = new Map(before.map((row) => [keyOf(row), row]));
    const due: FlowRunTable[] = [];
    const losers: { loser: FlowRunTable; key: string }[] = [];
    for (const row of rows) {
      const key = keyOf(row);
      let last = current.get(key);
      if (last !== undefined && (last.due_ms ?? 0) <= row.arrived_ms) {
        due.push(last);
        last = undefined;
      }
      const isLater = last === undefined || isAfter(row, last);
      const kept = isLater || last === undefined ? row : last;
      if (last !== undefined) losers.push({ loser: kept === row ? last : row, key });
      const first_ms = Math.min(row.first_ms, last?.first_ms ?? row.first_ms);
      const due_ms = Math.min(kept.arrived_ms + seconds * 1000, first_ms + max_wait_seconds * 1000);
      current.set(key, { ...kept, state: 'collected', first_ms, due_ms });
    }
    // Named are the runs that were kept in the end, not those that were replaced again in this pass.
    for (const { loser, key } of losers)
      this.#ends.push({
        runId: loser.run_id,
        reason: `debounced: a later event counts, run ${current.get(key)?.run_id ?? ''}`,
      });
    this.#queue.debounced += losers.length;
    const gone = new Set(losers.map(({ loser }) => loser.run_id));
    await deleteFlowRuns(
      this.#tx,
      [...gone].filter((id) => stored.has(id)),
    );
    await this.#enqueue(
      due.filter(({ run_id }) => stored.has(run_id)),
      { areNew: false },
    );
    await this.#enqueue(
      due.filter(({ run_id }) => !stored.has(run_id)),
      { areNew: true },
    );
    const kept = [...current.values()];
    for (const row of kept)
      if (stored.has(row.run_id))
        await setFlowRuns(this.#tx, [row.run_id], { first_ms: row.first_ms, due_ms: row.due_ms });
    await insertFlowRuns(
      this.#store,
      this.#tx,
      kept.filter(({ run_id }) => !stored.has(run_id)),
    );
  }

  async #batch(
    rows: readonly FlowRunTable[],
    { max_events, max_seconds }: { max_events: number; max_seconds: number },
  ): Promise<void> {
    const sums = await collectedSums(this.#tx, this.#id, [...new Set(rows.map(keyOf))]);
    const fresh: FlowRunTable[] = [];
    const merge = async (key: string) => {
      await insertFlowRuns(this.#store, this.#tx, fresh.splice(0));
      await this.#mergeBatch(key);
      sums.delete(key);
    };
    for (const row of rows) {
      const key = keyOf(row);
      const sum = sums.get(key);
      if (sum !== undefined && sum.bytes + row.bytes > batchBytesMax) await merge(key);
      const { count = 0, bytes = 0, firstMs = row.arrived_ms } = sums.get(key) ?? {};
      const first_ms = Math.min(firstMs, row.arrived_ms);
      fresh.push({ ...row, state: 'collected', first_ms, due_ms: first_ms + max_seconds * 1000 });
      sums.set(key, { count: count + 1, bytes: bytes + row.bytes, firstMs: first_ms });
      if (count + 1 >= max_events) await merge(key);
    }
    await insertFlowRuns(this.#store, this.#tx, fresh);
  }

  /** What is collected for a key becomes the event of its first run; the others are removed, their events are in that one. */
  async #mergeBatch(key: string): Promise<void> {
    const rows = await collectedRuns(this.#tx, this.#id, [key]);
    const { leaderId, mergedIds, bytes } = await mergeRuns(this.#tx, rows, { key });
    await deleteFlowRuns(
      this.#tx,
      rows.map(({ run_id }) => run_id).filter((id) => id !== leaderId),
    );
    this.#queue.batched += mergedIds.length;
    const leader = rows.find(({ run_id }) => run_id === leaderId);
    if (leader !== undefined) await this.#enqueue([{ ...leader, bytes }], { areNew: false });
  }

  /** Debounces and batches whose time has come. */
  async #releaseDue(): Promise<void> {
    const keys = await dueKeys(this.#tx, this.#id, { nowMs: this.#nowMs, limit: dueKeysMax });
    if (keys.length === 0) return;
    if (keys.length === dueKeysMax) this.#result.isMore = true;
    if (this.#flow.debounce !== undefined) {
      const rows = await collectedRuns(this.#tx, this.#id, keys);
      return this.#enqueue(rows, { areNew: false });
    }
    for (const key of keys) await this.#mergeBatch(key);
  }

  /** Runs begin to wait for their turn, after those whose singleton key is taken were sorted out. */
  async #enqueue(rows: readonly FlowRunTable[], { areNew }: { areNew: boolean }): Promise<void> {
    if (rows.length === 0) return;
    const waiting = await this.#withoutTaken(rows, { areNew });
    const entries = waiting.map((row): FlowRunTable => ({ ...row, state: 'waiting', due_ms: null }));
    if (areNew) await insertFlowRuns(this.#store, this.#tx, entries);
    else
      await setFlowRuns(
        this.#tx,
        entries.map(({ run_id }) => run_id),
        { state: 'waiting', due_ms: null },
      );
    const groups = new Map(entries.map((row) => [row.group_key, row]));
    await insertGroups(
      this.#store,
      this.#tx,
      [...groups.values()].map(
        (row): FlowGroupTable => ({
          workflow_id: this.#id,
          group_key: row.group_key,
          concurrency_key: row.concurrency_key,
          throttle_key: row.throttle_key,
          rate_key: row.rate_key,
          blocked_by: null,
          wake_ms: this.#nowMs,
          served_ms: 0,
        }),
      ),
    );
  }

  async #withoutTaken(
    rows: readonly FlowRunTable[],
    { areNew }: { areNew: boolean },
  ): Promise<FlowRunTable[]> {
    const { singleton } = this.#flow;
    const keys = new Set(rows.flatMap(({ singleton_key: key }) => (key === null ? [] : [key])));
    if (singleton === undefined || keys.size === 0) return [...rows];
    const holders = new Map<string, Pick<FlowRunTable, 'run_id' | 'state'>>();
    for (const holder of await singletonHolders(this.#tx, this.#id, [...keys]))
      holders.set(holder.singleton_key ?? '', holder);
    const kept = new Map<string, FlowRunTable>();
    const dropped: string[] = [];
    const replaced: { runId: string; key: string; isStarted: boolean }[] = [];
    for (const row of rows) {
      const key = row.singleton_key;
      const holder = key === null ? undefined : holders.get(key);
      if (key === null || holder === undefined || holder.run_id === row.run_id) {
        kept.set(row.run_id, row);
        if (key !== null) holders.set(key, row);
      } else if (singleton.mode === 'skip') {
        this.#ends.push({
          runId: row.run_id,
          reason: `skipped: run ${holder.run_id} has the singleton key ${JSON.stringify(key)}`,
        });
        this.#queue.skipped += 1;
        dropped.push(row.run_id);
      } else {
        replaced.push({ runId: holder.run_id, key, isStarted: holder.state === 'started' });
        if (kept.delete(holder.run_id)) dropped.push(holder.run_id);
        kept.set(row.run_id, row);
        holders.set(key, row);
      }
    }
    for (const { runId, key, isStarted } of replaced) {
      const by = holders.get(key)?.run_id ?? '';
      this.#queue.replaced += 1;
      const reason = `replaced: run ${by} came later with the singleton key ${JSON.stringify(key)}`;
      if (isStarted) await this.#cancel(runId, reason);
      else this.#ends.push({ runId, reason });
    }
    const waitingBefore = replaced.filter(({ isStarted }) => !isStarted).map(({ runId }) => runId);
    await deleteFlowRuns(this.#tx, areNew ? waitingBefore : [...waitingBefore, ...dropped]);
    return [...kept.values()];
  }

  /** Ends a run that has begun, or may begin at any moment on some node. */
  async #cancel(runId: string, reason: string): Promise<void> {
    await lockJobOf(this.#store, this.#tx, runId);
    const run = await lockRun(this.#store, this.#tx, runId);
    if (run === undefined || isTerminal(run)) return;
    const options = { store: this.#store, router: this.#router, clock: this.#clock };
    const end = { state: 'cancelled', reason, notice: `${cancelNotice}${runId}` } as const;
    this.#result.stored.push(...(await endLockedRun(options, this.#tx, run, end)));
    this.#result.cancelled.push(runId);
    // Its place is free in the next pass.
    this.#result.isMore = true;
  }

  async #recordEnds(): Promise<void> {
    if (this.#ends.length === 0) return;
    this.#result.recorded = true;
    await keepUnbegun(this.#tx, this.#ends, this.#nowMs);
  }

  async #startRuns(): Promise<void> {
    const groups = await awakeGroups(this.#tx, this.#id, { nowMs: this.#nowMs, limit: groupsMax });
    if (groups.length === 0) return;
    const { room, rateWakeMs } = await this.#roomFor(groups);
    if (room.rate <= 0) this.#closedUntilMs = rateWakeMs;
    else if (groups.length === groupsMax) this.#result.isMore = true;
    const perGroup = Math.min(100, Math.max(1, Math.ceil((2 * startsMax) / groups.length)));
    const wanted = groups.flatMap((group) => {
      const limit = Math.min(perGroup, roomOf(group, room));
      return limit <= 0 ? [] : [{ groupKey: group.group_key, limit }];
    });
    const heads = Map.groupBy(await queueHeads(this.#tx, this.#id, wanted), ({ groupKey }) => groupKey);
    const waiting = wanted.flatMap(({ groupKey }): WaitingGroup[] => {
      const group = groups.find(({ group_key }) => group_key === groupKey);
      if (group === undefined) return [];
      const runIds = (heads.get(groupKey) ?? []).map(({ runId }) => runId);
      return [{ ...namesOf(group), runIds }];
    });
    const given = sharePlaces(waiting, room);
    const gone = await this.#release([...given.values()].flat());
    for (const group of waiting)
      for (const runId of given.get(group.groupKey) ?? []) if (gone.has(runId)) giveBack(group, room);
    const asked = new Map(wanted.map(({ groupKey, limit }) => [groupKey, limit]));
    await this.#updateGroups(groups, {
      room,
      rateWakeMs,
      served: new Set([...given].flatMap(([key, runIds]) => (runIds.length > 0 ? [key] : []))),
      isEmpty: (key) => {
        const found = heads.get(key)?.length ?? 0;
        return found < (asked.get(key) ?? 0) && given.get(key)?.length === found;
      },
    });
  }

  /** How many runs of these groups may begin now. */
  async #roomFor(groups: readonly FlowGroupTable[]): Promise<{ room: Room; rateWakeMs: number }> {
    const { concurrency, throttle } = this.#flow;
    const room: Room = {
      concurrency: new Map(),
      throttle: new Map(),
      rate: Number.POSITIVE_INFINITY,
      total: startsMax,
    };
    if (concurrency !== undefined) {
      const keys = [...new Set(groups.map(({ concurrency_key }) => concurrency_key))];
      const held = await placesHeld(this.#tx, this.#id, keys);
      for (const key of keys) room.concurrency.set(key, concurrency.limit - (held.get(key) ?? 0));
    }
    if (throttle !== undefined) {
      const keys = [...new Set(groups.map(({ throttle_key }) => throttle_key))];
      const sinceMs = this.#nowMs - throttle.seconds * 1000;
      const begun = await startedSince(this.#tx, this.#id, keys, sinceMs);
      for (const key of keys) room.throttle.set(key, throttle.limit - (begun.get(key) ?? 0));
    }
    const { rate_key } = this.#queue;
    if (rate_key === null) return { room, rateWakeMs: this.#nowMs };
    const { permits, wakeMs } = await this.#permitsOf(rate_key);
    const others = await rateContenders(this.#tx, rate_key, this.#id);
    const own = { servedMs: await lastStartOnAccount(this.#tx, rate_key, this.#id) };
    room.rate = permits <= 0 ? 0 : shareOfAccount(permits, own, others);
    return { room, rateWakeMs: room.rate < permits ? this.#nowMs + contendedMs : wakeMs };
  }

  /** The strictest limit of all workflows that use the account counts. */
  async #permitsOf(rateKey: string): Promise<{ permits: number; wakeMs: number }> {
    let permits = Number.POSITIVE_INFINITY;
    let wakeMs = this.#nowMs;
    for (const { limit, seconds } of await rateLimitsOf(this.#tx, rateKey)) {
      const periodMs = seconds * 1000;
      const left = limit - (await startedOnAccount(this.#tx, rateKey, this.#nowMs - periodMs));
      permits = Math.min(permits, left);
      const firstMs = await nthStartMs(this.#tx, { rateKey }, limit);
      if (firstMs !== undefined) wakeMs = Math.max(wakeMs, firstMs + periodMs);
    }
    return { permits, wakeMs };
  }

  /** Runs may be claimed by any node from this commit on. Returns those whose job is gone: a user has ended them. */
  async #release(ids: readonly string[]): Promise<Set<string>> {
    if (ids.length === 0) return new Set();
    const released = await releaseJobs(this.#tx, { ids, nowMs: this.#nowMs });
    await setFlowRuns(this.#tx, [...released], { state: 'started', started_ms: this.#nowMs });
    const gone = new Set(ids).difference(released);
    await deleteFlowRuns(this.#tx, [...gone]);
    this.#queue.started += released.size;
    this.#result.started = released.size;
    await this.#store.notify(this.#tx, 'millrace_jobs', '');
    return gone;
  }

  async #updateGroups(
    groups: readonly FlowGroupTable[],
    look: {
      room: Room;
      rateWakeMs: number;
      served: ReadonlySet<string>;
      isEmpty: (groupKey: string) => boolean;
    },
  ): Promise<void> {
    const { room, rateWakeMs, served, isEmpty } = look;
    const empty: string[] = [];
    const blocked = new Map<string, { by: FlowBlock | null; wakeMs: number | null; keys: string[] }>();
    for (const group of groups) {
      const key = group.group_key;
      if (isEmpty(key)) {
        empty.push(key);
        continue;
      }
      const by = blockOf(namesOf(group), room) ?? null;
      let wakeMs: number | null = this.#nowMs;
      if (by === 'throttle') wakeMs = await this.#throttleOpensMs(group.throttle_key);
      else if (by === 'rate_limit') wakeMs = rateWakeMs;
      else if (by === 'concurrency') wakeMs = null;
      else this.#result.isMore = true;
      const same = `${by} ${wakeMs} ${served.has(key)}`;
      const known = blocked.get(same);
      if (known === undefined) blocked.set(same, { by, wakeMs, keys: [key] });
      else known.keys.push(key);
    }
    await deleteGroups(this.#tx, this.#id, empty);
    for (const { by, wakeMs, keys } of blocked.values())
      await updateGroups(this.#tx, this.#id, keys, {
        blocked_by: by,
        wake_ms: wakeMs,
        ...(served.has(keys[0] ?? '') ? { served_ms: this.#nowMs } : {}),
      });
    if (!this.#hasCrossKeys()) return;
    // Groups that a throttle holds back left places to others with the same concurrency key.
    const left = new Map([...room.concurrency].filter(([, places]) => places > 0));
    await this.#wakeFor(left);
  }

  async #throttleOpensMs(throttleKey: string): Promise<number> {
    const { throttle } = this.#flow;
    if (throttle === undefined) return this.#nowMs;
    const of = { workflowId: this.#id, throttleKey };
    const nthMs = await nthStartMs(this.#tx, of, throttle.limit);
    return (nthMs ?? this.#nowMs) + throttle.seconds * 1000;
  }

  async #planNext(): Promise<void> {
    const wakeMs = await nextWakeMs(this.#tx, this.#id);
    const next = wakeMs === undefined ? undefined : Math.max(wakeMs, this.#closedUntilMs ?? wakeMs);
    const { isWaiting, isStarted } = await unfinished(this.#tx, this.#id);
    const times = [
      ...(next === undefined ? [] : [next]),
      ...(isWaiting ? [this.#nowMs + waitingPollMs] : []),
      ...(isStarted ? [this.#nowMs + startedPollMs] : []),
      ...(this.#result.isMore ? [this.#nowMs] : []),
    ];
    this.#queue.wake_ms = times.length === 0 ? null : Math.min(...times);
    if (next !== undefined && next <= this.#nowMs) this.#result.isMore = true;
    await updateQueue(this.#tx, this.#queue);
  }
}

function keyOf({ coalesce_key }: FlowRunTable): string {
  return coalesce_key ?? '';
}

function isAfter(one: FlowRunTable, other: FlowRunTable): boolean {
  return one.arrived_ms === other.arrived_ms ? one.run_id > other.run_id : one.arrived_ms > other.arrived_ms;
}

function namesOf(group: FlowGroupTable): Omit<WaitingGroup, 'runIds'> {
  const { group_key: groupKey, concurrency_key: concurrencyKey, throttle_key: throttleKey } = group;
  return { groupKey, concurrencyKey, throttleKey };
}

function roomOf({ concurrency_key, throttle_key }: FlowGroupTable, room: Room): number {
  return Math.min(
    room.concurrency.get(concurrency_key) ?? room.total,
    room.throttle.get(throttle_key) ?? room.total,
    room.rate,
    room.total,
  );
}
