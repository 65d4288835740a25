/** Every bound of the runner, with its reason. Sizes in bytes, times in ms. */
export interface RunnerLimits {
  /** Heap of one process; the resident size may exceed it by `residentOverheadMb`. */
  memoryMb: number;
  /** Console text and lines kept of one call; more is counted and dropped. */
  logBytesMax: number;
  logLinesMax: number;
  /** Events of one call, and the bytes of their JSON together. */
  emitsMax: number;
  emitBytesMax: number;
  /** JSON of a component's db: what it had and what it writes, together. */
  dbBytesMax: number;
  /** JSON of a returned value. */
  resultBytesMax: number;
  /** JSON of a component's shape: static options can be long lists. */
  shapeBytesMax: number;
  /** JSON of the exports of a step, its returned value among them. */
  stepExportBytesMax: number;
  /** Body of one `http.respond`. */
  replyBytesMax: number;
  /** Evaluating a bundle: top-level code that spins or awaits for ever ends here. */
  loadDeadlineMs: number;
  /** From spawn to `ready`; slow disks and busy machines included. */
  bootDeadlineMs: number;
  /** A process that does not take up a call within this time is stuck in earlier code and is replaced. */
  unresponsiveMs: number;
  /** Processes alive at once, whatever they do. One that is warm has 15 MB: a hundred owners fit into the memory budget. */
  processesMax: number;
  /** Private memory of all processes together; above it, and above the share of an owner (process-shares.ts), idle ones end. */
  memoryBudgetMb: number;
  /** Generic processes kept ready, so that a first call waits 3 ms instead of 90. */
  prewarmed: number;
  /**
   * One that was not wanted for so long loads the clients of HTTP, which cost the first `fetch` 40 ms. One that is wanted sooner is one of
   * many that are started now: the machine has better to do.
   */
  prewarmAfterMs: number;
  /** At least this long between two refills: a kill storm must not take the machine from the API. */
  refillIntervalMs: number;
  /** After a process failed to start, the next one is tried this much later. */
  startRetryMs: number;
  /** Processes that start at the same time. */
  bootingMax: number;
  /** Calls that wait for a free process. */
  waitingMax: number;
  /** How long a call waits for a free process. */
  waitMs: number;
  /** Calls of one deployment in flight in its process; more are refused. */
  callsInFlightMax: number;
  /** A process is replaced after so many calls, and after so long without any: leaks stay small. */
  callsMax: number;
  idleMs: number;
  /** Bytes that wait to be read by a process that goes on asking: far beyond what a healthy one leaves. */
  hostCallBacklogBytesMax: number;
  /** Raw bytes on stdout or stderr (console output does not pass there). */
  rawOutputBytesMax: number;
  /** Files under /tmp of one process. Where they are in memory, half of `memoryMb` at most. */
  scratchBytesMax: number;
  /**
   * Connections of one process, and their limits: many deployments share it, and each runs many steps at once (workflows/runs/step-slots.ts),
   * of which a burst of events must not fail those that would do well one after another.
   */
  connectionsMax: number;
  /** Connections of all processes; absent: half of the descriptors that the service may have. */
  ownersConnectionsMax?: number;
  connectTimeoutMs: number;
  connectionIdleTimeoutMs: number;
  /** How often the resident size of running processes is read. */
  memoryPollMs: number;
}

export const defaultRunnerLimits: RunnerLimits = {
  memoryMb: 256,
  logBytesMax: 64 * 1024,
  logLinesMax: 100,
  emitsMax: 1000,
  emitBytesMax: 6 * 1024 * 1024,
  dbBytesMax: 1024 * 1024,
  resultBytesMax: 1024 * 1024,
  shapeBytesMax: 2 * 1024 * 1024,
  stepExportBytesMax: 6 * 1024 * 1024,
  replyBytesMax: 6 * 1024 * 1024,
  loadDeadlineMs: 30_000,
  bootDeadlineMs: 20_000,
  unresponsiveMs: 500,
  processesMax: 128,
  memoryBudgetMb: 2048,
  prewarmed: 2,
  prewarmAfterMs: 1_000,
  refillIntervalMs: 100,
  startRetryMs: 1000,
  bootingMax: 4,
  waitingMax: 1000,
  waitMs: 30_000,
  callsInFlightMax: 200,
  callsMax: 1_000_000,
  idleMs: 10 * 60_000,
  hostCallBacklogBytesMax: 96 * 1024 * 1024,
  rawOutputBytesMax: 4 * 1024 * 1024,
  scratchBytesMax: 512 * 1024 * 1024,
  connectionsMax: 1000,
  connectTimeoutMs: 10_000,
  connectionIdleTimeoutMs: 5 * 60_000,
  memoryPollMs: 100,
};

/** Half of what the machine has, but not less than the default: it is no more than a bound where that is smaller. */
export function memoryBudgetMbOf(machineBytes: number): number {
  return Math.max(defaultRunnerLimits.memoryBudgetMb, Math.floor(machineBytes / 2 / 1024 / 1024));
}

/** Files, folders and links under /tmp of one process. */
export const scratchFilesMax = 20_000;

/** Files in memory leave the other half of it to the code. */
export function memoryFilesBytesMax(limits: Pick<RunnerLimits, 'scratchBytesMax' | 'memoryMb'>): number {
  return Math.min(limits.scratchBytesMax, (limits.memoryMb * 1024 * 1024) / 2);
}

/** What a bare process maps (node itself, its libraries) on top of the heap it is allowed. */
export const residentOverheadMb = 96;
