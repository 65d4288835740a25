import { type ChildProcess, fork } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import type { Logger } from '#lib/logger.ts';
import {
  type FromLauncher,
  type LaunchedStream,
  type LaunchRequest,
  launchedStreams,
  type ProcessExit,
  streamKeyBytes,
  type ToLauncher,
} from './launch-messages.ts';
import { type ChildProgram, ensureProgram } from './program-file.ts';
import { StreamDoor } from './stream-door.ts';

/** Maximum characters of the launcher's stderr that are logged when it ends unexpectedly. */
const stderrMax = 1000;
/** The streams of a process connect before it starts. If they are missing after this time, the service has no descriptors left. */
const streamsMs = 3000;

export const launcherProgram: ChildProgram = {
  name: 'launcher',
  entry: 'src/runner/launcher-main.ts',
  files: ['src/runner/launcher-main.ts', 'src/runner/launch-messages.ts', 'src/runner/cpu-priority.ts'],
};

/** A process that the launcher has started. */
export interface Launched {
  pid: number;
  streams: Readonly<Record<LaunchedStream, Socket>>;
  /** How it ended. Its streams may still hold earlier output. Both fields are null when the launcher ended first. */
  ended: Promise<ProcessExit>;
  /** Kills it and its group. Only SIGKILL: user code can ignore every other signal. */
  kill: () => void;
}

interface Launch {
  pid?: number;
  streams: Map<LaunchedStream, Socket>;
  started: PromiseWithResolvers<Launched>;
  ended: PromiseWithResolvers<ProcessExit>;
}

/**
 * Starts processes through a small process (`launcher-main.ts`), which kills them when the service dies. If the small process dies, its
 * processes are killed, and the next launch starts another one.
 */
export class Launcher {
  readonly #program: string;
  readonly #door: StreamDoor;
  readonly #logger: Logger;
  #process: ChildProcess | undefined;
  readonly #launches = new Map<number, Launch>();
  #count = 0;
  #closed = false;

  private constructor(program: string, door: StreamDoor, logger: Logger) {
    this.#program = program;
    this.#door = door;
    this.#logger = logger;
  }

  /** `programs` is the folder of the program, which is created there when it is missing; `streams` that of the socket for streams. */
  static async create(options: { programs: string; streams: string; logger: Logger }): Promise<Launcher> {
    const program = await ensureProgram(options.programs, launcherProgram);
    const launcher = new Launcher(program, new StreamDoor(options.streams), options.logger);
    launcher.#running();
    return launcher;
  }

