/**
 * What stands around user code. `kernel`: namespaces and a filter of system calls, by bubblewrap. `seat-belt`: Node's permission
 * model, which stops accidents and known ways out, and is no wall. `off`: nothing, for development.
 */
export const sandboxLevels = ['kernel', 'seat-belt', 'off'] as const;
export type SandboxLevel = (typeof sandboxLevels)[number];

/** What the kernel level is made of on this machine. */
export interface KernelPrograms {
  bwrap: string;
  bwrapVersion: string;
  /** Shared libraries of Node and of `prlimit`, with the loader. */
  libraries: readonly string[];
  /** Sets limits of resources before Node starts; undefined where util-linux is not installed. */
  prlimit: string | undefined;
  /** File with the filter of system calls. */
  filter: string;
}

/** How this machine lets processes be confined; found out by the self-test. */
export interface Confinement {
  level: SandboxLevel;
  /** A user of its own for each process. */
  distinctUsers: boolean;
  setpriv: string | undefined;
  /** Of the seat belt. */
  prlimit: string | undefined;
  /** Of the kernel level. */
  kernel?: KernelPrograms;
  /** Why it is not the kernel level, where that was tried. */
  notKernel?: string;
}

/** What one sandboxed process is given. Nothing that is not named here reaches it. */
export interface SandboxGrant {
  level: SandboxLevel;
  /** The one file it starts from. */
  program: string;
  /**
   * The one folder it may read and write, its own. At the kernel level `/tmp` inside is that, and in memory. None at the seat belt, where
   * nothing of the machine is granted.
   */
  scratch?: string;
  scratchBytesMax: number;
  /** Further folders that it may read: npm packages of those whose code it will run. At the seat belt only with `addons`. */
  packages?: readonly string[];
  /** Native addons may be loaded from there. They are beyond the permission model. */
  addons?: boolean;
  memoryMb: number;
  /** Set when the service is root: a user that owns nothing but `scratch`. */
  uid?: number;
  /** Path of setpriv, which ends the process when the service dies and forbids set-uid programs. */
  setpriv?: string;
  /** Path of prlimit, which sets limits of resources before Node starts. */
  prlimit?: string;
  /** What the kernel level is made of; absent at the others. */
  kernel?: KernelPrograms;
  /** Without Node's permission model, for the self-test: it tries the walls behind it. */
  bare?: boolean;
}
