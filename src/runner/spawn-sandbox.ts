import { existsSync } from 'node:fs';
import { constants } from 'node:os';
import { insidePaths, kernelCommand, packagesInside } from './bubblewrap-command.ts';
import { niceness } from './cpu-shares.ts';
import type { ProcessExit } from './launch-messages.ts';
import type { Launched, Launcher } from './launcher.ts';
import { nodeCommand } from './node-command.ts';
import type { ProcessGroup } from './process-groups.ts';
import { childrenOf } from './process-memory.ts';
import type { SandboxGrant } from './sandbox-grant.ts';

export interface SpawnedSandbox {
  /** The process that was started: the one that runs user code, or bubblewrap, which starts that one. */
  launched: Launched;
  /** Paths at which the process finds its own folder and folders of packages. */
  scratchInside: string | undefined;
  packagesInside: (folder: string) => string;
  /** True when a folder of packages existed when the process started, or may be added later. */
  mayRead: (packagesFolder: string) => boolean;
  /** Its control group, where it has one. */
  group: ProcessGroup | undefined;
  /** How the process that runs user code ended, derived from the end of the started one. */
  endOf: (exit: ProcessExit) => ProcessExit;
  /** Called when the program has reported that it runs. Undefined when it has ended since. */
  findPids: () => SandboxPids | undefined;
}

export interface SandboxPids {
  /** The process that runs user code. */
  node: number;
  /** The first process of its PID namespace. When it has ended, all others have too. */
  init?: number;
}

/**
 * Starts a sandboxed process with its flags, environment, descriptors, user and folder. This function and the two commands that it chooses
 * from determine everything that user code can reach, except what comes over its descriptors: connections by `egress/egress-relay.ts`, which
 * `sandbox-process.ts` attaches, and calls with their answers.
 */
export async function spawnSandbox(
  launcher: Launcher,
  grant: SandboxGrant,
  group?: ProcessGroup,
): Promise<SpawnedSandbox> {
  const { kernel } = grant;
  const packages = kernel === undefined ? undefined : grant.packages?.filter((folder) => existsSync(folder));
  const [command, args] = kernel === undefined ? nodeCommand(grant) : kernelCommand(grant, kernel);
  const launched = await launcher.launch({
    ...{ command, args, cwd: '/', niceness: niceness.usual },
    // There are no credentials in it; they come with calls.
    env: { TZ: 'UTC' },
    ...(grant.uid === undefined ? {} : { uid: grant.uid }),
    ...(group === undefined ? {} : { groupFile: group.procsFile }),
    // Bubblewrap reads this file.
    ...(kernel === undefined ? {} : { openFile: kernel.filter }),
  });
  const isKernel = kernel !== undefined;
  return {
    launched,
    group,
    scratchInside: isKernel ? insidePaths.tmp : grant.scratch,
    packagesInside: isKernel ? packagesInside : (folder) => folder,
    mayRead: (folder) => packages === undefined || packages.includes(folder),
    endOf: (exit) => (isKernel ? endInside(exit) : exit),
    findPids: () => findPids(launched.pid, isKernel),
  };
}

/** Bubblewrap exits with 128 plus the number of the signal that ended its child. */
function endInside({ code, signal }: ProcessExit): ProcessExit {
  const [name] = Object.entries(constants.signals).find(([, number]) => number + 128 === code) ?? [];
  return name === undefined ? { code, signal } : { code: null, signal: name as NodeJS.Signals };
}

/** Bubblewrap has one child, which is the first process of the PID namespace and has Node as its only child. */
function findPids(pid: number, isKernel: boolean): SandboxPids | undefined {
  if (!isKernel) return { node: pid };
  const [init] = childrenOf(pid);
  const [node] = init === undefined ? [] : childrenOf(init);
  return init === undefined || node === undefined ? undefined : { node, init };
}
