import { type ChildProcess, spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import type { SandboxGrant } from './confinement.ts';
import { nodeCommand } from './node-command.ts';

export interface SpawnedSandbox {
  child: ChildProcess;
  rpc: Socket;
  egress: Socket;
  /** Answers to what the process waits for: files of packages. */
  files: Socket;
}

/**
 * Flags, environment, descriptors, user and folder of a sandboxed process: this function is the whole answer to
 * what user code can touch. The kernel level wraps the same command here.
 */
export function spawnSandbox(grant: SandboxGrant): SpawnedSandbox {
  const [command, args] = nodeCommand(grant);
  const child = spawn(command, args, {
    // Not the terminal's process group: Ctrl-C must let the service end its calls in order.
    detached: true,
    cwd: '/',
    // Credentials come with calls; the service's environment holds secrets.
    env: { TZ: 'UTC' },
    // 0 nothing, 1-2 watched for floods, 3 rpc, 4 egress, 5 files of packages.
    stdio: ['ignore', 'pipe', 'pipe', 'pipe', 'pipe', 'pipe'],
    ...(grant.uid === undefined ? {} : { uid: grant.uid, gid: grant.uid }),
  });
  // Without descriptors left node makes no streams, and tells why later.
  const [, , , rpc, egress, files] = (child.stdio ?? []) as unknown[];
  if (rpc == null || egress == null || files == null) {
    child.on('error', () => undefined);
    child.kill('SIGKILL');
    throw new Error('a process could not be started: no descriptors are left');
  }
  return { child, rpc: rpc as Socket, egress: egress as Socket, files: files as Socket };
}
