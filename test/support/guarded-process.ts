import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, lchownSync, statSync } from 'node:fs';
import { chmod, mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Writable } from 'node:stream';

export { freePort } from './free-port.ts';

/** The user that a program runs as; undefined: the user who runs the tests. */
export type Identity = { uid: number; gid: number } | undefined;

/**
 * Runs a program that ends when this process does. On POSIX a small shell waits on the other end of a pipe: it reads a
 * line when we ended the program ourselves, and the end of the pipe when we died; then it ends the program and removes
 * its folder. The shell is started twice removed, so that the server does not meet a child it does not know.
 */
const guard = `
( { read -r ended <&3 || { kill -QUIT $$; while kill -0 $$; do sleep 0.1; done; rm -rf "$MILLRACE_TEST_FOLDER"; }; } >/dev/null 2>&1 & )
exec 3<&- "$@"
`;

export function spawnGuarded(
  program: string,
  args: string[],
  options: { env: Record<string, string>; identity: Identity; folder: string },
): ChildProcess {
  // A process group of its own: Ctrl-C, or a kill of our whole group, must leave the guard alive to do its work.
  const common = { cwd: options.folder, detached: true, ...options.identity };
  if (process.platform === 'win32')
    return spawn(program, args, { ...common, env: options.env, stdio: ['ignore', 'pipe', 'pipe'] });
  const env = { PATH: '/usr/bin:/bin', ...options.env, MILLRACE_TEST_FOLDER: options.folder };
  return spawn('/bin/sh', ['-c', guard, 'sh', program, ...args], {
    ...common,
    env,
    stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
  });
}

/** The guard's own descriptor: node closes standard input by itself when the program ends, too early for the line. */
export function guardPipe(child: ChildProcess): Writable | undefined {
  return (child.stdio[3] as Writable | null | undefined) ?? undefined;
}

/** A forgotten `stop` must not keep a test file from ending; the guard cleans up then. */
export function letProcessEnd(child: ChildProcess): void {
  child.unref();
  for (const stream of child.stdio) {
    if (stream && 'unref' in stream && typeof stream.unref === 'function') stream.unref();
  }
}

/** Database servers refuse to run as root; `nobody` needs no entry in the user database. */
export function unprivilegedIdentity(): Identity {
  return process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : undefined;
}

export function own(path: string, identity: Identity): void {
  if (identity !== undefined) lchownSync(path, identity.uid, identity.gid);
}

/** A new temporary folder that belongs to `identity` and that it can reach; undefined where there is none. */
export async function makeReadableFolder(name: string, identity: Identity): Promise<string | undefined> {
  const parent = [tmpdir(), '/tmp', '/var/tmp', '/dev/shm'].find(
    (candidate) => identity === undefined || (existsSync(candidate) && othersMayEnter(candidate)),
  );
  if (parent === undefined) return undefined;
  const folder = await mkdtemp(join(parent, `millrace-${name}-`));
  await chmod(folder, 0o700);
  own(folder, identity);
  return folder;
}

/** True when a user who is neither owner nor in the group reaches `path`, which needs every folder on the way to be open. */
export function othersMayEnter(path: string): boolean {
  for (let current = path; ; current = dirname(current)) {
    if ((statSync(current).mode & 0o001) === 0) return false;
    if (current === dirname(current)) return true;
  }
}
