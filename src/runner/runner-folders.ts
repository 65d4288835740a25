import { createHash } from 'node:crypto';
import {
  accessSync,
  chmodSync,
  chownSync,
  constants,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { removeTree, removeTreeSync } from './remove-tree.ts';

const processesFolder = 'processes';

/**
 * Folders of the runner. `<base>/program` holds the program. `<base>/run-<pid>-<start>` belongs to one running service: `processes` with an empty
 * file for each of its processes, and one scratch folder for each. The folders of a dead service are removed at start. A folder that cannot be
 * removed is reported to `onLeftOver` and stays: user code decides what is in a scratch folder, and must not be able to prevent a start or
 * stop of the service.
 */
export class SandboxFolders {
  readonly program: string;
  /** Belongs to this service alone; what is in it is removed with the last of it. */
  readonly run: string;
  readonly #base: string;
  readonly #temporary: boolean;
  /** Names of living processes in the list, by pid. */
  readonly #alive = new Map<number, string>();
  readonly #onLeftOver: (folder: string, error: unknown) => void;
  #count = 0;

  constructor(
    place: { base: string; temporary: boolean },
    onLeftOver: (folder: string, error: unknown) => void = () => undefined,
  ) {
    const { base } = place;
    this.#base = base;
    this.#onLeftOver = onLeftOver;
    this.#temporary = place.temporary;
    this.program = join(base, 'program');
    this.run = join(base, `run-${process.pid}-${startTimeOf(process.pid) ?? '0'}`);
    reapLeftovers(base, onLeftOver);
    for (const folder of [base, this.program, this.run]) mkdirSync(folder, { recursive: true, mode: 0o711 });
    mkdirSync(join(this.run, processesFolder), { recursive: true, mode: 0o700 });
    // The umask may have removed the permission that another user needs: to pass through the folder, not to list it.
    for (const folder of [this.program, this.run]) chmodSync(folder, 0o711);
  }

  /** Creates an empty folder that only `uid` may enter. */
  newScratch(uid: number | undefined): string {
    this.#count += 1;
    const folder = join(this.run, `scratch-${this.#count}`);
    mkdirSync(folder, { mode: 0o700 });
    if (uid !== undefined) chownSync(folder, uid, uid);
    return folder;
  }

  async removeScratch(folder: string): Promise<void> {
    await removeTree(folder);
  }

  /**
   * Records a process before it does anything, so that it is known after a crash of the service. Each process has its own file: on some file
   * systems, the replacement of one list would wait for the disk, and all calls with it.
   */
  processStarted(pid: number): void {
    const name = `${pid}-${startTimeOf(pid) ?? ''}`;
    this.#alive.set(pid, name);
    writeFileSync(join(this.run, processesFolder, name), '');
  }

  processesEnded(pids: readonly number[]): void {
    for (const pid of pids) {
      const name = this.#alive.get(pid);
      if (name === undefined) continue;
      this.#alive.delete(pid);
      rmSync(join(this.run, processesFolder, name), { force: true });
    }
  }

  /** Removes the folders of this run. If the base is under the system's temporary folder, the last service removes it too. */
  remove(): void {
    try {
      removeTreeSync(this.run);
      const isLast = !readdirSync(this.#base).some((name) => name.startsWith('run-'));
      if (this.#temporary && isLast) rmSync(this.#base, { recursive: true, force: true });
    } catch (error) {
      this.#onLeftOver(this.run, error);
    }
  }
}

/** Kills the processes of services that have ended (after a crash they still run) and removes their folders. */
function reapLeftovers(base: string, onLeftOver: (folder: string, error: unknown) => void): void {
  let names: string[];
  try {
    names = readdirSync(base);
  } catch {
    return;
  }
  for (const name of names) {
    const match = /^run-(\d+)-(\d+)$/.exec(name);
    if (match === null || startTimeOf(Number(match[1])) === match[2]) continue;
    const folder = join(base, name);
    for (const listed of namesIn(join(folder, processesFolder))) {
      const [pid, start] = listed.split('-');
      if (start !== undefined && start !== '') endLeftover(Number(pid), start);
    }
    try {
      removeTreeSync(folder);
    } catch (error) {
      onLeftOver(folder, error);
    }
  }
}

/** Ends a process of a dead service, and those of its process group that have outlived it. */
function endLeftover(pid: number, start: string): void {
  // The start time distinguishes it from an unrelated process with the same pid.
  for (const target of startTimeOf(pid) === start ? [-pid, pid] : leftOfGroup(pid, Number(start))) {
    try {
      process.kill(target, 'SIGKILL');
    } catch {
      // It has ended already.
    }
  }
}

/** Bubblewrap starts its child within this time. */
const groupStartTicksMax = 200;

function leftOfGroup(group: number, start: number): number[] {
  const pids = namesIn('/proc').filter((name) => /^\d+$/.test(name));
  return pids.map(Number).filter((pid) => {
    const stat = statOf(pid);
    const afterTicks = Number(stat?.startTime) - start;
    return stat?.group === group && afterTicks >= 0 && afterTicks <= groupStartTicksMax;
  });
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** Start time of a living process in clock ticks since boot. Undefined for no process, for a zombie, and without /proc. */
export function startTimeOf(pid: number): string | undefined {
  return statOf(pid)?.startTime;
}

function statOf(pid: number): { startTime: string | undefined; group: number } | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The name in parentheses may hold spaces and parentheses.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    if (fields[0] === 'Z' || fields[0] === 'X') return undefined;
    return { startTime: fields[19], group: Number(fields[2]) };
  } catch {
    return undefined;
  }
}

/**
 * Returns `folder`. If the service is root and other users cannot pass through `folder`, returns a folder under the system's temporary one
 * instead: the processes run as other users, and must reach their program and scratch folder.
 */
export function reachableBase(folder: string, distinctUsers: boolean): { base: string; temporary: boolean } {
  mkdirSync(folder, { recursive: true, mode: 0o711 });
  const real = realpathSync(folder);
  if (!distinctUsers || othersCanReach(real)) return { base: real, temporary: false };
  const name = `millrace-${createHash('sha256').update(real).digest('hex').slice(0, 16)}`;
  const base = join(realpathSync(tmpdir()), name);
  mkdirSync(base, { recursive: true, mode: 0o711 });
  // The name can be guessed, so another user may have created the folder, and could replace the program in it.
  const stat = lstatSync(base);
  if (!stat.isDirectory() || stat.uid !== process.getuid?.() || (stat.mode & 0o022) !== 0) {
    throw new Error(`${base} exists and does not belong to this service alone: remove it`);
  }
  chmodSync(base, 0o711);
  return { base, temporary: true };
}

/** True when a user without any of the service's permissions can reach `path`. */
export function othersCanReach(path: string): boolean {
  for (let current = path; ; current = dirname(current)) {
    if ((statSync(current).mode & 0o001) === 0) return false;
    if (current === dirname(current)) return true;
  }
}

/** Finds an executable on the search path of the service. */
export function findExecutable(
  name: string,
  searchPath = '/usr/bin:/bin:/usr/sbin:/sbin',
): string | undefined {
  for (const folder of searchPath.split(delimiter)) {
    const path = join(folder, name);
    try {
      accessSync(path, constants.X_OK);
      return path;
    } catch {
      // It is not in this folder.
    }
  }
  return undefined;
}
