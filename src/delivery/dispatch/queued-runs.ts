import { BacklogLimiter } from '#lib/backlog-limiter.ts';
import type { Clock } from '#lib/clock.ts';
import type { Store } from '#storage/store.ts';
import { countEventRuns, type EventRuns } from '#workflows/runs/run-backlog-store.ts';

/** Events of runs of one workflow that wait for their turn: whoever emits could fill the disk of all others. */
const queuedBytesMax = 256 * 1024 * 1024;

/** A run that may be queued. */
export interface QueuePlace {
  /** Its row is in the store, or will not come there. */
  settled(): void;
}

/** One run that wants to be queued, and what its workflow allows. */
export interface QueueWish {
  /** Of its event. */
  bytes: number;
  /** Runs that may wait. */
  queueSize: number;
  /** Runs that may go on at once: while fewer do, as many more may be queued, because they will begin now. */
  concurrency: number;
}

/**
 * How many runs of each workflow wait for their turn. What is believed errs on the full side: runs that have begun since
 * the count still count. So nothing is refused before the store was asked anew.
 */
export class QueuedRuns {
  readonly #limiter: BacklogLimiter<QueueWish, EventRuns>;

  constructor(options: { store: Pick<Store, 'read'>; clock: Clock; bytesMax?: number }) {
    const { store, clock, bytesMax = queuedBytesMax } = options;
    this.#limiter = new BacklogLimiter({
      bytesOf: ({ bytes }) => bytes,
      countStored: (workflowId, { queueSize, concurrency }) =>
        countEventRuns(store.read, workflowId, queueSize + concurrency),
      nothing: () => ({ count: 0, bytes: 0, running: 0 }),
      // An event that is too large by itself is taken when nothing waits.
      hasRoom: ({ count, bytes, running }, run) =>
        count < run.queueSize + Math.max(0, run.concurrency - running) &&
        (bytes === 0 || bytes + run.bytes <= bytesMax),
      asksBeforeRefusal: true,
      tracksArrival: true,
      nowMs: () => clock.now(),
    });
  }

  /** A place for one more run; undefined when as many as may, or too many bytes, wait already. */
  async admit(workflowId: string, wish: QueueWish): Promise<QueuePlace | undefined> {
    if (!(await this.#limiter.admit(workflowId, wish))) return undefined;
    let isSettled = false;
    return {
      settled: () => {
        if (isSettled) return;
        isSettled = true;
        this.#limiter.arrived(workflowId, wish);
      },
    };
  }
}
