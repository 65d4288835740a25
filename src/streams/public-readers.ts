import type { ServerResponse } from 'node:http';
import { type Clock, epochSeconds } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';

/** When one of the readers may be gone. */
const busySeconds = 5;

/** Readers of the streams that need no key, in this process: bounded for each workflow, and for all of them. */
export class PublicReaders {
  readonly #clock: Clock;
  readonly #perWorkflowMax: number;
  readonly #max: number;
  readonly #open = new Map<string, number>();
  #all = 0;

  constructor(options: { clock: Clock; perWorkflowMax?: number; max?: number }) {
    this.#clock = options.clock;
    this.#perWorkflowMax = options.perWorkflowMax ?? 1_000;
    this.#max = options.max ?? 10_000;
  }

  /** Throws CallerError `streams_busy` (429) when there is no room for one more reader of this workflow. */
  check(workflowId: string): void {
    if ((this.#open.get(workflowId) ?? 0) >= this.#perWorkflowMax)
      throw this.#busy('of this workflow', this.#perWorkflowMax);
    if (this.#all >= this.#max) throw this.#busy('of all workflows', this.#max);
  }

  /** Counts a reader until its connection closes. */
  take(workflowId: string, response: ServerResponse): void {
    // Its `close` event was emitted already.
    if (response.destroyed) return;
    this.#open.set(workflowId, (this.#open.get(workflowId) ?? 0) + 1);
    this.#all += 1;
    response.once('close', () => {
      const left = (this.#open.get(workflowId) ?? 1) - 1;
      if (left === 0) this.#open.delete(workflowId);
      else this.#open.set(workflowId, left);
      this.#all -= 1;
    });
  }

  #busy(of: string, limit: number): CallerError {
    return new CallerError(
      'streams_busy',
      `too many readers ${of} have live streams open here: found ${limit}, expected fewer; try again`,
      { limit, retry_after: busySeconds, reset_at: epochSeconds(this.#clock.now()) + busySeconds },
    );
  }
}
