import {
  appendEvents,
  type Emission,
  type EmissionResult,
  type EmitStore,
  type EventAllowance,
  type EventRouter,
  emittedCount,
  lockEmittersOf,
  prefetchSubscribers,
} from '#events/emit-event.ts';
import type { StoredEvent } from '#events/event.ts';
import type { OutcomeRecorder } from '#health/outcome-store.ts';
import { settleJobsQuery } from '#jobs/job-store.ts';
import { keepLanesQuery } from '#jobs/lane-lease-store.ts';
import type { Clock } from '#lib/clock.ts';
import type { UsageRow } from '#metering/invocation-usage.ts';
import { addUsage } from '#metering/usage-store.ts';
import { recordTickEnds } from '#schedule/timer-store.ts';
import type { Dialect } from '#storage/dialect.ts';
import type { BatchWrite } from '#storage/group-commit.ts';
import type { Store, Tx } from '#storage/store.ts';
import { mergeComponentDbs } from './source-store.ts';

/** What one call into a source's code caused. */
export interface InvocationEnd {
  /** The job that ends with it. None for hooks, and for a job that ended before its row was written. */
  job?: { id: string; attempts: number };
  sourceId: string;
  /** The lane that this node must hold; absent: none. */
  lane?: string;
  emission: Emission;
  /** Component db: JSON text by key. */
  dbSets: Record<string, string>;
  usage: UsageRow;
  /** How the run ended, for the health of the source. None for hooks. */
  run?: { failure: string | null; revision: string };
  /** The planned run of a timer that it was. */
  tick?: { timer_id: string; planned_ms: number };
  /** True when an earlier outcome of this source was lost, so this one was computed from state that never was. */
  isStale(): boolean;
}

export type SettleResult =
  | { settled: true; stored: StoredEvent[] }
  /** `taken`: another node holds the job, or has the turn of the source, now. `stale`: run it again. `removed`: the source is gone. */
  | { settled: false; reason: 'taken' | 'stale' | 'removed' };

/**
 * Promise 2: what invocations caused (end of the job, component db, dedupe state, events, metering) commits in one
 * transaction, for as many invocations as arrive together, in a constant number of statements.
 */
export function settleInvocations(options: {
  store: EmitStore & Pick<Store, 'ask'>;
  node: string;
  router: EventRouter;
  clock: Clock;
  outcomes: OutcomeRecorder;
  allowance?: EventAllowance;
}): BatchWrite<InvocationEnd, SettleResult> {
  const { store, node, router, clock, outcomes, allowance } = options;
  return {
    name: 'settle-invocations',
    endsWork: true,
    ownerOf: ({ usage }) => usage.ownerId,
    bytes: ({ emission, dbSets }) => {
      let bytes = 0;
      for (const { event, summary = '' } of emission.events) bytes += event.length + summary.length;
      for (const text of Object.values(dbSets)) bytes += text.length;
      return bytes;
    },
    async run(tx, ends) {
      const results = new Map<InvocationEnd, SettleResult>();
      const fresh: InvocationEnd[] = [];
      const kept = await keepTurns(store, tx, node, ends);
      for (const end of ends) {
        if (end.isStale()) results.set(end, { settled: false, reason: 'stale' });
        else if (end.lane !== undefined && !kept.has(end.lane))
          results.set(end, { settled: false, reason: 'taken' });
        else fresh.push(end);
      }
      if (fresh.length === 0)
        return ends.map((end) => results.get(end) ?? { settled: false, reason: 'stale' });
      const jobs = fresh.flatMap((end) => (end.job === undefined ? [] : [end.job]));
      const asked = fresh.map((end) => end.emission);
      const prefetch = prefetchSubscribers(router, asked);
      // All in one wait for the store. Emitters are locked before the look-up of their subscribers, for
      // listeners that subscribe from a certain event on: subscribing takes the same lock.
      const { ended, emitters, subscribers } = await store.ask(tx, {
        ended: jobs.length === 0 ? undefined : settleJobsQuery(store, tx, { node, jobs }),
        emitters: lockEmittersOf(store, tx, asked),
        subscribers: prefetch?.query,
      });
      const prefetched = prefetch && { prefetch, rows: subscribers };
      const held = new Set(ended.map(({ id }) => id));
      const valid: InvocationEnd[] = [];
      const withLost = new Set<string>();
      for (const end of fresh) {
        // Computed from an outcome that is not kept. One by one, each learns of the one before: `isStale`.
        if (withLost.has(end.sourceId)) throw new Error('an earlier run of this source was not stored');
        if (end.job === undefined || held.has(end.job.id)) valid.push(end);
        else {
          withLost.add(end.sourceId);
          results.set(end, { settled: false, reason: 'taken' });
        }
      }
      const emissions = valid.map((end) => end.emission);
      const emitted = await appendEvents(store, tx, {
        emissions,
        emitters,
        router,
        prefetched,
        allowance,
        nowMs: clock.now(),
      });
      const dbSets = new Map<string, Record<string, string>>();
      const emittedBy = new Map<InvocationEnd, number>();
      const overLimit = new Map<InvocationEnd, string>();
      valid.forEach((end, index) => {
        const result: EmissionResult | undefined = emitted[index];
        if (result === undefined || !result.accepted) {
          results.set(end, { settled: false, reason: 'removed' });
          return;
        }
        results.set(end, { settled: true, stored: result.stored });
        emittedBy.set(end, emittedCount(result.stored));
        if (result.overLimit !== undefined) overLimit.set(end, result.overLimit);
        if (Object.keys(end.dbSets).length > 0)
          dbSets.set(end.sourceId, { ...dbSets.get(end.sourceId), ...end.dbSets });
      });
      await mergeComponentDbs(store, tx, dbSets);
      const present = new Set(emitters.map(({ id }) => id));
      await outcomes.record(
        tx,
        valid.flatMap((end) => {
          const { sourceId, usage, run } = end;
          return run === undefined || !present.has(sourceId)
            ? []
            : [
                {
                  subjectId: sourceId,
                  ownerId: usage.ownerId,
                  atMs: clock.now(),
                  failure: run.failure ?? overLimit.get(end) ?? null,
                  version: run.revision,
                },
              ];
        }),
      );
      await recordTickEnds(
        store,
        tx,
        valid.flatMap(({ sourceId, run, tick }) =>
          run === undefined || tick === undefined
            ? []
            : [
                {
                  subjectId: sourceId,
                  timerId: tick.timer_id,
                  plannedMs: tick.planned_ms,
                  failure: run.failure,
                  endedAtMs: clock.now(),
                },
              ],
        ),
      );
      await addUsage(
        store,
        tx,
        valid.map((end) => ({ ...end.usage, events: emittedBy.get(end) ?? 0 })),
      );
      return ends.map((end) => results.get(end) ?? { settled: false, reason: 'stale' });
    },
  };
}

/** Returns those of the lanes that `ends` need which this node has, and keeps until the transaction ends. */
async function keepTurns(
  store: Dialect,
  tx: Tx,
  node: string,
  ends: readonly InvocationEnd[],
): Promise<Set<string>> {
  const lanes = [...new Set(ends.flatMap(({ lane }) => (lane === undefined ? [] : [lane])))];
  // The embedded store has one node.
  if (!store.isShared || lanes.length === 0) return new Set(lanes);
  const { rows } = await tx.executeQuery(keepLanesQuery(node, lanes));
  return new Set(rows.map(({ lane }) => lane));
}
