import {
  accessSync,
  constants,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

/** Controllers without which a group would limit nothing. `cpu` is used where it is there. */
const controllersNeeded = ['memory', 'pids'] as const;
/** The group of the service itself: a group that is divided may have no processes of its own. Also the name for systemd's DelegateSubgroup. */
const serviceGroup = 'service';
const groupPrefix = 'sandbox-';
/** A process that was killed stays in its group until its parent has noticed. */
const removalWaitsMs = [0, 5, 20, 100, 500, 2_000];
/** As the kernel weighs processes: each step of niceness is a fifth less. */
const weightOfNiceness = (niceness: number): number => Math.max(1, Math.round(100 / 1.25 ** niceness));

export interface GroupOptions {
  /** Where the groups of the machine are, such as /sys/fs/cgroup. */
  root: string;
  /** The file that names the group of this process. */
  membership?: string;
  /** For tests, where a group is a folder with real files in it. */
  removeFolder?: (folder: string) => void;
}

export interface GroupLimits {
  memoryBytesMax: number;
  /** Processes and threads. */
  tasksMax: number;
  niceness: number;
}

/**
 * Control groups (cgroup v2) of sandboxed processes, below the group that this service was started in. Promises:
 * - the service divides its group only where it was delegated to it and no other process is in it;
 * - each process has a group of its own, which ends with it;
 * - a group that cannot be made or removed is no reason to refuse a process.
 */
export class ProcessGroups {
  readonly #base: string;
  readonly #hasCpu: boolean;
  readonly #removeFolder: (folder: string) => void;
  #count = 0;

  private constructor(base: string, hasCpu: boolean, removeFolder: (folder: string) => void) {
    this.#base = base;
    this.#hasCpu = hasCpu;
    this.#removeFolder = removeFolder;
  }

  /** Moves this process into a group of its own, and makes room for others beside it. A text instead says why it may not. */
  static open({
    root,
    membership = '/proc/self/cgroup',
    removeFolder = rmdirSync,
  }: GroupOptions): ProcessGroups | string {
    const path = /^0::(\/.*)$/m.exec(textOf(membership))?.[1];
    if (path === undefined) return 'cgroup v2 is not mounted';
    const own = join(root, path);
    const base = own.endsWith(`/${serviceGroup}`) && isOurs(dirname(own)) ? dirname(own) : own;
    const controllers = wordsOf(join(base, 'cgroup.controllers'));
    if (controllers.length === 0 && !isThere(join(base, 'cgroup.controllers')))
      return 'cgroup v2 is not mounted';
    const missing = controllersNeeded.filter((name) => !controllers.includes(name));
    if (missing.length > 0)
      return `its group has no controller ${missing.join(' and ')} (found: ${controllers.join(', ') || 'none'})`;
    if (!isOurs(base)) return `${base} cannot be written`;
    const others = wordsOf(join(base, 'cgroup.procs')).filter((pid) => pid !== String(process.pid));
    if (others.length > 0) return `other processes are in its group: ${others.slice(0, 3).join(', ')}`;
    const hasCpu = controllers.includes('cpu');
    const service = join(base, serviceGroup);
    try {
      mkdirSync(service, { recursive: true });
      writeFileSync(join(service, 'cgroup.procs'), String(process.pid));
      const used = [...controllersNeeded, ...(hasCpu ? ['cpu'] : [])];
      writeFileSync(join(base, 'cgroup.subtree_control'), used.map((name) => `+${name}`).join(' '));
    } catch (error) {
      attempt(() => writeFileSync(join(base, 'cgroup.procs'), String(process.pid)));
      attempt(() => removeFolder(service));
      return (error as Error).message;
    }
    const groups = new ProcessGroups(base, hasCpu, removeFolder);
    groups.#removeLeftovers();
    return groups;
  }

  /** Makes a group for one process. Throws where the system refuses it. */
  make({ memoryBytesMax, tasksMax, niceness }: GroupLimits): ProcessGroup {
    this.#count += 1;
    const folder = join(this.#base, `${groupPrefix}${process.pid}-${this.#count}`);
    mkdirSync(folder);
    const group = new ProcessGroup(folder, { removeFolder: this.#removeFolder, hasCpu: this.#hasCpu });
    try {
      writeFileSync(join(folder, 'memory.max'), String(memoryBytesMax));
      writeFileSync(join(folder, 'memory.oom.group'), '1');
      writeFileSync(join(folder, 'pids.max'), String(tasksMax));
      group.beNice(niceness);
      return group;
    } catch (error) {
      attempt(() => this.#removeFolder(folder));
      throw error;
    }
  }

  /** Gives the group back as it was found. All groups of processes have been removed by then. */
  close(): void {
    const used = [...controllersNeeded, ...(this.#hasCpu ? ['cpu'] : [])];
    attempt(() =>
      writeFileSync(join(this.#base, 'cgroup.subtree_control'), used.map((name) => `-${name}`).join(' ')),
    );
    attempt(() => writeFileSync(join(this.#base, 'cgroup.procs'), String(process.pid)));
    attempt(() => this.#removeFolder(join(this.#base, serviceGroup)));
  }

  /** Groups of an earlier service that was killed. */
  #removeLeftovers(): void {
    for (const name of readdirSync(this.#base)) {
      if (!name.startsWith(groupPrefix)) continue;
      const folder = join(this.#base, name);
      attempt(() => writeFileSync(join(folder, 'cgroup.kill'), '1'));
      attempt(() => this.#removeFolder(folder));
    }
  }
}

/** The control group of one sandboxed process. */
export class ProcessGroup {
  /** The file to which the process is written that joins the group. */
  readonly procsFile: string;
  readonly #folder: string;
  readonly #hasCpu: boolean;
  readonly #removeFolder: (folder: string) => void;

  constructor(folder: string, own: { removeFolder: (folder: string) => void; hasCpu: boolean }) {
    this.#folder = folder;
    this.#hasCpu = own.hasCpu;
    this.#removeFolder = own.removeFolder;
    this.procsFile = join(folder, 'cgroup.procs');
  }

  /** Takes processes in with all their threads, those too that were started before their parent was in it. */
  take(pids: readonly number[]): void {
    for (const pid of pids) attempt(() => writeFileSync(this.procsFile, String(pid)));
  }

  /** Sets the share of processor time. False where groups have none: the niceness of the process itself counts there. */
  beNice(niceness: number): boolean {
    if (!this.#hasCpu) return false;
    return attempt(() => writeFileSync(join(this.#folder, 'cpu.weight'), String(weightOfNiceness(niceness))));
  }

  /** True when the kernel has ended processes of the group because of its memory. */
  get ranOutOfMemory(): boolean {
    return Number(/^oom_kill (\d+)$/m.exec(textOf(join(this.#folder, 'memory.events')))?.[1] ?? 0) > 0;
  }

  /** Ends what is left in it, and removes it. Rejects when it cannot be removed. */
  async remove(): Promise<void> {
    attempt(() => writeFileSync(join(this.#folder, 'cgroup.kill'), '1'));
    let last: unknown;
    for (const waitMs of removalWaitsMs) {
      await delay(waitMs);
      try {
        this.#removeFolder(this.#folder);
        return;
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'ENOENT') return;
        last = error;
      }
    }
    throw last;
  }
}

/** True when processes may be moved into the group, and its controllers given on. */
function isOurs(group: string): boolean {
  try {
    for (const name of ['.', 'cgroup.procs', 'cgroup.subtree_control'])
      accessSync(join(group, name), constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

function isThere(file: string): boolean {
  return attempt(() => accessSync(file));
}

function wordsOf(file: string): string[] {
  return textOf(file).split(/\s+/).filter(Boolean);
}

function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

function attempt(work: () => void): boolean {
  try {
    work();
    return true;
  } catch {
    return false;
  }
}
