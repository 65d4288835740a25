import { BacklogLimiter } from '#lib/backlog-limiter.ts';
import type { Clock } from '#lib/clock.ts';
import type { Store } from '#storage/store.ts';
import { countEventRuns, type EventRuns } from '#workflows/runs/run-backlog-store.ts';

/** Maximum size of the events whose runs of one workflow wait. Without it, one emitter could fill the disk. */
const queuedBytesMax = 256 * 1024 * 1024;

/** A run that may be queued. */
export interface QueuePlace {
  /** Its row is in the store, or will not be written. */
  settled(): void;
}

/** A run to be queued, and the limits of its workflow. */
export interface QueueRequest {
  /** Size of its event. */
  bytes: number;
  /** Runs that may wait. */
  queueSize: number;
  /** Runs that may run at the same time. While fewer do, that many more may be queued, because they begin immediately. */
  concurrency: number;
}

/**
 * How many runs of each workflow wait. The cached count is an upper bound, because runs that have begun since still count. So
 * no run is refused before the store was counted again.
 */
export class QueuedRuns {
  readonly #limiter: BacklogLimiter<QueueRequest, EventRuns>;

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
      recountsBeforeRefusal: true,
      tracksUnstored: true,
      nowMs: () => clock.now(),
    });
  }

  /** A place for one more run; undefined when as many as may, or too many bytes, wait already. */
  async admit(workflowId: string, request: QueueRequest): Promise<QueuePlace | undefined> {
    if (!(await this.#limiter.admit(workflowId, request))) return undefined;
    let isSettled = false;
    return {
      settled: () => {
        if (isSettled) return;
        isSettled = true;
        this.#limiter.settled(workflowId, request);
      },
    };
  }
}
