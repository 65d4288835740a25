import type { RawBuilder } from 'kysely';
import type { StoredEvent } from '#events/event.ts';
import type { Tx } from '#storage/store.ts';
import type { FlowRunTable } from '#storage/tables/flow-tables.ts';

/** A workflow or a source, as its queue needs to know it. */
export interface FlowSubject {
  ownerId: string;
  /** As `parseFlowControl` reads it; null: runs begin at once. */
  flowControl: string | null;
  /** The lane in which runs that may begin are claimed. */
  lane: string;
  /** Maximum of its runs under way over all nodes, whatever their keys; absent: any number. */
  placesMax?: number;
}

/** The workflow or source that has the queue. */
export interface QueueOwner {
  id: string;
  ownerId: string;
}

export interface MergedRuns {
  /** The run that has the events of all; undefined: all of them were ended by users. */
  leaderId: string | undefined;
  /** The runs whose events are in it, its own included. */
  mergedIds: string[];
  bytes: number;
}

/** A run that is not to begin, or not to continue, and why. */
export interface UnbegunEnd {
  runId: string;
  reason: string;
}

/**
 * What flow control does with the runs that it holds back. The runs of workflows are rows of their own; those of sources are their jobs
 * and nothing else.
 */
export interface FlowTarget {
  /** Undefined: it was removed. */
  find(tx: Tx, id: string): Promise<FlowSubject | undefined>;
  /** True for a row of `flow_runs` whose run has not ended. */
  readonly isUnfinished: RawBuilder<boolean>;
  /** Makes one run of several that have not begun: the first gets the events of all, in the order of arrival. */
  merge(tx: Tx, rows: readonly Pick<FlowRunTable, 'run_id'>[], options: { key: string }): Promise<MergedRuns>;
  /** Keeps what is wrong with the keys of a run, whose row of the queue goes when it has ended. */
  keepWarning(tx: Tx, runId: string, warning: string): Promise<void>;
  /** Keeps the reason of each run that never begins, where a user can read it. */
  keepUnbegun(tx: Tx, subject: QueueOwner, ends: readonly UnbegunEnd[], nowMs: number): Promise<void>;
  /** Ends a run that has begun, or may begin at any moment on some node. Undefined: it had ended. */
  cancel(tx: Tx, subject: QueueOwner, end: UnbegunEnd): Promise<{ stored: StoredEvent[] } | undefined>;
}

/** The events of a batch, as the event of one run; `events` are JSON texts. */
export function batchEvent(events: readonly string[], key: string): string {
  return `{"events":[${events.join(',')}],"batch":${JSON.stringify({ count: events.length, key })}}`;
}
