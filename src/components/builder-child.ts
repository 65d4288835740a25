import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { Duplex, Readable, Writable } from 'node:stream';
import { AddressPolicy } from '#egress/address-policy.ts';
import { attachEgressRelay } from '#egress/egress-relay.ts';
import { CallerError, UnavailableError } from '#lib/errors.ts';
import { installationFolder, isPackaged } from '#lib/installation.ts';
import type { Logger } from '#lib/logger.ts';
import { setTreePriority } from '#runner/cpu-priority.ts';
import { niceness } from '#runner/cpu-shares.ts';
import type { BuildBudget } from './build-budget.ts';
import type { BuildProblem } from './builder/build-messages.ts';
import { readMessages, writeMessage } from './builder/message-lines.ts';
import { type BuilderProgram, builderFolder, builderProgram, relayArgument } from './builder-programs.ts';
import { type BuilderGrant, BuilderWalls } from './builder-walls.ts';

/** What is kept of a builder's stderr, for our log only. */
const stderrBytesMax = 8 * 1024;

const packageFile = join(installationFolder, 'package.json');
/** The folder of the packages that the service and the components of its own registry use. */
export const projectModules = dirname(dirname(createRequire(packageFile).resolve('esbuild/package.json')));

/**
 * All of these processes get no environment but a home folder, no addons, no inspector, a bounded heap, and of the permission model
 * only what is listed here. The bundler reads unvetted packages but has no network, and neither has the scanner;
 * the installer has the network (limited to the registry, `limit-builder.ts`) but cannot start programs. None evaluates a
 * line of foreign code. esbuild's own program is outside Node's permission model: it gets file contents from the bundler
 * and opens no module itself (`bundle-component.ts`); it does look at the names of files and at package.json when it
 * resolves.
 */
const commonFlags = [
  '--permission',
  '--no-warnings',
  '--no-addons',
  '--disable-sigusr1',
  '--no-experimental-sqlite',
  '--no-experimental-ffi',
  '--max-old-space-size=768',
];

/** What programs are made of, where there is no file with all of it. */
const ownModules = [
  builderFolder,
  projectModules,
  packageFile,
  ...(isPackaged ? [] : ['runner/sandbox', 'lib'].map((folder) => join(installationFolder, 'src', folder))),
];

/** Anything, by address: what may be connected to is decided by name. */
const anyAddress = new AddressPolicy({ allow: ['0.0.0.0/0', '::/0'], deny: () => [] });

/** What all builder processes of one part of the service are started with. */
export interface BuilderProcessOptions {
  logger: Logger;
  walls?: BuilderWalls;
}

interface BuilderChildOptions extends BuilderProcessOptions {
  grant: BuilderGrant;
  /** It connects to hosts that `allowHosts` names. */
  connects?: true;
}

/** As Node's permission model has it. */
function permissionFlags({ read, write, startsPrograms }: BuilderGrant, hasNetwork: boolean): string[] {
  return [
    ...[...read, ...write].map((path) => `--allow-fs-read=${path}`),
    ...write.map((path) => `--allow-fs-write=${path}`),
    ...(startsPrograms ? ['--allow-child-process'] : []),
    ...(hasNetwork ? ['--allow-net'] : []),
  ];
}

/** One confined process with a program of `./builder`, as messages: requests to it, answers (`Output`) from it. */
export class BuilderChild<Output> {
  readonly #process: ChildProcess;
  readonly #input: Writable;
  readonly #logger: Logger;
  /** Settles when the process has ended, with what it said on stderr. */
  readonly #ended: Promise<string>;
  onMessage: (message: Output) => void = () => {};
  hasEnded = false;

  static async start<Output>(
    program: BuilderProgram,
    options: BuilderChildOptions,
  ): Promise<BuilderChild<Output>> {
    return new BuilderChild<Output>(program, await builderProgram(program), options);
  }

  /** `host:port` of all that it may connect to by way of the relay; nothing until they are named. */
  #hosts: ReadonlySet<string> = new Set();

