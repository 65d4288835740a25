/** What the service and its launcher say to each other. */

/** Everything that a started process gets from outside. Nothing else of the launcher reaches it. */
export interface LaunchRequest {
  command: string;
  args: readonly string[];
  cwd: string;
  env: Readonly<Record<string, string>>;
  /** User and group of the process; absent: those of the service. */
  uid?: number;
  /** A file that it finds open, as the descriptor that follows those of `launchedStreams`. */
  openFile?: string;
}

/** Descriptors from 1 on that are connected to the service. Descriptor 0 reads nothing. */
export const launchedStreams = ['stdout', 'stderr', 'rpc', 'egress', 'files'] as const;
export type LaunchedStream = (typeof launchedStreams)[number];

/** Bytes with which a stream says whose it is, before the process writes to it. */
export const streamKeyBytes = 32;

/** `address`: the socket to connect the streams to, with the key that each begins with. */
export type ToLauncher =
  | { id: number; launch: LaunchRequest; address: string; keys: Readonly<Record<LaunchedStream, string>> }
  | { id: number; kill: true };

/** `error`: nothing was started. */
export type FromLauncher =
  | { id: number; pid: number }
  | { id: number; error: string }
  | { id: number; end: ProcessExit };

export interface ProcessExit {
  code: number | null;
  signal: NodeJS.Signals | null;
}
