import type { SandboxGrant } from './confinement.ts';

/**
 * Program and arguments that start the sandboxed process as Node confines it.
 *
 * The seat belt grants no file. Node checks a path before it opens it: whoever can rename or link something in one folder that is granted
 * reaches every file of the machine, and with /proc/self/mem switches the checks off. What stands for files there is in memory.
 */
export function nodeCommand(grant: SandboxGrant): [string, string[]] {
  const mayLoadAddons = grant.packages !== undefined && grant.addons === true;
  const flags = [
    ...permissionFlags(grant),
    ...(mayLoadAddons && grant.level !== 'off' ? ['--allow-addons'] : []),
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
  if (grant.setpriv === undefined) return [process.execPath, flags];
  return [grant.setpriv, ['--pdeathsig', 'KILL', '--no-new-privs', '--', process.execPath, ...flags]];
}

function permissionFlags({ level, scratch, packages = [] }: SandboxGrant): string[] {
  if (level === 'off') return [];
  if (level === 'seat-belt') return ['--permission', '--experimental-vfs', '--allow-fs-vfs'];
  return [
    '--permission',
    `--allow-fs-read=${scratch}`,
    `--allow-fs-write=${scratch}`,
    // The last for what is below one that is not there yet: Node looks at the start only whether it is a folder.
    ...packages.flatMap((folder) => [`--allow-fs-read=${folder}`, `--allow-fs-read=${folder}/*`]),
  ];
}