  private constructor(program: BuilderProgram, path: string, options: BuilderChildOptions) {
    const { logger, walls = new BuilderWalls(), connects = false } = options;
    const isRelayed = connects && walls.areRaised;
    const grant = { ...options.grant, read: [...ownModules, ...options.grant.read] };
    const flags = permissionFlags(grant, connects && !isRelayed);
    const args = [...commonFlags, ...flags, path, ...(isRelayed ? [relayArgument] : [])];
    const child = walls.start({ ...grant, read: [...grant.read, path] }, args, { connects: isRelayed });
    logger.debug({ program, child: child.pid }, 'builder.process-started');
    const [input, , errors, output, way] = child.stdio as unknown as [
      ...[Writable, null, Readable, Readable],
      Duplex | null,
    ];
    if (way !== null) {
      way.on('error', () => {});
      const relay = attachEgressRelay(way, {
        policy: anyAddress,
        permits: (host, port) => this.#permits(host, port),
        onViolation: () => killGroup(child),
      });
      child.on('close', () => relay.close());
    }
    let said = '';
    errors.on('data', (chunk: Buffer) => {
      if (said.length < stderrBytesMax) said += chunk.toString('utf8').slice(0, stderrBytesMax - said.length);
    });
    // A child that is gone breaks its pipe; `#ended` is how that is noticed.
    input.on('error', () => {});
    output.on('error', () => killGroup(child));
    const { promise: ended, resolve } = Promise.withResolvers<string>();
    const end = (text: string): void => {
      this.hasEnded = true;
      resolve(text);
    };
    child.on('error', (error) => end(error.message));
    child.on('close', () => end(said));
    readMessages<Output>(output, (message) => this.onMessage(message));
    this.#process = child;
    this.#input = input;
    this.#logger = logger;
    this.#ended = ended;
  }

  /** Where it may connect to, for good. Without walls the process keeps to that itself (`limit-builder.ts`). */
  allowHosts(hosts: ReadonlySet<string>): void {
    if (this.#hosts.size === 0) this.#hosts = hosts;
  }

  #permits(host: string, port: number | undefined): boolean {
    if (port !== undefined) return this.#hosts.has(`${host}:${port}`);
    return [...this.#hosts].some((entry) => entry.slice(0, entry.lastIndexOf(':')) === host);
  }

  /** For a build that is one of many of its owner; the processes that it has started get it too. */
  lowerPriority(): void {
    const { pid } = this.#process;
    if (pid !== undefined) setTreePriority(pid, niceness.greedy);
  }

  send(message: unknown): void {
    writeMessage(this.#input, message);
  }

  /**
   * The answer, or an error when the process ends or its time is over first: the process is then no longer to be used.
   * Throws CallerError `component_too_large`, UnavailableError `build_failed`, or the reason of the time's signal.
   */
  async untilEnd<T>(answer: Promise<T>, budget: BuildBudget): Promise<T> {
    const { signal } = budget;
    const { pid } = this.#process;
    const endWatch = pid === undefined ? undefined : budget.watch(pid);
    const stop = new AbortController();
    const aborted = once(signal, 'abort', { signal: stop.signal }).then(
      () => 'aborted' as const,
      () => new Promise<never>(() => {}),
    );
    const ended = this.#ended.then((said) => ({ said }));
    try {
      signal.throwIfAborted();
      const first = await Promise.race([answer.then((value) => ({ value })), ended, aborted]);
      if (first === 'aborted') throw signal.reason;
      if ('value' in first) return first.value;
      const { signalCode } = this.#process;
      this.#logger.warn({ stderr: first.said, signal: signalCode }, 'builder.process-failed');
      if (/out of memory/i.test(first.said)) {
        throw new CallerError(
          'component_too_large',
          'the component needs more memory to build than a build may take',
        );
      }
      throw new UnavailableError('build_failed', 'the process that builds components ended early');
    } finally {
      endWatch?.();
      stop.abort();
    }
  }

  /** Resolves when the process has ended, with its output on stderr. */
  async stop(): Promise<string> {
    const { exitCode, signalCode } = this.#process;
    if (exitCode === null && signalCode === null) killGroup(this.#process);
    return this.#ended;
  }
}

/**
 * Behind walls the program is a child of the one that makes the walls. While it starts it does not end with its parent yet: it would
 * wait for it for ever, and so would we.
 */
function killGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch (error) {
    // It has ended.
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

export function problemOf(error: CallerError): BuildProblem {
  return { kind: 'caller', code: error.code, message: error.message, details: { ...error.details } };
}

export function errorOf(problem: BuildProblem): CallerError | UnavailableError {
  return problem.kind === 'caller'
    ? new CallerError(problem.code, problem.message, problem.details)
    : new UnavailableError(problem.code, problem.message);
}
