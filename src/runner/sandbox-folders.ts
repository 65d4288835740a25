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
 * Folders of the runner: `<base>/program` holds the program, `<base>/run-<pid>-<start>` what belongs to one running
 * service: `processes` with an empty file for each of its processes, and one scratch folder for each. What a dead service left is cleared at start.
 * What cannot be cleared is told to `onLeftOver` and stays: user code decides what is in a scratch folder, and must
 * not be able to keep a service from starting or stopping.
 */
export class SandboxFolders {
  readonly program: string;
  readonly #base: string;
  readonly #temporary: boolean;
  readonly #run: string;
  /** Of living processes, the names in their list. */
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
    this.#run = join(base, `run-${process.pid}-${startTimeOf(process.pid) ?? '0'}`);
    reapLeftovers(base, onLeftOver);
    for (const folder of [base, this.program, this.#run]) mkdirSync(folder, { recursive: true, mode: 0o711 });
    mkdirSync(join(this.#run, processesFolder), { recursive: true, mode: 0o700 });
    // The umask may have taken what a distinct uid needs: passing through, not listing.
    for (const folder of [this.program, this.#run]) chmodSync(folder, 0o711);
  }

  /** A new, empty folder that only `uid` may enter. */
  newScratch(uid: number | undefined): string {
    this.#count += 1;
    const folder = join(this.#run, `scratch-${this.#count}`);
    mkdirSync(folder, { mode: 0o700 });
    if (uid !== undefined) chownSync(folder, uid, uid);
    return folder;
  }

  async removeScratch(folder: string): Promise<void> {
    await removeTree(folder);
  }

  /**
   * Written before a process does anything, so that a crash of the service leaves none unknown. A file for each: a list that is replaced as a
   * whole waits for the disk on some file systems, and all calls with it.
   */
  processStarted(pid: number): void {
    const name = `${pid}-${startTimeOf(pid) ?? ''}`;
    this.#alive.set(pid, name);
    writeFileSync(join(this.#run, processesFolder, name), '');
  }

  processesEnded(pids: readonly number[]): void {
    for (const pid of pids) {
      const name = this.#alive.get(pid);
      if (name === undefined) continue;
      this.#alive.delete(pid);
      rmSync(join(this.#run, processesFolder, name), { force: true });
    }
  }

  /** Removes what belonged to this run; of a base under the system's temporary folder everything, with the last service. */
  remove(): void {
    try {
      removeTreeSync(this.#run);
      const isLast = !readdirSync(this.#base).some((name) => name.startsWith('run-'));
      if (this.#temporary && isLast) rmSync(this.#base, { recursive: true, force: true });
    } catch (error) {
      this.#onLeftOver(this.#run, error);
    }
  }
}

/** Kills the processes of services that are gone (a crash leaves them running) and removes their folders. */
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

/** Ends a process of a dead service, and of its group what has outlived it. */
function endLeftover(pid: number, start: string): void {
  // The start time tells our processes from strangers that got the same number.
  for (const target of startTimeOf(pid) === start ? [-pid, pid] : leftOfGroup(pid, Number(start))) {
    try {
      process.kill(target, 'SIGKILL');
    } catch {
      // Gone, or gone in between.
    }
  }
}

/** Bubblewrap starts its child at once. */
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

/** Start time of a living process in clock ticks since boot; undefined for none, for a zombie, and without /proc. */
export function startTimeOf(pid: number): string | undefined {
  return statOf(pid)?.startTime;
}

function statOf(pid: number): { startTime: string | undefined; group: number } | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The name in parentheses may hold spaces and parentheses.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    if (fields[0] === 'Z' || fields[0] === 'X') return undefined;
    return { startTime: fields[19], group: Number(fields[2]) };
  } catch {
    return undefined;
  }
}

/**
 * `folder`, or for a root service whose folder other users cannot pass through, a folder of its own under the
 * system's temporary one: the processes run as other users and must reach their program and scratch folder.
 */
export function reachableBase(folder: string, distinctUsers: boolean): { base: string; temporary: boolean } {
  mkdirSync(folder, { recursive: true, mode: 0o711 });
  const real = realpathSync(folder);
  if (!distinctUsers || othersCanReach(real)) return { base: real, temporary: false };
  const name = `millrace-${createHash('sha256').update(real).digest('hex').slice(0, 16)}`;
  const base = join(realpathSync(tmpdir()), name);
  mkdirSync(base, { recursive: true, mode: 0o711 });
  // The name can be guessed: whoever made it first could put another program there.
  const stat = lstatSync(base);
  if (!stat.isDirectory() || stat.uid !== process.getuid?.() || (stat.mode & 0o022) !== 0) {
    throw new Error(`${base} exists and does not belong to this service alone: remove it`);
  }
  chmodSync(base, 0o711);
  return { base, temporary: true };
}

/** Whether a user without any rights of ours can get to `path`. */
export function othersCanReach(path: string): boolean {
  for (let current = path; ; current = dirname(current)) {
    if ((statSync(current).mode & 0o001) === 0) return false;
    if (current === dirname(current)) return true;
  }
}

/** An executable on the service's own search path. */
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
      // Not here.
    }
  }
  return undefined;
}
