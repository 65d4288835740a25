import { releaseJobs } from '#jobs/held-job-store.ts';
import type { FlowBlock, FlowGroupTable } from '#storage/tables/flow-tables.ts';
import { awakeGroups, deleteGroups, updateGroups, wakeBlockedBySource } from './flow-group-store.ts';
import {
  allPlacesHeld,
  lastStartOnAccount,
  nthStartMs,
  placesHeld,
  rateContenders,
  rateLimitsOf,
  startedOnAccount,
  startedSince,
} from './flow-limit-store.ts';
import { deleteFlowRuns, queueHeads, setFlowRuns } from './flow-run-store.ts';
import { hasCrossKeys, type QueuePass, wakeFor } from './queue-pass.ts';
import {
  blockOf,
  giveBack,
  type Room,
  shareOfAccount,
  sharePlaces,
  type WaitingGroup,
} from './share-places.ts';

/** What one transaction lets begin: the writer of the store is held for some tens of milliseconds at most. */
const startsMax = 400;
const groupsMax = 400;
/** How soon to look again when other workflows or sources go first on a shared account. */
const contendedMs = 100;

/**
 * Lets as many waiting runs begin as the limits have room for, group by group in turns. Returns the time before which no group can start a
 * run, whichever it is, when the account of the rate limit allows no more.
 */
export async function startWaitingRuns(pass: QueuePass): Promise<number | undefined> {
  const groups = await awakeGroups(pass.tx, pass.id, { nowMs: pass.nowMs, limit: groupsMax });
  if (groups.length === 0) return undefined;
  const { room, rateWakeMs } = await roomFor(pass, groups);
  const isClosed = room.rate <= 0;
  if (!isClosed && groups.length === groupsMax) pass.result.isMore = true;
  const perGroup = Math.min(100, Math.max(1, Math.ceil((2 * startsMax) / groups.length)));
  const wanted = groups.flatMap((group) => {
    const limit = Math.min(perGroup, roomOf(group, room));
    return limit <= 0 ? [] : [{ groupKey: group.group_key, limit }];
  });
  const heads = Map.groupBy(await queueHeads(pass.tx, pass.id, wanted), ({ groupKey }) => groupKey);
  const waiting = wanted.flatMap(({ groupKey }): WaitingGroup[] => {
    const group = groups.find(({ group_key }) => group_key === groupKey);
    if (group === undefined) return [];
    const runIds = (heads.get(groupKey) ?? []).map(({ runId }) => runId);
    return [{ ...namesOf(group), runIds }];
  });
  const given = sharePlaces(waiting, room);
  const gone = await releaseRuns(pass, [...given.values()].flat());
  for (const group of waiting)
    for (const runId of given.get(group.groupKey) ?? []) if (gone.has(runId)) giveBack(group, room);
  const asked = new Map(wanted.map(({ groupKey, limit }) => [groupKey, limit]));
  await keepGroups(pass, groups, {
    room,
    rateWakeMs,
    served: new Set([...given].flatMap(([key, runIds]) => (runIds.length > 0 ? [key] : []))),
    isEmpty: (key) => {
      const found = heads.get(key)?.length ?? 0;
      return found < (asked.get(key) ?? 0) && given.get(key)?.length === found;
    },
  });
  return isClosed ? rateWakeMs : undefined;
}

/** How many runs of these groups may begin now. */
async function roomFor(
  pass: QueuePass,
  groups: readonly FlowGroupTable[],
): Promise<{ room: Room; rateWakeMs: number }> {
  const { concurrency, throttle } = pass.flow;
  const room: Room = {
    concurrency: new Map(),
    throttle: new Map(),
    rate: Number.POSITIVE_INFINITY,
    source: Number.POSITIVE_INFINITY,
    total: startsMax,
  };
  const { placesMax } = pass.subject;
  if (placesMax !== undefined) room.source = placesMax - (await allPlacesHeld(pass.tx, pass.id));
  if (concurrency !== undefined) {
    const keys = [...new Set(groups.map(({ concurrency_key }) => concurrency_key))];
    const held = await placesHeld(pass.tx, pass.id, keys);
    for (const key of keys) room.concurrency.set(key, concurrency.limit - (held.get(key) ?? 0));
  }
  if (throttle !== undefined) {
    const keys = [...new Set(groups.map(({ throttle_key }) => throttle_key))];
    const sinceMs = pass.nowMs - throttle.seconds * 1000;
    const begun = await startedSince(pass.tx, pass.id, keys, sinceMs);
    for (const key of keys) room.throttle.set(key, throttle.limit - (begun.get(key) ?? 0));
  }
  const { rate_key } = pass.queue;
  if (rate_key === null) return { room, rateWakeMs: pass.nowMs };
  const { permits, wakeMs } = await permitsOf(pass, rate_key);
  const others = await rateContenders(pass.tx, rate_key, pass.id);
  const own = { servedMs: await lastStartOnAccount(pass.tx, rate_key, pass.id) };
  room.rate = permits <= 0 ? 0 : shareOfAccount(permits, own, others);
  return { room, rateWakeMs: room.rate < permits ? pass.nowMs + contendedMs : wakeMs };
}

