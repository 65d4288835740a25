import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, existsSync, openSync } from 'node:fs';
import type { Socket } from 'node:net';
import { constants } from 'node:os';
import type { SandboxGrant } from './confinement.ts';
import { insidePaths, kernelCommand, packagesInside } from './kernel-command.ts';
import { nodeCommand } from './node-command.ts';
import { childrenOf } from './process-memory.ts';

export interface SpawnedSandbox {
  /** What was started: the process that runs user code, or bubblewrap, which started that one. */
  child: ChildProcess;
  rpc: Socket;
  egress: Socket;
  /** Answers to what the process waits for: files of packages. */
  files: Socket;
  /** Where the process finds its own folder and folders of packages. */
  scratchInside: string | undefined;
  packagesInside: (folder: string) => string;
  /** Whether a folder of packages was there when the process was started, or may still come. */
  mayRead: (packagesFolder: string) => boolean;
  /** How the process ended that runs user code, by how what was started did. */
  endOf: (code: number | null, signal: NodeJS.Signals | null) => SandboxEnd;
  /**
   * Ends what was started, whatever it is doing, and with it what it has started before it could tie that to its own life: the child of
   * bubblewrap waits for its parent at first, and would for ever. Only SIGKILL: user code can ignore every other signal.
   */
  kill: () => void;
  /** To be asked when the program has said that it runs. Undefined: it has ended since. */
  findPids: () => SandboxPids | undefined;
}

interface SandboxEnd {
  code: number | null;
  signal: NodeJS.Signals | null;
}

export interface SandboxPids {
  /** The process that runs user code. */
  node: number;
  /** The first process of its PID namespace: when it is gone, all others are. */
  init?: number;
}

/**
 * Flags, environment, descriptors, user and folder of a sandboxed process: this function is the whole answer to
 * what user code can touch, with the two commands that it chooses from.
 */
export function spawnSandbox(grant: SandboxGrant): SpawnedSandbox {
  const { kernel } = grant;
  const packages = kernel === undefined ? undefined : grant.packages?.filter((folder) => existsSync(folder));
  const [command, args] = kernel === undefined ? nodeCommand(grant) : kernelCommand(grant, kernel);
  // Opened for each: bubblewrap reads it from where the last one stopped.
  const filter = kernel === undefined ? undefined : openSync(kernel.filter, 'r');
  let child: ChildProcess;
  try {
    child = spawn(command, args, {
      // Not the terminal's process group: Ctrl-C must let the service end its calls in order.
      detached: true,
      cwd: '/',
      // Credentials come with calls; the service's environment holds secrets.
      env: { TZ: 'UTC' },
      // 0 nothing, 1-2 watched for floods, 3 rpc, 4 egress, 5 files of packages, 6 read by bubblewrap.
      stdio: [
        'ignore',
        'pipe',
        'pipe',
        'pipe',
        'pipe',
        'pipe',
        ...(filter === undefined ? [] : ([filter] as const)),
      ],
      ...(grant.uid === undefined ? {} : { uid: grant.uid, gid: grant.uid }),
    });
  } finally {
    if (filter !== undefined) closeSync(filter);
  }
  // Without descriptors left node makes no streams, and tells why later.
  const [, , , rpc, egress, files] = (child.stdio ?? []) as unknown[];
  if (rpc == null || egress == null || files == null) {
    child.on('error', () => undefined);
    child.kill('SIGKILL');
    throw new Error('a process could not be started: no descriptors are left');
  }
  const isKernel = kernel !== undefined;
  return {
    ...{ child, rpc: rpc as Socket, egress: egress as Socket, files: files as Socket },
    scratchInside: isKernel ? insidePaths.tmp : grant.scratch,
    packagesInside: isKernel ? packagesInside : (folder) => folder,
    mayRead: (folder) => packages === undefined || packages.includes(folder),
    endOf: (code, signal) => (isKernel ? endInside(code, signal) : { code, signal }),
    kill: () => killGroup(child),
    findPids: () => findPids(child.pid, isKernel),
  };
}

/** A child that has not been waited for keeps its number, and its group, to itself. */
function killGroup(child: ChildProcess): void {
  child.kill('SIGKILL');
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  try {
    process.kill(-child.pid, 'SIGKILL');
  } catch {
    // Gone in between.
  }
}

/** Bubblewrap ends with 128 and the number of the signal that ended what it started. */
function endInside(code: number | null, signal: NodeJS.Signals | null): SandboxEnd {
  const [name] = Object.entries(constants.signals).find(([, number]) => number + 128 === code) ?? [];
  return name === undefined ? { code, signal } : { code: null, signal: name as NodeJS.Signals };
}

/** Bubblewrap has one child, which is the first of the PID namespace and has Node as its only child. */
function findPids(pid: number | undefined, isKernel: boolean): SandboxPids | undefined {
  if (pid === undefined) return undefined;
  if (!isKernel) return { node: pid };
  const [init] = childrenOf(pid);
  const [node] = init === undefined ? [] : childrenOf(init);
  return init === undefined || node === undefined ? undefined : { node, init };
}
