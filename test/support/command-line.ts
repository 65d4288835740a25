import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { PassThrough, Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { runCli } from '../../cli/run-cli.ts';
import { Terminal } from '../../cli/terminal.ts';
import packageJson from '../../package.json' with { type: 'json' };
import { endWithProcess } from './end-with-process.ts';
import { programFile } from './program-file.ts';
import { waitFor, within } from './wait-for.ts';

const mainFile = programFile('cli/main.ts');
const endPatienceMs = 60_000;
/** Keys that come while a question is being put are lost. Those that a busy machine only takes its time for must not come twice. */
const keyPatienceMs = 20_000;
const { version } = packageJson;
/** Those that a test which failed has left. */
const running = new Set<RunningCommand>();

export interface Ended {
  code: number | null;
  stdout: string;
  stderr: string;
}

export interface CommandPlace {
  /** The current working directory, and the folder of the profiles. */
  folder: string;
  /** MILLRACE_URL and such. */
  environment?: Record<string, string>;
}

/** `millrace …` as a process of its own, without a terminal. */
export class RunningCommand {
  readonly process: ChildProcess;
  stdout = '';
  stderr = '';
  readonly #ended: Promise<unknown>;

  constructor(
    place: CommandPlace,
    words: readonly string[],
    program: readonly string[] = [process.execPath, mainFile],
  ) {
    const [file = '', ...first] = program;
    this.process = spawn(file, [...first, ...words], {
      cwd: place.folder,
      env: {
        PATH: process.env.PATH,
        HOME: place.folder,
        NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE,
        ...place.environment,
      },
    });
    endWithProcess(this.process);
    this.#ended = once(this.process, 'close');
    running.add(this);
    this.process.once('close', () => running.delete(this));
    this.process.stdout?.on('data', (chunk: Buffer) => {
      this.stdout += chunk;
    });
    this.process.stderr?.on('data', (chunk: Buffer) => {
      this.stderr += chunk;
    });
    // One that ends before it has read its input is not a fault of the test.
    this.process.stdin?.on('error', () => undefined);
  }

  /** Waits until one of its outputs has this. */
  async says(pattern: RegExp): Promise<void> {
    await waitFor(
      () => {
        if (pattern.test(this.stdout) || pattern.test(this.stderr)) return true;
        if (this.process.exitCode !== null) throw new Error(`it ended with ${this.process.exitCode}`);
        return false;
      },
      { what: `${pattern} in\n${this.stdout}\n${this.stderr}` },
    );
  }

  /** Answers a question with keys; `then` is what it shows afterwards. */
  async answer(question: RegExp, keys: string, then: RegExp): Promise<void> {
    await this.says(question);
    let typedAt = Number.NEGATIVE_INFINITY;
    await waitFor(
      () => {
        if (then.test(this.stdout)) return true;
        if (performance.now() - typedAt > keyPatienceMs) {
          this.process.stdin?.write(keys);
          typedAt = performance.now();
        }
        return false;
      },
      { what: `${then} in\n${this.stdout}` },
    );
  }

  async ended(timeoutMs = endPatienceMs): Promise<Ended> {
    await within(this.#ended, timeoutMs, `millrace to end, after\n${this.stdout}\n${this.stderr}`);
    return { code: this.process.exitCode, stdout: this.stdout, stderr: this.stderr };
  }

  /** Ctrl-C. */
  async interrupt(): Promise<Ended> {
    this.process.kill('SIGINT');
    return this.ended();
  }
}

/** The same inside this process, which starts no other: for what needs no signals and no terminal. */
export async function runCommand(place: CommandPlace, words: readonly string[], input = ''): Promise<Ended> {
  const environment = { PATH: process.env.PATH, HOME: place.folder, ...place.environment };
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const texts = [text(stdout), text(stderr)] as const;
  const code = await runCli(words, {
    terminal: new Terminal({ stdin: Readable.from([Buffer.from(input)]), stdout, stderr }, environment),
    environment,
    folder: place.folder,
    interrupted: new AbortController().signal,
    version,
  });
  stdout.end();
  stderr.end();
  return { code, stdout: await texts[0], stderr: await texts[1] };
}

/**
 * The same at a pseudo terminal, by util-linux's `script`; what it shows is in `stdout`. The terminal is 100 columns wide.
 */
export function runAtTerminal(place: CommandPlace, words: readonly string[]): RunningCommand {
  const quoted = [process.execPath, mainFile, ...words]
    .map((word) => `'${word.replaceAll("'", "'\\''")}'`)
    .join(' ');
  return new RunningCommand(
    place,
    [`stty cols 100 rows 40; exec ${quoted}`, '/dev/null'],
    ['script', '-qefc'],
  );
}

/** After all tests: one that failed may have left a process. */
export async function endCommands(): Promise<void> {
  for (const command of running) {
    command.process.kill('SIGKILL');
    await command.ended();
  }
}
