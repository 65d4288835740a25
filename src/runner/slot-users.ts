import { readFileSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { setImmediate, setTimeout } from 'node:timers/promises';
import { startTimeOf } from './runner-folders.ts';

/** User IDs that no account uses: above those of people, containers and directories, below the largest that all file systems support. */
const manyUsers = { first: 2_010_000_000, last: 2_146_999_999 };
/** The range where the service is root of a user namespace with 65,536 users: above those of people, below `nobody`. */
const fewUsers = { first: 61_000, last: 65_533 };
/** Processes that end within this time are handled together. */
const sweepAfterMs = 100;
/** Interval of the further looks. */
const sweepAgainMs = 1_000;
/** Minimum consecutive looks without a process. A single look can miss a process that starts another one and ends. */
const cleanLooksMin = 2;
/** Processes of the machine that are looked at before other work has its turn. */
const looksAtOnce = 20;

export interface UserRange {
  first: number;
  last: number;
}

/**
 * The users that processes run as when the service is root, each process as its own user. A user is used again only when all others were used
 * and no process of it is left: code that outlived its sandbox must not meet the next tenant.
 */
export class SlotUsers {
  readonly #range: UserRange;
  readonly #processesOf: (users: ReadonlySet<number>) => Promise<Map<number, number[]>>;
  readonly #onLeft: (left: { user: number; pids: number[] }) => void;
  #next: number;
  #untouched: number;
  /** Users whose processes have all ended, the longest unused first. */
  readonly #free: number[] = [];
  /** Users whose sandbox has ended. `isTold`: a remaining process was reported. `cleanLooks`: consecutive looks without one. */
  readonly #ending = new Map<number, { isTold: boolean; cleanLooks: number }>();
  #sweeping: Promise<void> | undefined;
  readonly #closing = new AbortController();

  constructor(options: {
    range?: UserRange;
    /** Returns the pids of the users that have any, by user. */
    processesOf?: (users: ReadonlySet<number>) => Promise<Map<number, number[]>>;
    /** Called when processes outlived their sandbox and were ended. */
    onLeft: (left: { user: number; pids: number[] }) => void;
    random?: () => number;
  }) {
    const { range = availableUsers(), random = Math.random } = options;
    this.#range = range;
    this.#processesOf = options.processesOf ?? processesOf;
    this.#onLeft = options.onLeft;
    this.#untouched = range.last - range.first + 1;
    // Not where an earlier or another service began, whose users may still have processes.
    this.#next = range.first + Math.floor(random() * this.#untouched);
  }

  /** Returns a user for a process; undefined when every user has one. */
  take(): number | undefined {
    if (this.#untouched === 0) return this.#free.shift();
    this.#untouched -= 1;
    const user = this.#next;
    this.#next = user === this.#range.last ? this.#range.first : user + 1;
    return user;
  }

  /** Notes that the sandbox of a user has ended. Its remaining processes are ended too. */
  release(user: number): void {
    this.#ending.set(user, { isTold: false, cleanLooks: 0 });
    this.#sweeping ??= this.#sweep().finally(() => {
      this.#sweeping = undefined;
    });
  }

  /** Resolves when released users have no process, or only some that cannot be ended. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.#sweeping;
    if (this.#ending.size > 0) await this.#endAll();
  }

  async #sweep(): Promise<void> {
    const { signal } = this.#closing;
    for (let waitMs = sweepAfterMs; this.#ending.size > 0 && !signal.aborted; waitMs = sweepAgainMs) {
      await setTimeout(waitMs, undefined, { ref: false, signal }).catch(() => undefined);
      await this.#endAll();
    }
  }

  async #endAll(): Promise<void> {
    const users = new Set(this.#ending.keys());
    const left = await this.#processesOf(users);
    for (const user of users) {
      const ending = this.#ending.get(user);
      if (ending === undefined) continue;
      const pids = left.get(user);
      if (pids === undefined) {
        ending.cleanLooks += 1;
        if (ending.cleanLooks < cleanLooksMin) continue;
        this.#ending.delete(user);
        this.#free.push(user);
        continue;
      }
      if (!ending.isTold) this.#onLeft({ user, pids });
      Object.assign(ending, { isTold: true, cleanLooks: 0 });
      for (const pid of pids) kill(pid);
    }
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It ended meanwhile.
  }
}

/** The range that the user namespace of the service has room for. */
function availableUsers(): UserRange {
  try {
    const hasMany = readFileSync('/proc/self/uid_map', 'utf8')
      .trim()
      .split('\n')
      .map((line) => line.trim().split(/\s+/).map(Number))
      .some(([first = 0, , count = 0]) => first <= manyUsers.first && first + count > manyUsers.last);
    return hasMany ? manyUsers : fewUsers;
  } catch {
    return fewUsers;
  }
}

/** Reading one takes 10 µs; in threads, as the asynchronous call does it, ten times as much and a buffer of 64 KB. */
function statusOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/status`, 'utf8');
  } catch {
    return '';
  }
}

async function processesOf(users: ReadonlySet<number>): Promise<Map<number, number[]>> {
  const found = new Map<number, number[]>();
  const names = await readdir('/proc').catch(() => []);
  for (const [index, name] of names.filter((one) => /^\d+$/.test(one)).entries()) {
    if (index % looksAtOnce === looksAtOnce - 1) await setImmediate();
    // Not the owner of the folder, which differs for a set-uid program.
    const [, ids = ''] = /^Uid:\s+(.*)$/m.exec(statusOf(name)) ?? [];
    const uid = ids
      .split(/\s+/)
      .map(Number)
      .find((id) => users.has(id));
    // A zombie runs no code, and some containers never reap one.
    if (uid === undefined || startTimeOf(Number(name)) === undefined) continue;
    found.set(uid, [...(found.get(uid) ?? []), Number(name)]);
  }
  return found;
}
