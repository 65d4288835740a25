import { type ArrivedJob, arrivedJobs, holdJobs } from '#jobs/held-job-store.ts';
import { arrivalLane } from '#jobs/held-jobs.ts';
import type { FlowGroupTable, FlowRunTable } from '#storage/tables/flow-tables.ts';
import { insertGroups } from './flow-group-store.ts';
import {
  collectedRuns,
  collectedSums,
  deleteFlowRuns,
  dueKeys,
  insertFlowRuns,
  setFlowRuns,
  singletonHolders,
} from './flow-run-store.ts';
import { hasCrossKeys, ownerOf, type QueuePass } from './queue-pass.ts';

/** What one transaction takes in: the writer of the store is held for some tens of milliseconds at most. */
const arrivalsMax = 300;
const dueKeysMax = 100;
/** Bytes of the events of one batch: a run may hold 6 MB, with what its steps export. */
const batchBytesMax = 3 * 1024 * 1024;

/** Runs that were stored since the last pass are held, and begin to wait or are collected. */
export async function takeInArrivals(pass: QueuePass): Promise<void> {
  const arrivals = await arrivedJobs(pass.tx, arrivalLane(pass.id, { isEvaluated: true }), arrivalsMax);
  if (arrivals.length === arrivalsMax) pass.result.isMore = true;
  if (arrivals.length === 0) return;
  const ids = arrivals.map(({ id }) => id);
  await holdJobs(pass.tx, { ids, subject: pass.id, nowMs: pass.nowMs });
  const rows = arrivals.map((job) => rowOf(pass, job));
  for (const { run_id, warning } of rows)
    if (warning !== null) await pass.target.keepWarning(pass.tx, run_id, warning);
  const { debounce, batch } = pass.flow;
  const isCollected = (row: FlowRunTable) =>
    row.coalesce_key !== null && (debounce !== undefined || batch !== undefined);
  await enqueue(
    pass,
    rows.filter((row) => !isCollected(row)),
    { areNew: true },
  );
  const collected = rows.filter(isCollected);
  if (collected.length === 0) return;
  if (debounce !== undefined) await debounceRuns(pass, collected, debounce);
  else if (batch !== undefined) await batchRuns(pass, collected, batch);
}

