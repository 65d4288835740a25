import type { Db } from '#storage/store.ts';
import type { FlowGroupTable, FlowRunTable } from '#storage/tables/flow-tables.ts';
import { type AppliedFlowControl, parseFlowControl } from './flow-control.ts';
import { placesHeld } from './flow-limit-store.ts';
import { findQueue } from './flow-queue-store.ts';
import {
  countByState,
  countCollected,
  findFlowRuns,
  findGroup,
  longestGroups,
  startedCounts,
} from './flow-view-store.ts';

/** Where a run is under flow control. */
export interface RunPlace {
  state: 'collected' | 'waiting' | 'started';
  /** In words. */
  reason: string;
  /** Epoch ms; null: when something else happens. */
  untilMs: number | null;
  warning: string | null;
}

/** Groups that a view of a queue names; the others are counted. */
const groupsNamedMax = 100;

/** Undefined: the run is under no flow control, or no longer. */
export async function placeOfRun(db: Db, runId: string): Promise<RunPlace | undefined> {
  return (await placesOfRuns(db, [runId])).get(runId);
}

/** The same for several runs, by their ids. What those of one key have in common is read once. */
export async function placesOfRuns(db: Db, runIds: readonly string[]): Promise<Map<string, RunPlace>> {
  const common = new Map<string, Promise<Omit<RunPlace, 'warning'>>>();
  const places = new Map<string, RunPlace>();
  for (const row of await findFlowRuns(db, runIds)) {
    if (row.state === 'ended') continue;
    const { subject_id, state, coalesce_key, due_ms, group_key } = row;
    const key = JSON.stringify([
      subject_id,
      state,
      ...(state === 'collected' ? [coalesce_key, due_ms] : [group_key]),
    ]);
    const known = common.get(key) ?? placeOf(db, row);
    common.set(key, known);
    places.set(row.run_id, { ...(await known), warning: row.warning });
  }
  return places;
}

async function placeOf(db: Db, row: FlowRunTable): Promise<Omit<RunPlace, 'warning'>> {
  if (row.state === 'started')
    return { state: 'started', reason: 'it holds its place until it has ended', untilMs: null };
  const queue = await findQueue(db, row.subject_id);
  const flow = queue?.flow_control == null ? {} : parseFlowControl(queue.flow_control);
  if (row.state === 'collected') return { state: 'collected', ...(await collectedReason(db, flow, row)) };
  const group = await findGroup(db, row.subject_id, row.group_key);
  if (group === undefined) return { state: 'waiting', reason: 'it begins at once', untilMs: null };
  const held = await placesHeld(db, row.subject_id, [group.concurrency_key]);
  return {
    state: 'waiting',
    reason: blockReason(flow, group, held.get(group.concurrency_key) ?? 0),
    untilMs: untilOf(group),
  };
}

async function collectedReason(
  db: Db,
  flow: AppliedFlowControl,
  row: FlowRunTable,
): Promise<{ reason: string; untilMs: number | null }> {
  const key = row.coalesce_key ?? '';
  const until = row.due_ms === null ? 'soon' : new Date(row.due_ms).toISOString();
  const untilMs = row.due_ms;
  if (flow.batch === undefined)
    return { reason: `debounced until ${until}, or until a later event${ofKey(key)} comes`, untilMs };
  const count = await countCollected(db, row.subject_id, key);
  return {
    reason: `in a batch of ${count} so far${ofKey(key)}, which runs with ${flow.batch.max_events} events or at ${until}`,
    untilMs,
  };
}

function blockReason(flow: AppliedFlowControl, group: FlowGroupTable, held: number): string {
  const at =
    group.wake_ms === null ? '' : `; the next one begins at ${new Date(group.wake_ms).toISOString()}`;
  switch (group.blocked_by) {
    case 'concurrency':
      return `${held} of ${flow.concurrency?.limit ?? held} runs${ofKey(group.concurrency_key)} are under way`;
    case 'throttle':
      return `${flow.throttle?.limit ?? 0} runs${ofKey(group.throttle_key)} have begun within ${flow.throttle?.seconds ?? 0} seconds${at}`;
    case 'rate_limit':
      return `the rate limit of account ${flow.account_id ?? group.rate_key ?? ''} is used up${at}`;
    case 'source_concurrency':
      return 'as many runs are under way as the concurrency of the source allows';
    default:
      return 'it begins at once';
  }
}

function untilOf({ blocked_by, wake_ms }: FlowGroupTable): number | null {
  return blocked_by === null || blocked_by === 'concurrency' ? null : wake_ms;
}

function ofKey(key: string): string {
  return key === '' ? '' : ` with key ${JSON.stringify(key)}`;
}

/** What waits for a workflow or source, and how its events fared since it has had flow control. */
export async function viewQueue(db: Db, subjectId: string, waitingUnseen: number) {
  const queue = await findQueue(db, subjectId);
  const flow = queue?.flow_control == null ? {} : parseFlowControl(queue.flow_control);
  const counts = await countByState(db, subjectId);
  const groups = await longestGroups(db, subjectId, groupsNamedMax);
  const concurrencyKeys = [...new Set(groups.map(({ concurrency_key }) => concurrency_key))];
  const held = await placesHeld(db, subjectId, concurrencyKeys);
  const startedByKey = await startedCounts(db, subjectId, groupsNamedMax);
  return {
    arrived: waitingUnseen,
    collected: counts.get('collected') ?? 0,
    waiting: counts.get('waiting') ?? 0,
    under_way: counts.get('started') ?? 0,
    totals: {
      started: queue?.started ?? 0,
      skipped: queue?.skipped ?? 0,
      replaced: queue?.replaced ?? 0,
      debounced: queue?.debounced ?? 0,
      batched: queue?.batched ?? 0,
    },
    waiting_keys: groups.map((group) => {
      const untilMs = untilOf(group);
      return {
        key: group.concurrency_key === '' ? group.throttle_key : group.concurrency_key,
        throttle_key: group.throttle_key,
        waiting: group.waiting,
        under_way: held.get(group.concurrency_key) ?? 0,
        blocked_by: group.blocked_by,
        reason: blockReason(flow, group, held.get(group.concurrency_key) ?? 0),
        until: untilMs === null ? null : new Date(untilMs).toISOString(),
      };
    }),
    keys_under_way: startedByKey.map(({ key, count }) => ({ key, under_way: count })),
  };
}
