import { type ChildProcess, spawn } from 'node:child_process';
import type { Socket } from 'node:net';

/** What one sandboxed process is given. Nothing that is not named here reaches it. */
export interface SandboxGrant {
  level: 'off' | 'default';
  /** The one file it starts from. */
  program: string;
  /** The one folder it may read and write, its own. */
  scratch: string;
  /** Further folders that it may read: npm packages of those whose code it will run. */
  packages?: readonly string[];
  /** Native addons may be loaded from there. They are beyond the permission model. */
  addons?: boolean;
  memoryMb: number;
  /** Set when the service is root: a user that owns nothing but `scratch`. */
  uid?: number;
  /** Path of setpriv, which ends the process when the service dies and forbids set-uid programs. */
  setpriv?: string;
}

export interface SpawnedSandbox {
  child: ChildProcess;
  rpc: Socket;
  egress: Socket;
}

/**
 * Flags, environment, descriptors, user and folder of a sandboxed process: this function is the whole answer to
 * what user code can touch. The hardened level (bubblewrap) will wrap the same command here.
 */
export function spawnSandbox(grant: SandboxGrant): SpawnedSandbox {
  const [command, args] = sandboxCommand(grant);
  const child = spawn(command, args, {
    // Not the terminal's process group: Ctrl-C must let the service end its calls in order.
    detached: true,
    cwd: '/',
    // Credentials come with calls; the service's environment holds secrets.
    env: { TZ: 'UTC' },
    // 0 nothing, 1-2 watched for floods, 3 rpc, 4 egress, 5 reserved for large db reads.
    stdio: ['ignore', 'pipe', 'pipe', 'pipe', 'pipe', 'pipe'],
    ...(grant.uid === undefined ? {} : { uid: grant.uid, gid: grant.uid }),
  });
  // Without descriptors left node makes no streams, and tells why later.
  const [, , , rpc, egress] = child.stdio ?? [];
  if (rpc == null || egress == null) {
    child.on('error', () => undefined);
    child.kill('SIGKILL');
    throw new Error('a process could not be started: no descriptors are left');
  }
  return { child, rpc: rpc as Socket, egress: egress as Socket };
}

function sandboxCommand(grant: SandboxGrant): [string, string[]] {
  const mayLoadAddons = grant.packages !== undefined && grant.addons === true;
  const flags = [
    ...(grant.level === 'off'
      ? []
      : [
          '--permission',
          `--allow-fs-read=${grant.scratch}`,
          `--allow-fs-write=${grant.scratch}`,
          // The last for what is below one that is not there yet: Node looks at the start only whether it is a folder.
          ...(grant.packages ?? []).flatMap((folder) => [
            `--allow-fs-read=${folder}`,
            `--allow-fs-read=${folder}/*`,
          ]),
          ...(mayLoadAddons ? ['--allow-addons'] : []),
        ]),
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
