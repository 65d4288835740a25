/**
 * The program of the launcher: starts processes for the service and reports how they end. To start a process, the system copies the memory
 * map of the caller, which is blocked meanwhile: under load 3 ms for this small process, 30 ms and more for a service of 250 MB. The
 * launcher ends with the service, and then kills the processes that it has started.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { dirname } from 'node:path';
import { tryCpuPriority } from './cpu-priority.ts';
import {
  type FromLauncher,
  type LaunchRequest,
  launchedStreams,
  type ToLauncher,
} from './launch-messages.ts';

const running = new Map<number, ChildProcess>();

// The service decides when the launcher ends; a terminal sends these signals to all its processes.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined);

/** The folder of the socket to which the streams connected last. A service that was killed does not remove it. */
let folder: string | undefined;

// Afterwards only the children keep this process alive, and they are killed here.
process.on('disconnect', () => {
  for (const child of running.values()) killGroup(child);
  if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
});

process.on('message', async (message: ToLauncher) => {
  const { id } = message;
  if ('kill' in message) {
    const child = running.get(id);
    if (child !== undefined) killGroup(child);
    return;
  }
  const { address, keys, launch } = message;
  folder = dirname(address);
  const streams = launchedStreams.map(() => connect({ path: address }));
  try {
    await Promise.all(launchedStreams.map((name, index) => introduce(streams[index], keys[name])));
    if (!process.connected) throw new Error('the service is gone');
    start(id, launch, streams);
  } catch (error) {
    tell({ id, error: (error as Error).message });
  } finally {
    // The process keeps its own copies of the streams.
    for (const stream of streams) stream.destroy();
  }
});

/** Sends the key that identifies a stream. Everything in the other direction is for the process alone. */
async function introduce(stream: Socket | undefined, key: string): Promise<void> {
  if (stream === undefined) return;
  stream.on('error', () => undefined);
  stream.pause();
  await once(stream, 'connect');
  await new Promise<void>((resolve, reject) =>
    stream.write(key, (error) => (error == null ? resolve() : reject(error))),
  );
  // The process reads and writes some of them synchronously. Node offers a blocking mode only for its own streams.
  const { _handle: handle } = stream as Socket & { _handle: { setBlocking(is: boolean): void } };
  handle.setBlocking(true);
}

function start(id: number, request: LaunchRequest, streams: readonly Socket[]): void {
  const { command, args, cwd, env, uid, niceness, groupFile, openFile } = request;
  // The file is opened for each process, because descriptors that are copies of each other share the position in it.
  const file = openFile === undefined ? undefined : openSync(openFile, 'r');
  let child: ChildProcess;
  try {
    child = spawn(command, args, {
      // The process leads its own group, which is killed as a whole.
      detached: true,
      ...{ cwd, env: { ...env } },
      stdio: ['ignore', ...streams, ...(file === undefined ? [] : [file])],
      ...(uid === undefined ? {} : { uid, gid: uid }),
    });
  } finally {
    if (file !== undefined) closeSync(file);
  }
  const { pid } = child;
  if (pid === undefined) {
    child.once('error', ({ message }) => tell({ id, error: message }));
    return;
  }
  // Before it starts others, which inherit it. The service sets it again when the process is ready.
  tryCpuPriority(pid, niceness);
  if (groupFile !== undefined) join(groupFile, pid);
  child.on('error', () => undefined);
  running.set(id, child);
  child.once('exit', (code, signal) => {
    running.delete(id);
    tell({ id, end: { code, signal } });
  });
  tell({ id, pid });
}

/** Before the process starts others, which are in the group of their parent. The service repeats it when the process is ready. */
function join(groupFile: string, pid: number): void {
  try {
    writeFileSync(groupFile, String(pid));
  } catch {
    // It has ended, or the group has been removed.
  }
}

/** Kills a child with its group. Until the child is reaped, no other process gets its pid or group. */
function killGroup(child: ChildProcess): void {
  child.kill('SIGKILL');
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  try {
    process.kill(-child.pid, 'SIGKILL');
  } catch {
    // It ended meanwhile.
  }
}

/** Sends a message. When the service has ended, nothing receives it, and `disconnect` follows. */
function tell(message: FromLauncher): void {
  process.send?.(message, undefined, {}, () => undefined);
}
