import type { SandboxGrant } from './confinement.ts';
import { packageFileBytesMax } from './protocol.ts';
import { resourceLimits } from './resource-limits.ts';

/**
 * Program and arguments that start the sandboxed process as Node confines it.
 *
 * The seat belt grants no file. Node checks a path before it opens it: whoever can rename or link something in one folder that is granted
 * reaches every file of the machine, and with /proc/self/mem switches the checks off. What stands for files there is in memory.
 */
export function nodeCommand(grant: SandboxGrant): [string, string[]] {
  const { setpriv, prlimit, memoryMb, uid } = grant;
  // It can open no file to write to; an addon that is in memory is one.
  const fileBytesMax = mayLoadAddons(grant) ? packageFileBytesMax : 0;
  const [command = process.execPath, ...args] = [
    ...(prlimit === undefined
      ? []
      : [prlimit, ...resourceLimits({ memoryMb, fileBytesMax, ownUser: uid !== undefined }), '--']),
    ...(setpriv === undefined ? [] : [setpriv, '--pdeathsig', 'KILL', '--no-new-privs', '--']),
    process.execPath,
    ...nodeFlags(grant),
  ];
  return [command, args];
}

function mayLoadAddons({ packages, addons }: Pick<NodeGrant, 'packages' | 'addons'>): boolean {
  return packages !== undefined && addons === true;
}

/** Arguments of Node, with the program that it starts. */
export function nodeFlags(grant: NodeGrant): string[] {
  const withAddons = mayLoadAddons(grant);
  return [
    ...permissionFlags(grant, withAddons),
    // node:sqlite and node:ffi open files past the permission model.
    '--no-experimental-sqlite',
    '--no-experimental-ffi',
    ...(withAddons ? [] : ['--no-addons']),
    '--disable-sigusr1',
    '--no-global-search-paths',
    '--no-warnings',
    '--use-bundled-ca',
    `--max-old-space-size=${grant.memoryMb}`,
    '--max-semi-space-size=8',
    grant.program,
  ];
}

type NodeGrant = Pick<SandboxGrant, 'level' | 'program' | 'scratch' | 'addons' | 'memoryMb' | 'bare'> & {
  packages?: readonly string[] | undefined;
};

function permissionFlags({ level, scratch, bare }: NodeGrant, withAddons: boolean): string[] {
  if (level === 'off' || bare === true) return [];
  const addons = withAddons ? ['--allow-addons'] : [];
  // The walls are elsewhere, and every file that is there may be read. What is refused is a second line.
  if (level === 'kernel')
    return ['--permission', '--allow-fs-read=*', `--allow-fs-write=${scratch}`, ...addons];
  return ['--permission', '--experimental-vfs', '--allow-fs-vfs', ...addons];
}
