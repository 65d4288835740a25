import { resourceLimits } from './resource-limits.ts';
import type { SandboxGrant } from './sandbox-grant.ts';

/**
 * Program and arguments that start the sandboxed process under Node's permission model.
 *
 * The seat belt grants no file (apart from packages, to code that may load native addons). Node checks a path before it opens it. Code that can
 * rename or link something in one granted folder therefore reaches every file of the machine, and switches the checks off with
 * /proc/self/mem. Its files are in memory instead.
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
    // node:sqlite and node:ffi open files without a check by the permission model.
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
  // The walls are elsewhere, and every file that exists inside may be read. The permission model is a second line.
  if (level === 'kernel')
    return ['--permission', '--allow-fs-read=*', `--allow-fs-write=${scratch}`, ...addons];
  // The permission model does not check native addons, so granting folders that nothing can be written to adds no risk.
  const readable = withAddons ? (packages ?? []) : [];
  return [
    ...['--permission', '--experimental-vfs', '--allow-fs-vfs', ...addons],
    // The pattern covers files below a folder that does not exist yet: Node checks only at the start whether a path is a folder.
    ...readable.flatMap((folder) => [`--allow-fs-read=${folder}`, `--allow-fs-read=${folder}/*`]),
  ];
}
