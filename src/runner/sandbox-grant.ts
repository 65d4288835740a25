/**
 * The isolation of user code. `kernel`: namespaces and a filter of system calls, set up by bubblewrap. `seat-belt`: Node's permission
 * model, which stops accidents and known ways out, and is no wall. `off`: none, for development.
 */
export const sandboxLevels = ['kernel', 'seat-belt', 'off'] as const;
export type SandboxLevel = (typeof sandboxLevels)[number];

/** Programs and files that the kernel level uses on this machine. */
export interface KernelPrograms {
  bwrap: string;
  bwrapVersion: string;
  /** Shared libraries of Node and of `prlimit`, with the loader. */
  libraries: readonly string[];
  /** Path of prlimit, which sets resource limits before Node starts; undefined where util-linux is not installed. */
  prlimit: string | undefined;
  /** Path of the file with the system call filter. */
  filter: string;
  /** The same for processes that may start programs. */
  filterWithPrograms: string;
}

/** The confinement that works on this machine, as found by the self-test. */
export interface Confinement {
  level: SandboxLevel;
  /** True: each process runs as a user that no other process has. */
  distinctUsers: boolean;
  setpriv: string | undefined;
  /** Path of prlimit for the seat belt. */
  prlimit: string | undefined;
  /** Programs of the kernel level. */
  kernel?: KernelPrograms;
  /** The reason why the kernel level is not used, where it was tried. */
  notKernel?: string;
}

/**
 * Everything that one sandboxed process is granted. What its code can read:
 *
 * - Files, at the kernel level: Node and the shared libraries that it needs, the one program, granted packages, `/proc` of its own processes, and
 *   `/tmp` in memory (`bubblewrap-command.ts`). At the seat belt: no file of the machine, but granted packages where they have `addons`
 *   (`node-command.ts`). At the level `off`: what the service can.
 * - Environment: the process starts with `TZ` alone (`launcher.ts`). The code of a source also finds `PD_COMPONENT`, a step the variables of
 *   its workflow and the IDs of workflow and run (`sandbox/deployment-environment.ts`).
 * - Network: the relay alone (`egress/egress-relay.ts`), which leads to addresses that `egress/address-policy.ts` allows.
 * - Data: what comes with a call (`CallRequest` in `runner.ts`: the event, props, credentials of the accounts in props), and by host calls the data
 *   stores and files of its own owner (`workflows/runs/run-host-calls.ts`).
 * - Memory: all that other deployments of its trust domain (`trust-domain.ts`) have in the process that they share: globals, modules of Node, and
 *   whatever code can find of the others' values. A deployment that is `isolated` shares with none. Owners never share.
 */
export interface SandboxGrant {
  level: SandboxLevel;
  /** Path of the one file that it starts from. */
  program: string;
  /**
   * The one folder that it may read and write. At the kernel level it is `/tmp` inside, and in memory. Absent at the seat belt, where no file of
   * the machine is granted.
   */
  scratch?: string;
  scratchBytesMax: number;
  /** Further folders that it may read: npm packages of the code that it will run. At the seat belt they are granted only with `addons`. */
  packages?: readonly string[];
  /** True: native addons may be loaded from these folders. They are not subject to the permission model. */
  addons?: boolean;
  memoryMb: number;
  /** User ID that owns only `scratch`. Set when the service is root. */
  uid?: number;
  /** Path of setpriv, which ends the process when the service dies and forbids set-uid programs. */
  setpriv?: string;
  /** Path of prlimit, which sets resource limits before Node starts. */
  prlimit?: string;
  /** Programs of the kernel level; absent at the other levels. */
  kernel?: KernelPrograms;
  /** True: the process runs without Node's permission model, so that the self-test tries the walls behind it. */
  bare?: boolean;
}
