/**
 * The program of the launcher: starts processes for the service and tells how they end. To start one, the system copies the
 * memory map of the process that asks for it, which stands still meanwhile: under load 3 ms for this small one, 30 ms and more for a service
 * of 250 MB. It ends with the service, and ends what it has started then.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import {
  type FromLauncher,
  type LaunchRequest,
  launchedStreams,
  type ToLauncher,
} from './launch-messages.ts';

const running = new Map<number, ChildProcess>();

// The service decides when it ends; a terminal tells all processes in it.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined);

// Nothing keeps this process then but what it ends.
process.on('disconnect', () => {
  for (const child of running.values()) killGroup(child);
});

process.on('message', async (message: ToLauncher) => {
  const { id } = message;
  if ('kill' in message) {
    const child = running.get(id);
    if (child !== undefined) killGroup(child);
    return;
  }
  const { address, keys, launch } = message;
  const streams = launchedStreams.map(() => connect({ path: address }));
  try {
    await Promise.all(launchedStreams.map((name, index) => introduce(streams[index], keys[name])));
    if (!process.connected) throw new Error('the service is gone');
    start(id, launch, streams);
  } catch (error) {
    tell({ id, error: (error as Error).message });
  } finally {
    // Those of the process stay open.
    for (const stream of streams) stream.destroy();
  }
});

/** Says whose a stream is; what comes the other way is for the process alone. */
async function introduce(stream: Socket | undefined, key: string): Promise<void> {
  if (stream === undefined) return;
  stream.on('error', () => undefined);
  stream.pause();
  await once(stream, 'connect');
  await new Promise<void>((resolve, reject) =>
    stream.write(key, (error) => (error == null ? resolve() : reject(error))),
  );
  // The process reads and writes some of them synchronously. Node offers this for its own streams only.
  const { _handle: handle } = stream as Socket & { _handle: { setBlocking(is: boolean): void } };
  handle.setBlocking(true);
}

function start(id: number, request: LaunchRequest, streams: readonly Socket[]): void {
  const { command, args, cwd, env, uid, openFile } = request;
  // Opened for each: it is read from where the last one stopped.
  const file = openFile === undefined ? undefined : openSync(openFile, 'r');
  let child: ChildProcess;
  try {
    child = spawn(command, args, {
      // A group of its own, which is ended as a whole.
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
  child.on('error', () => undefined);
  running.set(id, child);
  child.once('exit', (code, signal) => {
    running.delete(id);
    tell({ id, end: { code, signal } });
  });
  tell({ id, pid });
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

/** When the service is gone there is nobody to tell, and `disconnect` follows. */
function tell(message: FromLauncher): void {
  process.send?.(message, undefined, {}, () => undefined);
}
