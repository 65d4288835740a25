import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { CallerError, UnavailableError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { BuildTime } from './build-time.ts';
import type { BuildProblem } from './builder/build-messages.ts';
import { readMessages, writeMessage } from './builder/message-lines.ts';
import { type BuilderProgram, builderFolder, builderProgram } from './builder-programs.ts';

/** What is kept of a builder's stderr, for our log only. */
const stderrBytesMax = 8 * 1024;

const projectPackageFile = fileURLToPath(new URL('../../package.json', import.meta.url));
export const projectModules = dirname(
  dirname(createRequire(import.meta.url).resolve('esbuild/package.json')),
);

/**
 * All of these processes get an empty environment, no addons, no inspector, a bounded heap, and of the permission model
 * only what is listed here. The bundler reads packages that nobody vetted but has no network, and neither has the scanner;
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
  ...readGrants([builderFolder, projectModules, projectPackageFile]),
];

export function readGrants(paths: readonly string[]): string[] {
  return paths.map((path) => `--allow-fs-read=${path}`);
}

export function writeGrants(paths: readonly string[]): string[] {
  return paths.map((path) => `--allow-fs-write=${path}`);
}

interface BuilderChildOptions {
  flags: readonly string[];
  cwd: string;
  logger: Logger;
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

  private constructor(program: BuilderProgram, path: string, { flags, cwd, logger }: BuilderChildOptions) {
    const child = spawn(process.execPath, [...commonFlags, ...flags, path], {
      cwd,
      env: {},
      stdio: ['pipe', 'ignore', 'pipe', 'pipe'],
      windowsHide: true,
    });
    logger.debug({ program, child: child.pid }, 'builder.process-started');
    const [input, , errors, output] = child.stdio as unknown as [Writable, null, Readable, Readable];
    let said = '';
    errors.on('data', (chunk: Buffer) => {
      if (said.length < stderrBytesMax) said += chunk.toString('utf8').slice(0, stderrBytesMax - said.length);
    });
    // A child that is gone breaks its pipe; `#ended` is how that is noticed.
    input.on('error', () => {});
    output.on('error', () => child.kill('SIGKILL'));
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

  send(message: unknown): void {
    writeMessage(this.#input, message);
  }

  /**
   * The answer, or an error when the process ends or its time is over first: the process is then no longer to be used.
   * Throws CallerError `component_too_large`, UnavailableError `build_failed`, or the reason of the time's signal.
   */
  async untilEnd<T>(answer: Promise<T>, time: BuildTime): Promise<T> {
    const { signal } = time;
    const { pid } = this.#process;
    const endWatch = pid === undefined ? undefined : time.watch(pid);
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
      if (/heap out of memory/i.test(first.said)) {
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

  /** Answers when the process is gone, with what it said on stderr. */
  async stop(): Promise<string> {
    const { exitCode, signalCode } = this.#process;
    if (exitCode === null && signalCode === null) this.#process.kill('SIGKILL');
    return this.#ended;
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
