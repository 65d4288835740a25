import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { CallerError, UnavailableError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type {
  BuildProblem,
  BundleRequest,
  BundlerInput,
  BundlerOutput,
  FetchRequest,
  InstallerOutput,
  InstallRequest,
  OwnFile,
  PackageFile,
  ScanOutput,
  ScanRequest,
} from './builder/build-messages.ts';
import type { Installed } from './builder/install-packages.ts';
import { readMessages, writeMessage } from './builder/message-lines.ts';

/** What is kept of a builder's stderr, for our log only. */
const stderrBytesMax = 8 * 1024;

const builderFolder = fileURLToPath(new URL('./builder/', import.meta.url));
export const providedFolder = fileURLToPath(new URL('./provided/', import.meta.url)).replace(/[/\\]$/, '');
const projectPackageFile = fileURLToPath(new URL('../../package.json', import.meta.url));
export const projectModules = dirname(
  dirname(createRequire(import.meta.url).resolve('esbuild/package.json')),
);

/**
 * Both processes get an empty environment, no addons, no inspector, a bounded heap, and of the permission model only
 * what is listed here. The bundler reads packages that nobody vetted but has no network; the installer has the network
 * (limited to the registry, `limit-builder.ts`) but cannot start programs. Neither evaluates a line of foreign code.
 * esbuild's own program is outside Node's permission model: it gets file contents from the bundler and opens no module
 * itself (`bundle-component.ts`); it does look at the names of files and at package.json when it resolves.
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

function readGrants(paths: readonly string[]): string[] {
  return paths.map((path) => `--allow-fs-read=${path}`);
}

function writeGrants(paths: readonly string[]): string[] {
  return paths.map((path) => `--allow-fs-write=${path}`);
}

interface Child {
  process: ChildProcess;
  input: Writable;
  output: Readable;
  /** Settles when the process has ended, with what it said on stderr. */
  ended: Promise<string>;
}

function startChild(program: string, flags: readonly string[], cwd: string): Child {
  const child = spawn(process.execPath, [...commonFlags, ...flags, join(builderFolder, program)], {
    cwd,
    env: {},
    stdio: ['pipe', 'ignore', 'pipe', 'pipe'],
    windowsHide: true,
  });
  const [input, , errors, output] = child.stdio as unknown as [Writable, null, Readable, Readable];
  let said = '';
  errors.on('data', (chunk: Buffer) => {
    if (said.length < stderrBytesMax) said += chunk.toString('utf8').slice(0, stderrBytesMax - said.length);
  });
  // A child that is gone breaks its pipe; `ended` is how that is noticed.
  input.on('error', () => {});
  output.on('error', () => child.kill('SIGKILL'));
  const { promise: ended, resolve } = Promise.withResolvers<string>();
  child.on('error', (error) => resolve(error.message));
  child.on('close', () => resolve(said));
  return { process: child, input, output, ended };
}

async function stopChild(child: Child): Promise<void> {
  if (child.process.exitCode === null && child.process.signalCode === null) child.process.kill('SIGKILL');
  await child.ended;
}

/** Answers the bundler's questions for the component's own files; a `CallerError` reaches the caller as it is. */
export type AnswerLookup = (importer: string, specifier: string) => Promise<OwnFile | null>;

/** A bundler that stays for more builds; one at a time. */
export class BundlerProcess {
  readonly #child: Child;
  readonly #logger: Logger;
  #onMessage: (message: BundlerOutput) => void = () => {};
  hasEnded = false;

  /** `buildsFolder` holds the folders that builds take packages from. */
  static async start(buildsFolder: string, logger: Logger): Promise<BundlerProcess> {
    await mkdir(buildsFolder, { recursive: true });
    const flags = ['--allow-child-process', ...readGrants([buildsFolder, providedFolder])];
    return new BundlerProcess(startChild('bundler-main.ts', flags, buildsFolder), logger);
  }

