import { existsSync } from 'node:fs';
import { constants } from 'node:os';
import type { SandboxGrant } from './confinement.ts';
import { insidePaths, kernelCommand, packagesInside } from './kernel-command.ts';
import type { ProcessExit } from './launch-messages.ts';
import type { Launched, Launcher } from './launcher.ts';
import { nodeCommand } from './node-command.ts';
import { childrenOf } from './process-memory.ts';

export interface SpawnedSandbox {
  /** What was started: the process that runs user code, or bubblewrap, which started that one. */
  launched: Launched;
  /** Where the process finds its own folder and folders of packages. */
  scratchInside: string | undefined;
  packagesInside: (folder: string) => string;
  /** Whether a folder of packages was there when the process was started, or may still come. */
  mayRead: (packagesFolder: string) => boolean;
  /** How the process ended that runs user code, by how what was started did. */
  endOf: (exit: ProcessExit) => ProcessExit;
  /** To be asked when the program has said that it runs. Undefined: it has ended since. */
  findPids: () => SandboxPids | undefined;
}

export interface SandboxPids {
  /** The process that runs user code. */
  node: number;
  /** The first process of its PID namespace: when it is gone, all others are. */
  init?: number;
}

/**
 * Flags, environment, descriptors, user and folder of a sandboxed process: this function is the whole answer to
 * what user code can touch, with the two commands that it chooses from.
 */
export async function spawnSandbox(launcher: Launcher, grant: SandboxGrant): Promise<SpawnedSandbox> {
  const { kernel } = grant;
  const packages = kernel === undefined ? undefined : grant.packages?.filter((folder) => existsSync(folder));
  const [command, args] = kernel === undefined ? nodeCommand(grant) : kernelCommand(grant, kernel);
  const launched = await launcher.launch({
    ...{ command, args, cwd: '/' },
    // Credentials come with calls.
    env: { TZ: 'UTC' },
    ...(grant.uid === undefined ? {} : { uid: grant.uid }),
    // Read by bubblewrap.
    ...(kernel === undefined ? {} : { openFile: kernel.filter }),
  });
  const isKernel = kernel !== undefined;
  return {
    launched,
    scratchInside: isKernel ? insidePaths.tmp : grant.scratch,
    packagesInside: isKernel ? packagesInside : (folder) => folder,
    mayRead: (folder) => packages === undefined || packages.includes(folder),
    endOf: (exit) => (isKernel ? endInside(exit) : exit),
    findPids: () => findPids(launched.pid, isKernel),
  };
}

/** Bubblewrap ends with 128 and the number of the signal that ended what it started. */
function endInside({ code, signal }: ProcessExit): ProcessExit {
  const [name] = Object.entries(constants.signals).find(([, number]) => number + 128 === code) ?? [];
  return name === undefined ? { code, signal } : { code: null, signal: name as NodeJS.Signals };
}

/** Bubblewrap has one child, which is the first of the PID namespace and has Node as its only child. */
function findPids(pid: number, isKernel: boolean): SandboxPids | undefined {
  if (!isKernel) return { node: pid };
  const [init] = childrenOf(pid);
  const [node] = init === undefined ? [] : childrenOf(init);
  return init === undefined || node === undefined ? undefined : { node, init };
}
