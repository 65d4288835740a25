import type { SandboxGrant } from './confinement.ts';
import { resourceLimits } from './resource-limits.ts';

/**
 * Program and arguments that start the sandboxed process as Node confines it.
 *
 * The seat belt grants no file (but packages, to code that may load native addons). Node checks a path before it opens it: whoever can rename or link something in one folder that is granted
 * reaches every file of the machine, and with /proc/self/mem switches the checks off. What stands for files there is in memory.
 */
export function nodeCommand(grant: SandboxGrant): [string, string[]] {
  const { setpriv, prlimit, memoryMb, uid } = grant;
  const [command = process.execPath, ...args] = [
    ...(prlimit === undefined
      ? []
      : [prlimit, ...resourceLimits({ memoryMb, fileBytesMax: 0, ownUser: uid !== undefined }), '--']),
    ...(setpriv === undefined ? [] : [setpriv, '--pdeathsig', 'KILL', '--no-new-privs', '--']),
    process.execPath,
    ...nodeFlags(grant),
  ];
  return [command, args];
}

/** Arguments of Node, with the program that it starts. */
export function nodeFlags(grant: NodeGrant): string[] {
  const withAddons = grant.packages !== undefined && grant.addons === true;
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

function permissionFlags({ level, scratch, packages, bare }: NodeGrant, withAddons: boolean): string[] {
  if (level === 'off' || bare === true) return [];
  const addons = withAddons ? ['--allow-addons'] : [];
  // The walls are elsewhere, and every file that is there may be read. What is refused is a second line.
  if (level === 'kernel')
    return ['--permission', '--allow-fs-read=*', `--allow-fs-write=${scratch}`, ...addons];
  // What an addon does nobody checks, so that folders which nothing can be written to are no more than that.
  const readable = withAddons ? (packages ?? []) : [];
  return [
    ...['--permission', '--experimental-vfs', '--allow-fs-vfs', ...addons],
    // The last for what is below one that is not there yet: Node looks at the start only whether it is a folder.
    ...readable.flatMap((folder) => [`--allow-fs-read=${folder}`, `--allow-fs-read=${folder}/*`]),
  ];
}