  private constructor(child: Child, logger: Logger) {
    this.#child = child;
    this.#logger = logger;
    readMessages<BundlerOutput>(child.output, (message) => this.#onMessage(message));
    void child.ended.then(() => {
      this.hasEnded = true;
    });
  }

  /** After a failure that is not a `CallerError`, or when `signal` aborts, the process is no longer to be used. */
  async bundle(
    request: BundleRequest,
    answer: AnswerLookup,
    signal: AbortSignal,
  ): Promise<Exclude<BundlerOutput, { type: 'lookup' | 'failed' }>> {
    const { promise, resolve, reject } = Promise.withResolvers<Exclude<BundlerOutput, { type: 'lookup' }>>();
    let refusal: CallerError | undefined;
    this.#onMessage = (message) => {
      if (message.type !== 'lookup') {
        resolve(message);
        return;
      }
      const { lookup, importer, specifier } = message;
      answer(importer, specifier).then(
        (file) => this.#send({ type: 'found', lookup, file }),
        (error: unknown) => {
          if (!(error instanceof CallerError)) {
            reject(error);
            return;
          }
          refusal ??= error;
          this.#send({ type: 'found', lookup, file: null, problem: problemOf(error) });
        },
      );
    };
    this.#send(request);
    const outcome = await untilEnd({ promise, child: this.#child, signal, logger: this.#logger });
    this.#onMessage = () => {};
    if (outcome.type !== 'failed') return outcome;
    if (refusal !== undefined && refusal.code === outcome.problem.code) {
      throw new CallerError(refusal.code, refusal.message, outcome.problem.details, { cause: refusal });
    }
    throw errorOf(outcome.problem);
  }

  async stop(): Promise<void> {
    await stopChild(this.#child);
  }

  #send(message: BundlerInput): void {
    writeMessage(this.#child.input, message);
  }
}

/** One install in a process of its own. */
export async function runInstaller(request: InstallRequest, options: ChildOptions): Promise<Installed> {
  await mkdir(request.cache, { recursive: true });
  const outcome = await askInstaller(request, [request.folder, request.cache], request.folder, options);
  if (outcome.type !== 'installed') throw new Error(`assertion failed: an install was ${outcome.type}`);
  return outcome;
}

/** One package fetched, by the installer too. */
export async function runFetcher(
  request: FetchRequest,
  options: ChildOptions,
): Promise<{ name: string; version: string; integrity: string; files: PackageFile[] }> {
  await mkdir(request.cache, { recursive: true });
  const files: PackageFile[] = [];
  const outcome = await askInstaller(request, [request.cache], request.cache, {
    ...options,
    onFiles: (part) => {
      for (const file of part) files.push(file);
    },
  });
  if (outcome.type !== 'fetched') throw new Error(`assertion failed: a package was ${outcome.type}`);
  const { name, version, integrity } = outcome;
  return { name, version, integrity, files };
}

type InstallerEnd = Exclude<InstallerOutput, { type: 'files' }>;

interface ChildOptions {
  signal: AbortSignal;
  logger: Logger;
}

async function askInstaller(
  request: InstallRequest | FetchRequest,
  folders: readonly string[],
  cwd: string,
  options: ChildOptions & { onFiles?: (files: PackageFile[]) => void },
): Promise<Exclude<InstallerEnd, { type: 'failed' }>> {
  const child = startChild(
    'installer-main.ts',
    ['--allow-net', ...readGrants(folders), ...writeGrants(folders)],
    cwd,
  );
  const { onFiles = () => {} } = options;
  const outcome = await askInstallerOnce(child, request, { ...options, onFiles });
  if (outcome.type === 'failed') throw errorOf(outcome.problem);
  return outcome;
}

/** Reads the heads of components in a process without network or files. One call for each part of `parts`. */
export async function runScanner(
  parts: Iterable<ScanRequest['files']>,
  options: ChildOptions,
): Promise<ScanOutput['readings']> {
  const child = startChild('scanner-main.ts', ['--allow-child-process'], builderFolder);
  const readings: ScanOutput['readings'] = [];
  try {
    let resolve: (output: ScanOutput) => void = () => {};
    readMessages<ScanOutput>(child.output, (output) => resolve(output));
    for (const part of parts) {
      const answer = Promise.withResolvers<ScanOutput>();
      resolve = answer.resolve;
      writeMessage(child.input, { files: part } satisfies ScanRequest);
      readings.push(...(await untilEnd({ promise: answer.promise, child, ...options })).readings);
    }
    return readings;
  } finally {
    await stopChild(child);
  }
}

/** The message that ends the answer; those of files come before it. */
async function askInstallerOnce(
  child: Child,
  request: InstallRequest | FetchRequest,
  options: ChildOptions & { onFiles: (files: PackageFile[]) => void },
): Promise<InstallerEnd> {
  try {
    const { promise, resolve } = Promise.withResolvers<InstallerEnd>();
    readMessages<InstallerOutput>(child.output, (message) => {
      if (message.type === 'files') options.onFiles(message.files);
      else resolve(message);
    });
    writeMessage(child.input, request);
    return await untilEnd({ promise, child, ...options });
  } finally {
    const said = stopChild(child).then(() => child.ended);
    said.then(
      (text) => text !== '' && options.logger.warn({ stderr: text }, 'component installer'),
      () => {},
    );
    await said;
  }
}

/** The answer, or an error when the process ends or the signal aborts first. */
async function untilEnd<T>(options: {
  promise: Promise<T>;
  child: Child;
  signal: AbortSignal;
  logger: Logger;
}): Promise<T> {
  const { promise, child, signal, logger } = options;
  const stop = new AbortController();
  const aborted = once(signal, 'abort', { signal: stop.signal }).then(
    () => 'aborted' as const,
    () => new Promise<never>(() => {}),
  );
  const ended = child.ended.then((said) => ({ said }));
  try {
    signal.throwIfAborted();
    const first = await Promise.race([promise.then((value) => ({ value })), ended, aborted]);
    if (first === 'aborted') throw signal.reason;
    if ('value' in first) return first.value;
    logger.warn({ stderr: first.said, signal: child.process.signalCode }, 'a component builder ended early');
    if (/heap out of memory/i.test(first.said)) {
      throw new CallerError(
        'component_too_large',
        'the component needs more memory to build than a build may take',
      );
    }
    throw new UnavailableError('build_failed', 'the process that builds components ended early');
  } finally {
    stop.abort();
  }
}

function problemOf(error: CallerError): BuildProblem {
  return { kind: 'caller', code: error.code, message: error.message, details: { ...error.details } };
}

export function errorOf(problem: BuildProblem): CallerError | UnavailableError {
  return problem.kind === 'caller'
    ? new CallerError(problem.code, problem.message, problem.details)
    : new UnavailableError(problem.code, problem.message);
}
