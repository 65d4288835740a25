import type { Clock } from '#lib/clock.ts';
import { parseFlowControl } from './flow-control.ts';
import { wakeAll, wakeBlockedBySource } from './flow-group-store.ts';
import { rateLimitsOf } from './flow-limit-store.ts';
import { deleteFlowOf, lockQueue, queueOutlook, updateQueue } from './flow-queue-store.ts';
import { endedRuns, freePlaces, pruneEnded } from './flow-run-store.ts';
import type { FlowTarget } from './flow-target.ts';
import { ownerOf, type PassResult, type QueuePass, wakeFor } from './queue-pass.ts';
import { startWaitingRuns } from './start-waiting-runs.ts';
import { releaseDue, takeInArrivals } from './take-in-runs.ts';

const endedMax = 2_000;
/** A queue with waiting runs is looked at so often even if nothing happens to it, in case a wake-up was lost with its node. */
const waitingPollMs = 2_000;
const startedPollMs = 30_000;

export interface FlowPassOptions {
  store: QueuePass['store'];
  clock: Clock;
  /** What is particular to this workflow or source, by its id. */
  targetOf: (subjectId: string) => FlowTarget;
}

/**
 * Decides, in one transaction, which of the waiting runs of a workflow or source may begin. Everything it decides by is in the store, and the row of
 * the queue is locked, so that limits hold over all nodes and a crash leaves nothing half done: a run holds its place from this commit to
 * the one that ends it.
 */
export async function passQueue(options: FlowPassOptions, subjectId: string): Promise<PassResult> {
  return options.store.transaction(async (tx) => {
    const begunMs = performance.now();
    const { store, clock, targetOf } = options;
    const target = targetOf(subjectId);
    const result: PassResult = {
      ...{ isMore: false, started: 0, recorded: false, cancelled: [], stored: [] },
      ...{ ownerId: undefined, ms: 0 },
    };
    const subject = await target.find(tx, subjectId);
    if (subject === undefined) {
      await deleteFlowOf(tx, subjectId);
      return result;
    }
    const queue = await lockQueue(store, tx, { id: subjectId, ownerId: subject.ownerId });
    const flow = subject.flowControl === null ? {} : parseFlowControl(subject.flowControl);
    const nowMs = clock.now();
    const pass: QueuePass = {
      store,
      tx,
      id: subjectId,
      target,
      subject,
      flow,
      queue,
      nowMs,
      result,
      ends: [],
    };
    await applySettings(pass, subject.flowControl);
    await freeEndedPlaces(pass);
    await takeInArrivals(pass);
    await releaseDue(pass);
    await recordEnds(pass);
    const closedUntilMs = await startWaitingRuns(pass);
    await planNext(pass, closedUntilMs);
    result.ownerId = subject.ownerId;
    result.ms = performance.now() - begunMs;
    return result;
  });
}

/** Runs that wait keep the keys that they came with; the limits are those of now. */
async function applySettings(pass: QueuePass, flowControl: string | null): Promise<void> {
  const queue = pass.queue;
  const { account_id, rate_limit } = pass.flow;
  if (queue.flow_control !== flowControl) {
    await wakeAll(pass.tx, pass.id, pass.nowMs);
    queue.flow_control = flowControl;
    queue.rate_key = account_id ?? null;
    queue.rate_limit = rate_limit?.limit ?? null;
    queue.rate_seconds = rate_limit?.seconds ?? null;
    // The limits of all that share an account are read from their rows.
    await updateQueue(pass.tx, queue);
  }
  // The row of an account is the lock of what workflows and sources share on it; always after that of one of these.
  if (account_id !== undefined)
    await lockQueue(pass.store, pass.tx, { id: account_id, ownerId: queue.owner_id });
}

async function freeEndedPlaces(pass: QueuePass): Promise<void> {
  const ended = await endedRuns(pass.tx, pass.id, {
    isUnfinished: pass.target.isUnfinished,
    limit: endedMax,
  });
  if (ended.length === endedMax) pass.result.isMore = true;
  const limits = pass.queue.rate_key === null ? [] : await rateLimitsOf(pass.tx, pass.queue.rate_key);
  const seconds = [pass.flow.throttle?.seconds ?? 0, ...limits.map((limit) => limit.seconds)];
  const keepMs = Math.max(...seconds) * 1000;
  await freePlaces(
    pass.tx,
    ended.map(({ run_id }) => run_id),
    keepMs === 0 ? undefined : keepMs,
  );
  await pruneEnded(pass.tx, pass.id, pass.nowMs);
  const places = new Map<string, number>();
  for (const { concurrency_key: key } of ended) places.set(key, (places.get(key) ?? 0) + 1);
  await wakeFor(pass, places);
  if (pass.subject.placesMax === undefined) return;
  const nowMs = pass.nowMs;
  await wakeBlockedBySource(pass.tx, pass.id, { places: ended.length, nowMs });
}

async function recordEnds(pass: QueuePass): Promise<void> {
  if (pass.ends.length === 0) return;
  pass.result.recorded = true;
  await pass.target.keepUnbegun(pass.tx, ownerOf(pass), pass.ends, pass.nowMs);
}

async function planNext(pass: QueuePass, closedUntilMs: number | undefined): Promise<void> {
  const { wakeMs, isWaiting, isStarted } = await queueOutlook(pass.tx, pass.id);
  const next = wakeMs === undefined ? undefined : Math.max(wakeMs, closedUntilMs ?? wakeMs);
  const times = [
    ...(next === undefined ? [] : [next]),
    ...(isWaiting ? [pass.nowMs + waitingPollMs] : []),
    ...(isStarted ? [pass.nowMs + startedPollMs] : []),
    ...(pass.result.isMore ? [pass.nowMs] : []),
  ];
  pass.queue.wake_ms = times.length === 0 ? null : Math.min(...times);
  if (next !== undefined && next <= pass.nowMs) pass.result.isMore = true;
  await updateQueue(pass.tx, pass.queue);
}
