import type { JobPayloads } from '#jobs/job-kinds.ts';
import type { JobHandler } from '#jobs/job-registry.ts';
import { deleteJobsFor, insertJobs, jobRow, type LeasedJob, settleJobs } from '#jobs/job-store.ts';
import { CallerError } from '#lib/errors.ts';
import { newTimeOrderedId } from '#lib/ids.ts';
import type { RemovalTurns } from '#storage/removal-turns.ts';
import type { Store, Tx } from '#storage/store.ts';
import { channels } from './event.ts';
import { compareEventIds, formatEventId, parseEventId } from './event-id.ts';
import { removedNotice } from './event-notice.ts';
import { deleteEmitter, deleteEventRange, lastEventId, pruneChannel } from './event-store.ts';

/** Events deleted in one transaction: the store's writer is never held for long. */
const batchRows = 200;
/** Jobs deleted in one transaction: 200 take a millisecond. Each that is left until the next one may be begun for nothing. */
const batchJobs = 2000;
/** Events that go in the transaction that removes their emitter; few channels ever hold more. */
const removedWithEmitter = 1000;

const noEvent = { ms: 0, seq: 0 };

/**
 * Accepts the deletion of a range of events (specification, section 4, rules 1 to 5): durable when it resolves, done
 * soon after, also across a crash. Throws `invalid_event_id` or `invalid_range` naming the parameter.
 */
export async function requestEventDeletion(
  store: Store,
  range: { emitterId: string; ownerId: string; channel: string; startId?: string; endId?: string },
  nowMs: number,
): Promise<void> {
  const start = range.startId === undefined ? undefined : parseEventId(range.startId, 'start_id');
  const end = range.endId === undefined ? undefined : parseEventId(range.endId, 'end_id');
  if (start !== undefined && end !== undefined && compareEventIds(start, end) > 0) {
    throw new CallerError('invalid_range', 'start_id: expected an event not later than end_id', {
      parameter: 'start_id',
    });
  }
  await store.transaction(async (tx) => {
    // What is emitted after the request was accepted stays: an open range ends at the newest event there is. The
    // clock is no substitute: after a step back, ids run ahead of it.
    const newest = end ?? (await lastEventId(tx, range.emitterId)) ?? noEvent;
    const payload: JobPayloads['delete_events'] = {
      emitter_id: range.emitterId,
      channel: range.channel,
      ...(start === undefined ? {} : { start: formatEventId(start) }),
      end: formatEventId(newest),
    };
    const job = jobRow({
      id: newTimeOrderedId(nowMs),
      kind: 'delete_events',
      ownerId: range.ownerId,
      payload,
      runAtMs: nowMs,
      nowMs,
    });
    await insertJobs(tx, [job]);
    await store.notify(tx, 'millrace_jobs', '');
  });
}

/**
 * Removes an emitter with its events, and the jobs that wait for it, in the transaction that removes what emitted them: the first batch
 * immediately, what is left by a job of that transaction, so that no crash leaves rows without an owner.
 */
export async function removeEmitter(
  store: Pick<Store, 'notify'>,
  tx: Tx,
  emitter: { id: string; ownerId: string },
  nowMs: number,
): Promise<void> {
  await store.notify(tx, 'millrace_events', removedNotice(emitter.id));
  const hasNoJobs = await deleteJobsFor(tx, emitter.id, batchJobs);
  if ((await deleteEmitter(tx, emitter.id, removedWithEmitter)) && hasNoJobs) return;
  const job = jobRow({
    id: newTimeOrderedId(nowMs),
    kind: 'delete_events',
    ownerId: emitter.ownerId,
    payload: { emitter_id: emitter.id },
    runAtMs: nowMs,
    nowMs,
  });
  await insertJobs(tx, [job]);
  await store.notify(tx, 'millrace_jobs', '');
}

/** Carries out an accepted deletion, batch by batch; the job ends with the last one, so after a crash it continues where it stopped. */
export function deleteEventsHandler(options: {
  store: Store;
  removals: RemovalTurns;
  node: string;
}): JobHandler {
  const { store, removals, node } = options;
  return {
    async run(job: LeasedJob, signal: AbortSignal) {
      const { emitter_id, channel, start, end } = job.payload as JobPayloads['delete_events'];
      for (let done = false; !done; ) {
        done = await removals.transaction(signal, async (tx) => {
          if (channel === undefined) {
            if (!(await deleteJobsFor(tx, emitter_id, batchJobs))) return false;
            if (!(await deleteEmitter(tx, emitter_id, batchRows))) return false;
            await settleJobs(store, tx, { node, jobs: [job] });
            return true;
          }
          // What pruning has not come to yet is gone for every reader; without newer ones above it, it would be back.
          if (channel !== channels.scheduled) {
            const pruned = await pruneChannel(tx, { emitterId: emitter_id, channel, limit: batchRows });
            if (pruned >= batchRows) return false;
          }
          const deleted = await deleteEventRange(tx, {
            emitterId: emitter_id,
            channel,
            ...(start === undefined ? {} : { start: parseEventId(start, 'start_id') }),
            ...(end === undefined ? {} : { end: parseEventId(end, 'end_id') }),
            limit: batchRows,
          });
          if (deleted >= batchRows) return false;
          await settleJobs(store, tx, { node, jobs: [job] });
          return true;
        });
      }
      await store.reclaimSpace();
    },
    async quarantined() {},
  };
}