/** The strictest limit of all that use the account counts. */
async function permitsOf(pass: QueuePass, rateKey: string): Promise<{ permits: number; wakeMs: number }> {
  let permits = Number.POSITIVE_INFINITY;
  let wakeMs = pass.nowMs;
  for (const { limit, seconds } of await rateLimitsOf(pass.tx, rateKey)) {
    const periodMs = seconds * 1000;
    const left = limit - (await startedOnAccount(pass.tx, rateKey, pass.nowMs - periodMs));
    permits = Math.min(permits, left);
    const firstMs = await nthStartMs(pass.tx, { rateKey }, limit);
    if (firstMs !== undefined) wakeMs = Math.max(wakeMs, firstMs + periodMs);
  }
  return { permits, wakeMs };
}

/** Runs may be claimed by any node from this commit on. Returns those whose job is gone: a user has ended them. */
async function releaseRuns(pass: QueuePass, ids: readonly string[]): Promise<Set<string>> {
  if (ids.length === 0) return new Set();
  const released = await releaseJobs(pass.tx, { ids, lane: pass.subject.lane, nowMs: pass.nowMs });
  await setFlowRuns(pass.tx, [...released], { state: 'started', started_ms: pass.nowMs });
  const gone = new Set(ids).difference(released);
  await deleteFlowRuns(pass.tx, [...gone]);
  pass.queue.started += released.size;
  pass.result.started = released.size;
  await pass.store.notify(pass.tx, 'millrace_jobs', '');
  return gone;
}

/** Groups without waiting runs are removed; the others know what holds them back, and until when. */
async function keepGroups(
  pass: QueuePass,
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
    let wakeMs: number | null = pass.nowMs;
    if (by === 'throttle') wakeMs = await throttleOpensMs(pass, group.throttle_key);
    else if (by === 'rate_limit') wakeMs = rateWakeMs;
    else if (by === 'concurrency' || by === 'source_concurrency') wakeMs = null;
    else pass.result.isMore = true;
    const same = `${by} ${wakeMs} ${served.has(key)}`;
    const known = blocked.get(same);
    if (known === undefined) blocked.set(same, { by, wakeMs, keys: [key] });
    else known.keys.push(key);
  }
  await deleteGroups(pass.tx, pass.id, empty);
  for (const { by, wakeMs, keys } of blocked.values())
    await updateGroups(pass.tx, pass.id, keys, {
      blocked_by: by,
      wake_ms: wakeMs,
      ...(served.has(keys[0] ?? '') ? { served_ms: pass.nowMs } : {}),
    });
  // Groups that other limits hold back left places to those that were not looked at.
  if (Number.isFinite(room.source))
    await wakeBlockedBySource(pass.tx, pass.id, { places: room.source, nowMs: pass.nowMs });
  if (!hasCrossKeys(pass)) return;
  // Groups that a throttle holds back left places to others with the same concurrency key.
  const left = new Map([...room.concurrency].filter(([, places]) => places > 0));
  await wakeFor(pass, left);
}

async function throttleOpensMs(pass: QueuePass, throttleKey: string): Promise<number> {
  const { throttle } = pass.flow;
  if (throttle === undefined) return pass.nowMs;
  const of = { subjectId: pass.id, throttleKey };
  const nthMs = await nthStartMs(pass.tx, of, throttle.limit);
  return (nthMs ?? pass.nowMs) + throttle.seconds * 1000;
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
    room.source,
    room.total,
  );
}
