/** Notices of runs that have not begun here which are kept; most are about runs of other nodes. */
const earlyMax = 1_000;

/**
 * Runs under flow control, which a later event may replace. The notice may come before the run begins, because its job was taken a moment
 * earlier: without it the run would hold its source until its deadline.
 */
export class ReplaceableRuns {
  readonly #running = new Map<string, AbortController>();
  /** The oldest first. */
  readonly #early = new Set<string>();

  /** The signal aborts when the run is replaced. Call `end` when the run has ended. */
  begin(jobId: string): AbortSignal {
    const controller = new AbortController();
    if (this.#early.delete(jobId)) controller.abort();
    this.#running.set(jobId, controller);
    return controller.signal;
  }

  end(jobId: string): void {
    this.#running.delete(jobId);
  }

  replace(jobId: string): void {
    const controller = this.#running.get(jobId);
    if (controller !== undefined) {
      controller.abort();
      return;
    }
    this.#early.add(jobId);
    const [oldest] = this.#early;
    if (this.#early.size > earlyMax && oldest !== undefined) this.#early.delete(oldest);
  }
}
