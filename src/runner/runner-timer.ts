/** The time that deadlines of calls and the watch over processes go by: an argument, so that tests decide when it passes. */
export interface RunnerTimer {
  /** Milliseconds since some moment. */
  nowMs(): number;
  /** Calls `callback` once after `ms`; the returned function prevents it. */
  after(ms: number, callback: () => void): () => void;
  /** Calls `callback` every `ms` until the returned function is called; keeps no process alive. */
  every(ms: number, callback: () => void): () => void;
}

export const systemTimer: RunnerTimer = {
  nowMs: () => performance.now(),
  after: (ms, callback) => {
    const timer = setTimeout(callback, ms);
    return () => clearTimeout(timer);
  },
  every: (ms, callback) => {
    const timer = setInterval(callback, ms);
    timer.unref();
    return () => clearInterval(timer);
  },
};
