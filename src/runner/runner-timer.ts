/** The time for deadlines of calls and for the watch over processes. It is an argument, so that tests control it. */
export interface RunnerTimer {
  /** Milliseconds since an arbitrary moment. */
  nowMs(): number;
  /** Calls `callback` once after `ms`. The returned function prevents it. */
  after(ms: number, callback: () => void): () => void;
  /** Calls `callback` every `ms` until the returned function is called. Keeps no process alive. */
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
