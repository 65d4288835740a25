import type { Clock } from '#lib/clock.ts';
import type { Store } from '#storage/store.ts';
import { countEventRuns, type RunAmounts } from './queued-run-store.ts';

/** Events of runs of one workflow that wait for their turn: whoever emits could fill the disk of all others. */
const queuedBytesMax = 256 * 1024 * 1024;
/** How long a count from the store is believed while it says that there is room, or longer when it was long. */
const countedMs = 1_000;
const countedMsPerRun = 0.1;

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

interface Queue {
  /** Admitted, and not known to be in the store yet. */
  onItsWay: Pick<RunAmounts, 'queued' | 'bytes'>;
  /** What was counted, and everything admitted since. */
  believed?: { amounts: RunAmounts; fromMs: number; untilMs: number };
  counting?: Promise<RunAmounts>;
}

/**
 * How many runs of each workflow wait for their turn. What is believed errs on the full side: runs that have begun since
 * the count still count. So nothing is refused before the store was asked anew.
 */
export class QueuedRuns {
  readonly #store: Pick<Store, 'read'>;
  readonly #clock: Clock;
  readonly #bytesMax: number;
  readonly #queues = new Map<string, Queue>();

  constructor(options: { store: Pick<Store, 'read'>; clock: Clock; bytesMax?: number }) {
    this.#store = options.store;
    this.#clock = options.clock;
    this.#bytesMax = options.bytesMax ?? queuedBytesMax;
  }

  /** A place for one more run; undefined when as many as may, or too many bytes, wait already. */
  async admit(workflowId: string, wish: QueueWish): Promise<QueuePlace | undefined> {
    const queue = this.#queueOf(workflowId);
    let amounts = this.#believed(queue);
    if (amounts === undefined || !this.#hasRoom(amounts, wish))
      amounts = await this.#count(workflowId, queue, wish.queueSize + wish.concurrency);
    if (!this.#hasRoom(amounts, wish)) return undefined;
    amounts.queued += 1;
    amounts.bytes += wish.bytes;
    queue.onItsWay.queued += 1;
    queue.onItsWay.bytes += wish.bytes;
    let isSettled = false;
    return {
      settled() {
        if (isSettled) return;
        isSettled = true;
        queue.onItsWay.queued -= 1;
        queue.onItsWay.bytes -= wish.bytes;
      },
    };
  }

  #queueOf(workflowId: string): Queue {
    const known = this.#queues.get(workflowId);
    if (known !== undefined) return known;
    for (const [id, queue] of this.#queues) if (this.#isIdle(queue)) this.#queues.delete(id);
    const queue: Queue = { onItsWay: { queued: 0, bytes: 0 } };
    this.#queues.set(workflowId, queue);
    return queue;
  }

  #isIdle(queue: Queue): boolean {
    return queue.onItsWay.queued === 0 && queue.counting === undefined && this.#believed(queue) === undefined;
  }

  #believed({ believed }: Queue): RunAmounts | undefined {
    const nowMs = this.#clock.now();
    // Not for ever when the clock steps back.
    return believed !== undefined && believed.fromMs <= nowMs && nowMs < believed.untilMs
      ? believed.amounts
      : undefined;
  }

  /** Those that come while the store counts wait for that count, instead of each asking for its own. */
  #count(workflowId: string, queue: Queue, limit: number): Promise<RunAmounts> {
    queue.counting ??= this.#ask(workflowId, queue, limit).finally(() => {
      delete queue.counting;
    });
    return queue.counting;
  }

  async #ask(workflowId: string, queue: Queue, limit: number): Promise<RunAmounts> {
    const fromMs = this.#clock.now();
    const { queued, bytes } = queue.onItsWay;
    const stored = await countEventRuns(this.#store.read, workflowId, limit);
    const amounts = { queued: stored.queued + queued, bytes: stored.bytes + bytes, running: stored.running };
    const untilMs = fromMs + Math.max(countedMs, stored.queued * countedMsPerRun);
    queue.believed = { amounts, fromMs, untilMs };
    return amounts;
  }

  /** An event that is too large by itself is taken when nothing waits. */
  #hasRoom({ queued, bytes, running }: RunAmounts, wish: QueueWish): boolean {
    const free = Math.max(0, wish.concurrency - running);
    const hasBytes = bytes === 0 || bytes + wish.bytes <= this.#bytesMax;
    return queued < wish.queueSize + free && hasBytes;
  }
}
