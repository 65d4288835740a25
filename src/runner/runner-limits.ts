/** Every limit of the runner, with its reason. Sizes in bytes, times in ms. */
export interface RunnerLimits {
  /** Heap of one process; the resident size may exceed it by `residentOverheadMb`. */
  memoryMb: number;
  /** Console text and lines of one call that are kept. More is counted and dropped. */
  logBytesMax: number;
  logLinesMax: number;
  /** Events of one call, and the total size of their JSON. */
  emitsMax: number;
  emitBytesMax: number;
  /** JSON of a component's db: the stored entries and the new ones together. */
  dbBytesMax: number;
  /** Keys of a component's db. All of them are read and written together, in the loop that serves everyone: 60,000 took half a second. */
  dbKeysMax: number;
  /** JSON of a returned value. */
  resultBytesMax: number;
  /** JSON of a component's shape: static options can be long lists. */
  shapeBytesMax: number;
  /** JSON of the exports of a step, including its returned value. */
  stepExportBytesMax: number;
  /** Body of one `http.respond`. */
  replyBytesMax: number;
  /** Deadline for evaluating a bundle, which ends top-level code that spins or awaits forever. */
  loadDeadlineMs: number;
  /** Deadline from spawn to `ready`, long enough for slow disks and busy machines. */
  bootDeadlineMs: number;
  /** A process that does not begin a call within this time is blocked by earlier code, and is replaced. */
  unresponsiveMs: number;
  /** Running processes. A warm one has 15 MB, so a hundred owners fit into the memory budget. */
  processesMax: number;
  /** Private memory of all processes together. Above it, and above the share of an owner (process-shares.ts), idle processes end. */
  memoryBudgetMb: number;
  /** Generic processes kept ready, so that a first call waits 3 ms instead of 90. */
  prewarmed: number;
  /** The same before the first call: a service without code holds the memory of one. */
  prewarmedUnused: number;
  /** Processes that were started for owners who were expected, and have not come, end after this time. */
  surplusKeptMs: number;
  /**
   * A process that no call needs for this long loads the HTTP clients, which cost the first `fetch` 40 ms. A process that is needed sooner is one
   * of many that start now, and the machine has no time for this.
   */
  prewarmAfterMs: number;
  /** Minimum time between two refills, so that many kills in a row do not take the machine from the API. */
  refillIntervalMs: number;
  /** Time until the next try after a process failed to start. */
  startRetryMs: number;
  /** Processes that start at the same time. */
  bootingMax: number;
  /** Calls that wait for a free process. */
  waitingMax: number;
  /** How long a call waits for a free process. */
  waitMs: number;
  /** Calls of one deployment in flight in its process. Further ones are refused. */
  callsInFlightMax: number;
  /** A process is replaced after this many calls, and after this idle time, so that leaks stay small. */
  callsMax: number;
  idleMs: number;
  /** Bytes that a process has not read while it makes further host calls, far more than a healthy process leaves. */
  hostCallBacklogBytesMax: number;
  /** Raw bytes on stdout or stderr. Console output does not pass there. */
  rawOutputBytesMax: number;
  /** Files under /tmp of one process. Where they are in memory, at most half of `memoryMb`. */
  scratchBytesMax: number;
  /**
   * Connections of one process, and their limits. Many deployments share it, and each runs many steps at a time
   * (workflows/runs/step-slots.ts). A burst of events must not fail runs that would succeed one after another.
   */
  connectionsMax: number;
  /** Connections of all processes. Absent: half of the descriptors that the service may have. */
  ownersConnectionsMax?: number;
  connectTimeoutMs: number;
  connectionIdleTimeoutMs: number;
  /** Interval at which the resident size of running processes is read. */
  memoryPollMs: number;
}

export const defaultRunnerLimits: RunnerLimits = {
  memoryMb: 256,
  logBytesMax: 64 * 1024,
  logLinesMax: 100,
  emitsMax: 1000,
  emitBytesMax: 6 * 1024 * 1024,
  dbBytesMax: 1024 * 1024,
  dbKeysMax: 10_000,
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
  prewarmedUnused: 1,
  surplusKeptMs: 30_000,
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

/** Half of the machine's memory, at least the default. On a smaller machine it is only an upper limit. */
export function memoryBudgetMbOf(machineBytes: number): number {
  return Math.max(defaultRunnerLimits.memoryBudgetMb, Math.floor(machineBytes / 2 / 1024 / 1024));
}

/** Files, folders and links under /tmp of one process. */
export const scratchFilesMax = 20_000;

/** Maximum size of files in memory, which leave half of the memory to the code. */
export function memoryFilesBytesMax(limits: Pick<RunnerLimits, 'scratchBytesMax' | 'memoryMb'>): number {
  return Math.min(limits.scratchBytesMax, (limits.memoryMb * 1024 * 1024) / 2);
}

/** Memory that a process without user code maps (Node and its libraries) in addition to its heap limit. */
export const residentOverheadMb = 96;
