import { Deferred } from '#lib/deferred.ts';
import type { BlockDeadline } from './block-deadline.ts';
import type { CaughtError } from './block-exports.ts';
import type { ItemPlaces } from './item-places.ts';
import type { LiveRun } from './live-run.ts';
import type { Stop } from './run.ts';

/** How the steps of a sequence ended. */
export type SequenceEnd =
  /** `last`: JSON text of the exports of its last step. */
  | { kind: 'done'; last: string }
  /** A filter left the block. */
  | { kind: 'left' }
  /** A step failed for good, and a block around it says what follows. */
  | { kind: 'failed'; error: CaughtError }
  /** The time of a block around it is over. */
  | { kind: 'expired'; deadline: BlockDeadline }
  | { kind: 'stopped'; stop: Stop };

interface Sequences {
  count: number;
  /** So many run at the same time at most. */
  limit: number;
  /** Each but one needs a place; absent: all that `limit` allows run. */
  places?: Pick<ItemPlaces, 'take' | 'leave'>;
}

/**
 * Runs sequences at the same time. As soon as one has ended the run, is parked or throws, none begins, and
 * after an end or an error the steps of the others are stopped. Their ends, in the order of their indexes, or how the run stopped.
 */
export async function together(
  live: Pick<LiveRun, 'abort' | 'deployment'>,
  { count, limit, places }: Sequences,
  run: (index: number) => Promise<SequenceEnd> | undefined,
): Promise<SequenceEnd[] | Extract<SequenceEnd, { kind: 'stopped' | 'expired' }>> {
  const ends: SequenceEnd[] = new Array(count);
  const failures: unknown[] = [];
  const allEnded = new Deferred<void>();
  let next = 0;
  let underWay = 0;
  let stop: Stop | undefined;
  let expired: BlockDeadline | undefined;
  const mayBegin = () =>
    next < count &&
    underWay < limit &&
    stop === undefined &&
    expired === undefined &&
    failures.length === 0 &&
    (underWay === 0 || places === undefined || places.take(live.deployment.id));
  const begin = () => {
    while (mayBegin()) {
      underWay += 1;
      void runNext(underWay > 1);
    }
    if (underWay === 0) allEnded.resolve();
  };
  const runNext = async (hasPlace: boolean) => {
    const index = next;
    next += 1;
    try {
      const end = (await run(index)) ?? { kind: 'left' };
      ends[index] = end;
      if (end.kind === 'expired') expired = outermost(expired, end.deadline);
      if (end.kind === 'stopped') stop = stop === 'ended' ? stop : end.stop;
    } catch (error) {
      failures.push(error);
    }
    if (stop === 'ended' || failures.length > 0) live.abort.abort();
    underWay -= 1;
    if (hasPlace) places?.leave(live.deployment.id);
    begin();
  };
  begin();
  await allEnded.promise;
  if (stop === 'ended') return { kind: 'stopped', stop };
  if (failures.length > 0) throw failures[0];
  // What waited in the block is over with it.
  if (expired !== undefined) return { kind: 'expired', deadline: expired };
  return stop === undefined ? ends : { kind: 'stopped', stop };
}

/** The outermost of nested blocks whose time is over: it ends the others. */
function outermost(known: BlockDeadline | undefined, other: BlockDeadline): BlockDeadline {
  for (let at = known; at !== undefined; at = at.outer) if (at === other) return other;
  return known ?? other;
}
