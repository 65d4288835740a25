import type { StoredEvent } from '#events/event.ts';
import type { Dialect } from '#storage/dialect.ts';
import type { Store, Tx } from '#storage/store.ts';
import type { FlowQueueTable } from '#storage/tables/flow-tables.ts';
import type { AppliedFlowControl } from './flow-control.ts';
import { wakeBlocked, wakeGroupsOf } from './flow-group-store.ts';
import type { FlowSubject, FlowTarget, QueueOwner, UnbegunEnd } from './flow-target.ts';

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
  /** Undefined: the workflow or source is gone. */
  ownerId: string | undefined;
  /** How long it has held the store, ms. */
  ms: number;
}

/** One pass over the queue of a workflow or source, in one transaction that has the row of the queue locked. */
export interface QueuePass {
  readonly store: Dialect & Pick<Store, 'transaction' | 'notify' | 'defer'>;
  readonly tx: Tx;
  /** The id of the workflow or source. */
  readonly id: string;
  readonly target: FlowTarget;
  readonly subject: FlowSubject;
  readonly flow: AppliedFlowControl;
  /** Changed by the pass, and stored at its end. */
  readonly queue: FlowQueueTable;
  /** Read after the wait for the lock: what another node let begin meanwhile is not in the future. */
  readonly nowMs: number;
  readonly result: PassResult;
  /** Runs that end without having begun, recorded together. */
  readonly ends: UnbegunEnd[];
}

/** Groups that wait for a place of these concurrency keys are looked at in this pass. */
export async function wakeFor(pass: QueuePass, places: ReadonlyMap<string, number>): Promise<void> {
  if (!hasCrossKeys(pass)) return wakeGroupsOf(pass.tx, pass.id, [...places.keys()], pass.nowMs);
  for (const [key, count] of places)
    await wakeBlocked(pass.tx, pass.id, { key, places: count, nowMs: pass.nowMs });
}

/** True when runs with one concurrency key may have different throttle keys. */
export function hasCrossKeys(pass: QueuePass): boolean {
  const { concurrency, throttle } = pass.flow;
  return throttle !== undefined && concurrency !== undefined && throttle.key !== concurrency.key;
}

export function ownerOf({ id, subject }: QueuePass): QueueOwner {
  return { id, ownerId: subject.ownerId };
}
