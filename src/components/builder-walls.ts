import type { KernelPrograms } from '#runner/confinement.ts';

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

/** Small, and nothing there: what a process asks for in passing. */
const devices = ['null', 'zero', 'random', 'urandom'].map((name) => `/dev/${name}`);

/**
 * Walls of the kernel around builder processes, where the sandbox of user code has them too: namespaces of their own, without a network,
 * and a root with Node, the program, and what the process is granted, by the same paths as outside. They have no filter of system
 * calls, since esbuild is a program that the bundler starts.
 *
 * It is made before the sandbox, which then reports what works here.
 */
export class BuilderWalls {
  #programs: KernelPrograms | undefined;

  /** Processes that start from now on have walls; undefined: they have Node's permissions alone. */
  raise(tools: KernelPrograms | undefined): void {
    this.#programs = tools;
  }

  get areRaised(): boolean {
    return this.#programs !== undefined;
  }

  /** Program and arguments that start Node with these arguments. */
  command({ read, write, cwd }: BuilderGrant, args: readonly string[]): [string, string[]] {
    const tools = this.#programs;
    if (tools === undefined) return [process.execPath, [...args]];
    const readable = [process.execPath, ...tools.libraries, ...read];
    return [
      tools.bwrap,
      [
        ...['--unshare-all', '--die-with-parent', '--new-session', '--cap-drop', 'ALL'],
        // npm asks for the home folder, and there is no list of users to look it up in.
        ...['--hostname', 'millrace', '--clearenv', '--setenv', 'HOME', '/'],
        ...readable.flatMap((path) => ['--ro-bind', path, path]),
        ...write.flatMap((path) => ['--bind', path, path]),
        ...devices.flatMap((device) => ['--dev-bind', device, device]),
        // The root is in memory, and its size has no limit.
        ...['--remount-ro', '/', '--chdir', cwd, '--'],
        ...[process.execPath, ...args],
      ],
    ];
  }
}
