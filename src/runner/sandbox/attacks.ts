import { spawn } from 'node:child_process';
import { closeSync, mkdirSync, openSync, readdirSync, readFileSync, renameSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { basename, dirname, join, relative } from 'node:path';
import type { AttackTargets } from '#runner/protocol.ts';
import { processStart } from './process-start.ts';

/**
 * Ways out of a sandbox, one for each class of hostile code, which the self-test tries at the start. Each returns true when it succeeds. At
 * the kernel level they run without Node's permission model, which is no wall.
 */
type Attack = (targets: AttackTargets, scratch: string) => boolean | Promise<boolean>;

const attacks: Readonly<Record<string, Attack>> = {
  'files by path': ({ canary, secret, servicePid }) =>
    [canary, ...[1, servicePid, 'self'].map((pid) => join(`/proc/${pid}/root`, canary))].some((path) =>
      reads(path, secret),
    ),
  'files by another working directory': ({ canary, secret }) => {
    const before = process.cwd();
    try {
      process.chdir(dirname(canary));
      return reads(basename(canary), secret);
    } catch {
      return false;
    } finally {
      if (process.cwd() !== before) process.chdir(before);
    }
  },
  'files by a folder that is renamed': readThroughRenamed,
  'writing files': ({ canary, program }) =>
    [join(dirname(canary), 'written'), '/written', '/dev/written', program, process.execPath].some(writes),
  'memory of other processes': (targets) =>
    [...(mayBeService(targets) ? [targets.servicePid] : []), ...otherPids()].some(
      (pid) => opens(`/proc/${pid}/mem`) || opens(`/proc/${pid}/environ`),
    ),
  'signals to other processes': (targets) =>
    mayBeService(targets) && doesNotThrow(() => process.kill(targets.servicePid, 0)),
  'a program that outlives the call': startProgram,
  'connections to loopback': ({ port }) => connects(port),
  'the environment of the service': () =>
    ['/proc/self/environ', '/proc/1/environ'].some((path) => environmentNames(path).some(isForeign)) ||
    Object.keys(process.env).some(isForeign),
};

/** Names of the attacks that succeeded, and the number of attacks. */
export async function runAttacks(
  targets: AttackTargets,
  scratch: string,
): Promise<{ tried: number; through: string[] }> {
  const through: string[] = [];
  for (const [name, attack] of Object.entries(attacks))
    if (await attack(targets, scratch)) through.push(name);
  return { tried: Object.keys(attacks).length, through };
}

function reads(path: string, secret: string): boolean {
  try {
    return readFileSync(path, 'utf8') === secret;
  } catch {
    return false;
  }
}

/** Only opens the file and writes nothing: a file that can be opened like this can be changed. */
function writes(path: string): boolean {
  return doesNotThrow(() => closeSync(openSync(path, 'a')));
}

function opens(path: string): boolean {
  return doesNotThrow(() => closeSync(openSync(path, 'r')));
}

function doesNotThrow(work: () => unknown): boolean {
  try {
    work();
    return true;
  } catch {
    return false;
  }
}

const usualRenameMs = 50;
/** Renames to and fro, because the kernel walks the path again after the first one. Other threads read meanwhile. */
const renames = 50;
/** Steps of the walk along the path, within the maximum length of a path. They give the rename time. */
const steps = 1500;

/**
 * As written, the path leads into the process's own folder. A folder on it is moved one level up while the kernel walks along it, and then the
 * same `..` lead out.
 */
async function readThroughRenamed(targets: AttackTargets, scratch: string): Promise<boolean> {
  const { canary, secret, renameMs = usualRenameMs } = targets;
  try {
    const [deep, high] = [join(scratch, 'deep', 'in'), join(scratch, 'in')];
    mkdirSync(deep, { recursive: true });
    const target = relative(dirname(scratch), canary);
    const path = `${deep}${'/.'.repeat(steps)}/../../${target}`;
    const deadline = performance.now() + renameMs;
    while (performance.now() < deadline) {
      const reading = Array.from({ length: 3 }, () => readFile(path, 'utf8').catch(() => ''));
      for (let i = 0; i < renames; i += 1) {
        renameSync(deep, high);
        renameSync(high, deep);
      }
      const found = await Promise.all(reading);
      if (found.includes(secret)) return true;
    }
  } catch {
    // The attack cannot begin.
  }
  return false;
}

/**
 * False when the process that has the number of the service here is another one. In a container the service is often the first process, and so
 * is one of each namespace of processes.
 */
function mayBeService({ servicePid, serviceStart }: AttackTargets): boolean {
  const start = processStart(servicePid);
  return start === '' || start === serviceStart;
}

/** Visible processes, apart from this one and the first of the namespace, which is bubblewrap's. */
function otherPids(): number[] {
  try {
    return readdirSync('/proc')
      .map(Number)
      .filter((pid) => pid > 1 && pid !== process.pid);
  } catch {
    return [];
  }
}

function startProgram(): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  try {
    const child = spawn(process.execPath, ['-e', 'setTimeout(() => {}, 60_000)'], {
      detached: true,
      stdio: 'ignore',
    });
    child.on('error', () => resolve(false));
    child.on('spawn', () => {
      child.kill('SIGKILL');
      resolve(true);
    });
  } catch {
    resolve(false);
  }
  return promise;
}

const refusals = ['EPERM', 'EACCES', 'ERR_ACCESS_DENIED'];

/** True when a socket can be created, whether or not a server answers. */
function connects(port: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const take = (error: NodeJS.ErrnoException): void => resolve(!refusals.includes(error.code ?? ''));
  try {
    const socket = connect({ host: '127.0.0.1', port });
    socket.on('error', take);
    socket.on('connect', () => {
      socket.destroy();
      resolve(true);
    });
  } catch (error) {
    take(error as NodeJS.ErrnoException);
  }
  return promise;
}

function environmentNames(path: string): string[] {
  try {
    return readFileSync(path, 'utf8')
      .split('\0')
      .flatMap((entry) => (entry === '' ? [] : [entry.slice(0, entry.indexOf('='))]));
  } catch {
    return [];
  }
}

/** Bubblewrap adds `PWD`. */
function isForeign(name: string): boolean {
  return name !== 'TZ' && name !== 'PWD';
}
