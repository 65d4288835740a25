/** Messages between the service and its launcher. */

/** Everything that a started process gets from outside. Nothing else of the launcher reaches it. */
export interface LaunchRequest {
  command: string;
  args: readonly string[];
  cwd: string;
  env: Readonly<Record<string, string>>;
  /** User and group ID of the process. Absent: those of the service. */
  uid?: number;
  /** Niceness of the process and of its session from its start. */
  niceness: number;
  /** `cgroup.procs` of the control group that the process joins. */
  groupFile?: string;
  /** A file that the process finds open, as the descriptor after those of `launchedStreams`. */
  openFile?: string;
}

/** Descriptors from 1 on that are connected to the service. Descriptor 0 reads nothing. */
export const launchedStreams = ['stdout', 'stderr', 'rpc', 'egress', 'files'] as const;
export type LaunchedStream = (typeof launchedStreams)[number];

/** Length of the key that a stream begins with, before the process writes to it. The key identifies the stream. */
export const streamKeyBytes = 32;

/** `address` is the socket to which the streams connect, each beginning with its key. */
export type ToLauncher =
  | { id: number; launch: LaunchRequest; address: string; keys: Readonly<Record<LaunchedStream, string>> }
  | { id: number; kill: true };

/** `error` means that nothing was started. */
export type FromLauncher =
  | { id: number; pid: number }
  | { id: number; error: string }
  | { id: number; end: ProcessExit };

export interface ProcessExit {
  code: number | null;
  signal: NodeJS.Signals | null;
}
