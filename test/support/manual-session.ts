import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { freePort } from './free-port.ts';
import { commandsOf, type ManualBlock, outputPattern } from './manual-blocks.ts';
import { type Millrace, testApiKey } from './millrace.ts';
import { programFile } from './program-file.ts';
import { projectRoot } from './project-files.ts';
import { waitFor, within } from './wait-for.ts';

/** A command may install packages of npm and have them built. */
const commandPatienceMs = 150_000;

interface Staying {
  readonly command: string;
  readonly process: ChildProcess;
  output: string;
}

/**
 * A user who does what a page of the manual says, block by block, in a folder of their own: writes its files, enters its commands,
 * and looks whether what is printed is what the page says. Where the page has `dc_…`, the user enters the last one that was printed.
 */
export class ManualSession {
  readonly #folder: string;
  readonly #service: Millrace;
  readonly #receiverPort: number;
  /** The last of each kind that was printed, by how the page writes it. */
  readonly #printed = new Map<string, string>();
  readonly #staying: Staying[] = [];
  #lastOutput = '';

  private constructor(folder: string, service: Millrace, receiverPort: number) {
    this.#folder = folder;
    this.#service = service;
    this.#receiverPort = receiverPort;
  }

  /**
   * The folder looks to the commands like that of Millrace with a data folder in it. Its `bin/millrace` is that of the project, or what
   * `npm test` bundled of the command line, which starts in two thirds of the time.
   */
  static async start(
    folder: string,
    service: Millrace,
    commandLine: 'of the project' | 'bundled',
  ): Promise<ManualSession> {
    await mkdir(join(folder, '.millrace'), { mode: 0o700 });
    await writeFile(join(folder, '.millrace', 'api-key'), `${testApiKey}\n`, { mode: 0o600 });
    await mkdir(join(folder, 'bin'));
    const launcher = join(folder, 'bin', 'millrace');
    if (commandLine === 'of the project') await symlink(join(projectRoot, 'bin', 'millrace'), launcher);
    else {
      await writeFile(
        launcher,
        `#!/bin/sh\nexec '${process.execPath}' '${programFile('cli/main.ts')}' "$@"\n`,
      );
      await chmod(launcher, 0o755);
    }
    await symlink(join(projectRoot, 'examples'), join(folder, 'examples'));
    return new ManualSession(folder, service, await freePort());
  }

