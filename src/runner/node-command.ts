import type { SandboxGrant } from './confinement.ts';

/**
 * Program and arguments that start the sandboxed process as Node confines it.
 *
 * The seat belt grants no file. Node checks a path before it opens it: whoever can rename or link something in one folder that is granted
 * reaches every file of the machine, and with /proc/self/mem switches the checks off. What stands for files there is in memory.
 */
export function nodeCommand(grant: SandboxGrant): [string, string[]] {
  const flags = nodeFlags(grant);
  if (grant.setpriv === undefined) return [process.execPath, flags];
  return [grant.setpriv, ['--pdeathsig', 'KILL', '--no-new-privs', '--', process.execPath, ...flags]];
}

/** Arguments of Node, with the program that it starts. */
export function nodeFlags(grant: NodeGrant): string[] {
  const mayLoadAddons = grant.packages !== undefined && grant.addons === true;
  return [
    ...permissionFlags(grant, mayLoadAddons),
    // node:sqlite and node:ffi open files past the permission model.
    '--no-experimental-sqlite',
    '--no-experimental-ffi',
    ...(mayLoadAddons ? [] : ['--no-addons']),
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

function permissionFlags({ level, scratch, bare }: NodeGrant, mayLoadAddons: boolean): string[] {
  if (level === 'off' || bare === true) return [];
  const addons = mayLoadAddons ? ['--allow-addons'] : [];
  // The walls are elsewhere, and every file that is there may be read. What is refused is a second line.
  if (level === 'kernel')
    return ['--permission', '--allow-fs-read=*', `--allow-fs-write=${scratch}`, ...addons];
  return ['--permission', '--experimental-vfs', '--allow-fs-vfs', ...addons];
}
