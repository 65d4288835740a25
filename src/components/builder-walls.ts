import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { setTreePriority } from '#runner/cpu-priority.ts';
import { niceness } from '#runner/cpu-shares.ts';
import { nodeDataMb } from '#runner/resource-limits.ts';
import { findExecutable } from '#runner/runner-folders.ts';
import type { KernelPrograms } from '#runner/sandbox-grant.ts';
import { builderMemoryBytesMax } from './build-budget.ts';

/** What a builder process is given beside its program. Nothing else reaches it. */
export interface BuilderGrant {
  /** Folders and files that it may read. */
  read: readonly string[];
  /** Folders that it may read and write. */
  write: readonly string[];
  /** It may start esbuild. */
  startsPrograms: boolean;
  cwd: string;
}

/** Writable memory that one process may map. The watch over its resident memory acts first; this holds where the watch comes too late. */
const dataBytes = Math.round(nodeDataMb * 1024 * 1024 + 1.5 * builderMemoryBytesMax);

/** The descriptor from which bubblewrap reads the filter, and which it closes: the first one after those of the program. */
const filterDescriptor = 5;

/** Small, and nothing there: what a process asks for in passing. */
const devices = ['null', 'zero', 'random', 'urandom'].map((name) => `/dev/${name}`);

/**
 * Walls of the kernel around builder processes, where the sandbox of user code has them too: namespaces of their own, without a network,
 * a root with Node, the program, and what the process is granted, by the same paths as outside, and the filter of system calls. It allows
 * further processes only where esbuild is started, which is a program.
 *
 * It is made before the sandbox, which then reports what works here.
 */
export class BuilderWalls {
  #programs: KernelPrograms | undefined;
  readonly #prlimit = findExecutable('prlimit');
  readonly #setpriv = findExecutable('setpriv');

  /** Processes that start from now on have walls; undefined: they have Node's permissions alone. */
  raise(tools: KernelPrograms | undefined): void {
    this.#programs = tools;
  }

  get areRaised(): boolean {
    return this.#programs !== undefined;
  }

  /**
   * Starts Node with these arguments. The process reads descriptor 0, writes 2 and 3, and has 4 for its connections where it `connects`.
   * It leads a group of its own, so that it is ended with what it has started.
   */
  start(grant: BuilderGrant, args: readonly string[], options: { connects?: boolean } = {}): ChildProcess {
    const tools = this.#programs;
    const node = [process.execPath, ...args];
    const [program = process.execPath, ...rest] = [
      ...(this.#prlimit === undefined ? [] : [this.#prlimit, '--core=0', `--data=${dataBytes}`, '--']),
      ...(tools === undefined ? this.#endingWithService(node) : insideWalls(grant, tools, node)),
    ];
    const path = grant.startsPrograms ? tools?.filterWithPrograms : tools?.filter;
    // Opened for each process, because descriptors that are copies of each other share the position in the file.
    const filter = path === undefined ? undefined : openSync(path, 'r');
    try {
      const way = options.connects === true ? 'pipe' : 'ignore';
      const child = spawn(program, rest, {
        cwd: grant.cwd,
        // npm asks for the home folder, and not every user is in a list of users.
        env: { HOME: '/' },
        detached: true,
        stdio: ['pipe', 'ignore', 'pipe', 'pipe', way, ...(filter === undefined ? [] : [filter])],
        windowsHide: true,
      });
      if (child.pid !== undefined) setTreePriority(child.pid, niceness.build);
      return child;
    } finally {
      if (filter !== undefined) closeSync(filter);
    }
  }

  /** Without it, a process that waits for an answer of the registry would notice only later that the service was killed. */
  #endingWithService(command: readonly string[]): readonly string[] {
    return this.#setpriv === undefined ? command : [this.#setpriv, '--pdeathsig', 'KILL', '--', ...command];
  }
}

function insideWalls(
  { read, write, cwd }: BuilderGrant,
  tools: KernelPrograms,
  command: readonly string[],
): readonly string[] {
  const readable = [process.execPath, ...tools.libraries, ...read];
  return [
    tools.bwrap,
    ...['--unshare-all', '--die-with-parent', '--cap-drop', 'ALL'],
    // npm asks for the home folder, and there is no list of users to look it up in.
    ...['--hostname', 'millrace', '--clearenv', '--setenv', 'HOME', '/'],
    ...readable.flatMap((path) => ['--ro-bind', path, path]),
    ...write.flatMap((path) => ['--bind', path, path]),
    ...devices.flatMap((device) => ['--dev-bind', device, device]),
    // The root is in memory, and its size has no limit.
    ...['--remount-ro', '/', '--chdir', cwd, '--seccomp', String(filterDescriptor), '--'],
    ...command,
  ];
}