  async follow(block: ManualBlock): Promise<void> {
    const { language, marks, text } = block;
    const file = marks.get('file');
    const repeatUntil = marks.get('until');
    const of = marks.get('output-of');
    if (marks.has('not-run')) return;
    if (file !== undefined) return this.#write(file, this.#here(text));
    if (of !== undefined) return this.#staysAndSays(of, text);
    if (marks.has('output')) {
      const printed = this.#lastOutput;
      assert.ok(outputPattern(this.#here(text)).test(printed), `it printed\n${printed}\nand not\n${text}`);
      return;
    }
    if (language === 'json' && marks.has('app')) return this.#describeApp(text);
    assert.equal(language, 'sh', 'a block that is neither run, nor a file, nor an output says not-run');
    if (marks.has('stays')) return this.#stay(text);
    if (repeatUntil === undefined) {
      this.#lastOutput = await this.#enterAll(text);
      return;
    }
    const pattern = new RegExp(repeatUntil, 's');
    await waitFor(
      async () => {
        this.#lastOutput = await this.#enterAll(text);
        return pattern.test(this.#lastOutput);
      },
      { what: `${repeatUntil} in what ${text} prints` },
    );
  }

  /** Ctrl-C for what stays; everything of it has printed something. */
  async end(): Promise<void> {
    for (const { process, command, output } of this.#staying.splice(0)) {
      if (process.exitCode === null && process.pid !== undefined) {
        const ended = once(process, 'close');
        globalThis.process.kill(-process.pid, 'SIGINT');
        await within(ended, commandPatienceMs, `${command} to end`);
      }
      assert.notEqual(output, '', `${command} has printed nothing`);
    }
  }

  async #write(file: string, text: string): Promise<void> {
    await mkdir(dirname(join(this.#folder, file)), { recursive: true });
    await writeFile(join(this.#folder, file), `${text}\n`);
  }

  async #enterAll(text: string): Promise<string> {
    let output = '';
    for (const command of commandsOf(text)) {
      const printed = await this.#enter(this.#filledIn(command));
      this.#remember(printed);
      output += printed;
    }
    return output;
  }

  /** As in one shell: variables and the folder stay from command to command. */
  async #enter(command: string): Promise<string> {
    const script = `set -aeo pipefail; [ -e .session ] && . ./.session\n${command}\n{ export -p; } > "$SESSION"`;
    const child = this.#spawn(script);
    let errors = '';
    let output = '';
    child.stdout?.on('data', (chunk: Buffer) => {
      output += chunk;
    });
    child.stderr?.on('data', (chunk: Buffer) => {
      errors += chunk;
    });
    try {
      await within(once(child, 'close'), commandPatienceMs, `${command} to end`);
    } finally {
      if (child.exitCode === null && child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
    }
    assert.equal(child.exitCode, 0, `${command}\n${output}${errors}`);
    return output;
  }

  #spawn(script: string): ChildProcess {
    return spawn('bash', ['-c', script], {
      cwd: this.#folder,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: {
        PATH: `${dirname(process.execPath)}:${process.env.PATH}`,
        HOME: this.#folder,
        SESSION: join(this.#folder, '.session'),
        NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE,
      },
    });
  }

  async #stay(text: string): Promise<void> {
    const [command = '', ...others] = commandsOf(text);
    assert.deepEqual(others, [], 'one command stays in a block');
    const child = this.#spawn(`set -ae; [ -e .session ] && . ./.session\n${this.#filledIn(command)}`);
    const staying = { command, process: child, output: '' };
    this.#staying.push(staying);
    for (const stream of [child.stdout, child.stderr])
      stream?.on('data', (chunk: Buffer) => {
        staying.output += chunk;
      });
  }

  async #staysAndSays(name: string, text: string): Promise<void> {
    const staying = this.#staying.find(({ command }) => command.includes(name));
    assert.ok(staying !== undefined, `nothing that stays has ${name} in its command`);
    const pattern = outputPattern(this.#here(text));
    await waitFor(() => pattern.test(staying.output), { what: `${text}\n— it printed —\n${staying.output}` });
  }

  async #describeApp(text: string): Promise<void> {
    const { status, body } = await this.#service.api('POST', '/v1/apps', JSON.parse(text));
    assert.equal(status, 200, JSON.stringify(body));
    const removed = await this.#service.api('DELETE', `/v1/apps/${body.data.name_slug}`);
    assert.equal(removed.status, 204);
  }

  #remember(output: string): void {
    for (const [found] of output.matchAll(/\bhttp:\/\/127\.0\.0\.1:\d+\/in\/\w+/g))
      this.#printed.set('http://127.0.0.1:8080/in/…', found);
    for (const [found, kind] of output.matchAll(/\b([a-z]+)_[\w+/=-]{8,}/g))
      this.#printed.set(`${kind}_…`, found);
  }

  #filledIn(command: string): string {
    const filled = command.replaceAll(/http:\/\/127\.0\.0\.1:8080\/in\/…|\b[a-z]+_…/g, (what) => {
      const value = this.#printed.get(what);
      assert.ok(value !== undefined, `${command}: no ${what} has been printed`);
      return value;
    });
    assert.ok(!filled.includes('…'), `${command}: what stands for …?`);
    return this.#here(filled);
  }

  /** Addresses as they are in this test. */
  #here(text: string): string {
    return text
      .replaceAll('http://127.0.0.1:8080', this.#service.url)
      .replaceAll(/\b9000\b/g, String(this.#receiverPort));
  }
}