  /** Rejects when the machine has no memory or descriptors left, or when the program does not exist. */
  async launch(request: LaunchRequest): Promise<Launched> {
    const address = await this.#door.address();
    if (this.#closed) throw new Error('the launcher is closed');
    this.#count += 1;
    const id = this.#count;
    const streams = new Map<LaunchedStream, Socket>();
    const launch = {
      streams,
      started: Promise.withResolvers<Launched>(),
      ended: Promise.withResolvers<ProcessExit>(),
    };
    this.#launches.set(id, launch);
    const keys = Object.fromEntries(
      launchedStreams.map((name) => {
        const key = randomBytes(streamKeyBytes / 2).toString('hex');
        this.#door.expect(key, (stream) => {
          streams.set(name, stream);
          this.#whenStarted(id, launch);
        });
        return [name, key];
      }),
    ) as Record<LaunchedStream, string>;
    const forget = (): void => {
      for (const key of Object.values(keys)) this.#door.forget(key);
    };
    this.#send({ id, launch: request, address, keys });
    launch.started.promise.then(forget, forget);
    return launch.started.promise;
  }

  /** Ends the launcher and the processes that it has started. */
  async close(): Promise<void> {
    this.#closed = true;
    const child = this.#process;
    if (child !== undefined && child.exitCode === null && child.signalCode === null) {
      const exited = once(child, 'exit');
      if (child.connected) child.disconnect();
      await exited;
    }
    await this.#door.close();
  }

  /** Process ID of the launcher itself. */
  get pid(): number | undefined {
    return this.#process?.pid;
  }

  #send(message: ToLauncher): void {
    // The end of the launcher follows a message that cannot be sent, and reports the failure.
    this.#running().send(message, () => undefined);
  }

  #running(): ChildProcess {
    this.#process ??= this.#start();
    return this.#process;
  }

  #start(): ChildProcess {
    const child = fork(this.#program, {
      // The heap is small because the launcher stores nothing.
      execArgv: ['--max-old-space-size=64', '--max-semi-space-size=1', '--v8-pool-size=0'],
      // Processes that it starts must not find secrets in its environment.
      env: { TZ: 'UTC' },
      cwd: '/',
      // Its own group: Ctrl-C in a terminal must let the service end its calls in order.
      detached: true,
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    });
    let said = '';
    child.stderr?.on('data', (chunk: Buffer) => {
      said = (said + chunk.toString('latin1')).slice(-stderrMax);
    });
    const end = (reason: string): void => {
      if (this.#process !== child) return;
      this.#process = undefined;
      if (!this.#closed) this.#logger.error({ reason, stderr: said }, 'runner.launcher-ended');
      for (const [id, launch] of this.#launches) this.#lose(id, launch, reason);
    };
    child.on('message', (message) => this.#onMessage(message as FromLauncher));
    child.on('error', (error) => end(error.message));
    child.on('exit', (code, signal) =>
      end(`the launcher ended ${signal === null ? `with code ${code}` : `by ${signal}`}`),
    );
    return child;
  }

  #onMessage(message: FromLauncher): void {
    const { id } = message;
    const launch = this.#launches.get(id);
    if (launch === undefined) return;
    if ('pid' in message) {
      launch.pid = message.pid;
      this.#whenStarted(id, launch);
      const timer = setTimeout(() => setImmediate(() => this.#missStreams(id, launch)), streamsMs);
      const stop = (): void => clearTimeout(timer);
      launch.started.promise.then(stop, stop);
    } else if ('error' in message) this.#end(id, launch, message.error);
    else {
      launch.ended.resolve(message.end);
      this.#launches.delete(id);
    }
  }

  #whenStarted(id: number, { pid, streams, started, ended }: Launch): void {
    const all = Object.fromEntries(streams);
    if (pid === undefined || !areAllThere(all)) return;
    started.resolve({ pid, streams: all, ended: ended.promise, kill: () => this.#kill(id) });
  }

  /** Runs after everything that was waiting while the service was busy. Does nothing when the streams have come meanwhile. */
  #missStreams(id: number, { streams, started }: Launch): void {
    if (streams.size === launchedStreams.length) return;
    this.#kill(id);
    for (const stream of streams.values()) stream.destroy();
    started.reject(new Error('a process could not be started: no descriptors are left'));
  }

  #kill(id: number): void {
    if (this.#launches.has(id)) this.#send({ id, kill: true });
  }

  /** Ends a launch that has started nothing. */
  #end(id: number, { streams, started }: Launch, reason: string): void {
    this.#launches.delete(id);
    for (const stream of streams.values()) stream.destroy();
    started.reject(new Error(reason));
  }

  /**
   * Ends a launch after the end of the launcher, which can no longer report how its process ends. When the launcher ended before it
   * reported the process, nothing has its pid: the program ends because its streams are closed, and no user code is in it yet.
   */
  #lose(id: number, launch: Launch, reason: string): void {
    if (launch.pid !== undefined) killGroup(launch.pid);
    launch.ended.resolve({ code: null, signal: null });
    this.#end(id, launch, reason);
  }
}

function areAllThere(streams: Partial<Launched['streams']>): streams is Launched['streams'] {
  return launchedStreams.every((name) => streams[name] !== undefined);
}

function killGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // It ended with the launcher.
  }
}