function rowOf(pass: QueuePass, { id, payload, createdAtMs }: ArrivedJob): FlowRunTable {
  const { concurrency = '', throttle = '', ...keys } = payload.flow ?? { bytes: 0 };
  const group = hasCrossKeys(pass)
    ? JSON.stringify([concurrency, throttle])
    : pass.flow.concurrency === undefined
      ? throttle
      : concurrency;
  return {
    run_id: id,
    subject_id: pass.id,
    owner_id: pass.queue.owner_id,
    state: 'waiting',
    group_key: group,
    concurrency_key: concurrency,
    throttle_key: throttle,
    singleton_key: keys.singleton ?? null,
    coalesce_key: keys.debounce ?? keys.batch ?? null,
    rate_key: pass.queue.rate_key,
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
async function debounceRuns(
  pass: QueuePass,
  rows: readonly FlowRunTable[],
  { seconds, max_wait_seconds }: { seconds: number; max_wait_seconds: number },
): Promise<void> {
  const keys = [...new Set(rows.map(keyOf))];
  const before = await collectedRuns(pass.tx, pass.id, keys);
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
  // The reason names the run that was kept last, not one that was replaced again in this pass.
  for (const { loser, key } of losers)
    pass.ends.push({
      runId: loser.run_id,
      reason: `debounced: a later event counts, run ${current.get(key)?.run_id ?? ''}`,
    });
  pass.queue.debounced += losers.length;
  const gone = new Set(losers.map(({ loser }) => loser.run_id));
  await deleteFlowRuns(
    pass.tx,
    [...gone].filter((id) => stored.has(id)),
  );
  await enqueue(
    pass,
    due.filter(({ run_id }) => stored.has(run_id)),
    { areNew: false },
  );
  await enqueue(
    pass,
    due.filter(({ run_id }) => !stored.has(run_id)),
    { areNew: true },
  );
  const kept = [...current.values()];
  for (const row of kept)
    if (stored.has(row.run_id))
      await setFlowRuns(pass.tx, [row.run_id], { first_ms: row.first_ms, due_ms: row.due_ms });
  await insertFlowRuns(
    pass.store,
    pass.tx,
    kept.filter(({ run_id }) => !stored.has(run_id)),
  );
}

async function batchRuns(
  pass: QueuePass,
  rows: readonly FlowRunTable[],
  { max_events, max_seconds }: { max_events: number; max_seconds: number },
): Promise<void> {
  const sums = await collectedSums(pass.tx, pass.id, [...new Set(rows.map(keyOf))]);
  const fresh: FlowRunTable[] = [];
  const merge = async (key: string) => {
    await insertFlowRuns(pass.store, pass.tx, fresh.splice(0));
    await mergeBatch(pass, key);
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
  await insertFlowRuns(pass.store, pass.tx, fresh);
}

/** What is collected for a key becomes the event of its first run; the others are removed, their events are in that one. */
async function mergeBatch(pass: QueuePass, key: string): Promise<void> {
  const rows = await collectedRuns(pass.tx, pass.id, [key]);
  const { leaderId, mergedIds, bytes } = await pass.target.merge(pass.tx, rows, { key });
  await deleteFlowRuns(
    pass.tx,
    rows.map(({ run_id }) => run_id).filter((id) => id !== leaderId),
  );
  pass.queue.batched += mergedIds.length;
  const leader = rows.find(({ run_id }) => run_id === leaderId);
  if (leader !== undefined) await enqueue(pass, [{ ...leader, bytes }], { areNew: false });
}

/** Debounces and batches whose time has come. */
export async function releaseDue(pass: QueuePass): Promise<void> {
  const keys = await dueKeys(pass.tx, pass.id, { nowMs: pass.nowMs, limit: dueKeysMax });
  if (keys.length === 0) return;
  if (keys.length === dueKeysMax) pass.result.isMore = true;
  if (pass.flow.debounce !== undefined) {
    const rows = await collectedRuns(pass.tx, pass.id, keys);
    return enqueue(pass, rows, { areNew: false });
  }
  for (const key of keys) await mergeBatch(pass, key);
}

/** Runs begin to wait for their turn, after those whose singleton key is taken were sorted out. */
async function enqueue(
  pass: QueuePass,
  rows: readonly FlowRunTable[],
  { areNew }: { areNew: boolean },
): Promise<void> {
  if (rows.length === 0) return;
  const waiting = await withoutTaken(pass, rows, { areNew });
  const entries = waiting.map((row): FlowRunTable => ({ ...row, state: 'waiting', due_ms: null }));
  if (areNew) await insertFlowRuns(pass.store, pass.tx, entries);
  else
    await setFlowRuns(
      pass.tx,
      entries.map(({ run_id }) => run_id),
      { state: 'waiting', due_ms: null },
    );
  const groups = new Map(entries.map((row) => [row.group_key, row]));
  await insertGroups(
    pass.store,
    pass.tx,
    [...groups.values()].map(
      (row): FlowGroupTable => ({
        subject_id: pass.id,
        group_key: row.group_key,
        concurrency_key: row.concurrency_key,
        throttle_key: row.throttle_key,
        rate_key: row.rate_key,
        blocked_by: null,
        wake_ms: pass.nowMs,
        served_ms: 0,
      }),
    ),
  );
}

async function withoutTaken(
  pass: QueuePass,
  rows: readonly FlowRunTable[],
  { areNew }: { areNew: boolean },
): Promise<FlowRunTable[]> {
  const { singleton } = pass.flow;
  const keys = new Set(rows.flatMap(({ singleton_key: key }) => (key === null ? [] : [key])));
  if (singleton === undefined || keys.size === 0) return [...rows];
  const holders = new Map<string, Pick<FlowRunTable, 'run_id' | 'state'>>();
  for (const holder of await singletonHolders(pass.tx, pass.id, [...keys], pass.target.isUnfinished))
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
      pass.ends.push({
        runId: row.run_id,
        reason: `skipped: run ${holder.run_id} has the singleton key ${JSON.stringify(key)}`,
      });
      pass.queue.skipped += 1;
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
    const reason = `replaced: run ${by} came later with the singleton key ${JSON.stringify(key)}`;
    if (isStarted) await cancelRun(pass, runId, reason);
    else {
      pass.queue.replaced += 1;
      pass.ends.push({ runId, reason });
    }
  }
  const waitingBefore = replaced.filter(({ isStarted }) => !isStarted).map(({ runId }) => runId);
  await deleteFlowRuns(pass.tx, areNew ? waitingBefore : [...waitingBefore, ...dropped]);
  return [...kept.values()];
}

/** Ends a run that has begun, or may begin at any moment on some node. */
async function cancelRun(pass: QueuePass, runId: string, reason: string): Promise<void> {
  const cancelled = await pass.target.cancel(pass.tx, ownerOf(pass), { runId, reason });
  // It ended by itself meanwhile.
  if (cancelled === undefined) return;
  pass.queue.replaced += 1;
  pass.result.stored.push(...cancelled.stored);
  pass.result.cancelled.push(runId);
  // Its place is free in the next pass.
  pass.result.isMore = true;
}

function keyOf({ coalesce_key }: FlowRunTable): string {
  return coalesce_key ?? '';
}

function isAfter(one: FlowRunTable, other: FlowRunTable): boolean {
  return one.arrived_ms === other.arrived_ms ? one.run_id > other.run_id : one.arrived_ms > other.arrived_ms;
}
