import { type ChildProcess, fork } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
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
import { ensureProgram } from './program-file.ts';

/** Maximum characters of the launcher's stderr that are logged when it ends unexpectedly. */
const stderrMax = 1000;
/** A connection that has not sent its key after this time is closed. */
const introductionMs = 10_000;
/** The streams of a process connect before it starts. If they are missing after this time, the service has no descriptors left. */
const streamsMs = 3000;

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
 * processes are killed, and the next launch starts another one. Streams connect to a socket in a folder that only the service's user may
 * enter, and each has a key that is used once.
 */
export class Launcher {
  readonly #program: string;
  readonly #folder: string;
  readonly #logger: Logger;
  readonly #server: Server;
  #process: ChildProcess | undefined;
  readonly #launches = new Map<number, Launch>();
  readonly #expected = new Map<string, (stream: Socket) => void>();
  #count = 0;
  #closed = false;

  private constructor(program: string, folder: string, logger: Logger) {
    this.#program = program;
    this.#folder = folder;
    this.#logger = logger;
    this.#server = createServer((socket) => this.#onConnection(socket));
  }

  /** `programs` is the folder of the program, which is created there when it is missing. */
  static async create(programs: string, logger: Logger): Promise<Launcher> {
    const files = ['src/runner/launcher-main.ts', 'src/runner/launch-messages.ts'];
    const entry = 'src/runner/launcher-main.ts';
    const program = await ensureProgram(programs, { name: 'launcher', entry, files });
    // Not in the data folder: the system limits the length of a socket's path to 107 bytes.
    const launcher = new Launcher(program, await mkdtemp(join(tmpdir(), 'millrace-')), logger);
    launcher.#server.listen(launcher.#address);
    await once(launcher.#server, 'listening');
    launcher.#running();
    return launcher;
  }

  /** Rejects when the machine has no memory or descriptors left, or when the program does not exist. */
  launch(request: LaunchRequest): Promise<Launched> {
    if (this.#closed) return Promise.reject(new Error('the launcher is closed'));
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
        this.#expected.set(key, (stream) => {
          streams.set(name, stream);
          this.#whenStarted(id, launch);
        });
        return [name, key];
      }),
    ) as Record<LaunchedStream, string>;
    const forget = (): void => {
      for (const key of Object.values(keys)) this.#expected.delete(key);
    };
    this.#send({ id, launch: request, address: this.#address, keys });
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
    this.#server.close();
    await rm(this.#folder, { recursive: true, force: true });
  }

  /** Process ID of the launcher itself. */
  get pid(): number | undefined {
    return this.#process?.pid;
  }

  get #address(): string {
    return join(this.#folder, 'streams');
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
    const child = fork(this.#program, [this.#folder], {
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

  #onConnection(socket: Socket): void {
    // The process may end at any moment; how it ended says more than EPIPE or ECONNRESET.
    socket.on('error', () => undefined);
    const timer = setTimeout(() => socket.destroy(), introductionMs);
    const read = (): void => {
      const key: Buffer | null = socket.read(streamKeyBytes);
      if (key === null) return;
      clearTimeout(timer);
      socket.off('readable', read);
      const take = this.#expected.get(key.toString('latin1'));
      this.#expected.delete(key.toString('latin1'));
      if (take === undefined) socket.destroy();
      else take(socket);
    };
    socket.on('readable', read);
    socket.once('close', () => clearTimeout(timer));
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

  /** Ends a launch after the end of the launcher, which can no longer report how its process ends. */
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
