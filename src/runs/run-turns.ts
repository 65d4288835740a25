import type { Db } from '#storage/store.ts';
import type { LiveRun } from './live-run.ts';
import { countStartedSince } from './run-store.ts';

/** A run that has to wait longer for its throttle waits in the store. */
const waitHereMaxMs = 1_000;
/** A held workflow (throttle of 0) is looked at again after this. */
const heldMs = 60_000;

interface Turns {
  running: number;
  waiting: (() => void)[];
  window: { startMs: number; started: number } | undefined;
}

/** The place of a run among those of its workflow that came here. */
export interface Arrival {
  /** Resolves when all that came before have taken their turns. */
  before: Promise<void> | undefined;
  /** It has taken its turn, or takes none. */
  passed: () => void;
}

/** How a run may begin: now (`done` gives its place back), or it is to be tried again later. */
export type Turn = { kind: 'now'; done: () => void } | { kind: 'later'; atMs: number };

const atOnce: Turn = { kind: 'now', done: () => undefined };

/**
 * Concurrency and throttle of workflows. They apply to runs that events of sources and workflows started; requests, mails
 * and timers begin at once (platform facts, 7.8). Runs of such workflows are claimed by one node at a time, in order.
 */
export class RunTurns {
  readonly #db: Db;
  readonly #clock: { now(): number };
  readonly #workflows = new Map<string, Turns>();
  /** By workflow: resolves when whoever came last has its place. */
  readonly #arrivals = new Map<string, Promise<void>>();

  constructor(parts: { db: Db; clock: { now(): number } }) {
    this.#db = parts.db;
    this.#clock = parts.clock;
  }

  /**
   * Called as runs come, in their order: what has to be read of one may take longer than of the next, and the next must
   * not take its turn first. `passed` has to be called, also for one that takes none.
   */
  arrive(workflowId: string): Arrival {
    const before = this.#arrivals.get(workflowId);
    const { promise, resolve } = Promise.withResolvers<void>();
    const all = before === undefined ? promise : Promise.all([before, promise]).then(() => undefined);
    this.#arrivals.set(workflowId, all);
    void all.then(() => {
      if (this.#arrivals.get(workflowId) === all) this.#arrivals.delete(workflowId);
    });
    return { before, passed: resolve };
  }

  async take(live: LiveRun, arrival: Arrival): Promise<Turn> {
    const { concurrency, throttle } = live.deployment.settings;
    const isEvent = live.run.source_type === 'COMPONENT' || live.run.source_type === 'WORKFLOW';
    if (!isEvent || (concurrency === null && throttle === null)) {
      arrival.passed();
      return atOnce;
    }
    const { workflow_id: workflowId } = live.run;
    await arrival.before;
    const turns = this.#workflows.get(workflowId) ?? { running: 0, waiting: [], window: undefined };
    this.#workflows.set(workflowId, turns);
    if (concurrency !== null && turns.running >= concurrency) {
      const turn = new Promise<void>((resolve) => turns.waiting.push(resolve));
      arrival.passed();
      await turn;
    } else {
      turns.running += 1;
      arrival.passed();
    }
    const done = () => this.#done(workflowId, turns);
    // What goes on after a wait was let in before.
    if (throttle === null || live.waited !== null) return { kind: 'now', done };
    const atMs = await this.#throttled(workflowId, turns, throttle);
    if (atMs === undefined) return { kind: 'now', done };
    done();
    return { kind: 'later', atMs };
  }

  #done(workflowId: string, turns: Turns): void {
    const next = turns.waiting.shift();
    // The place of one that ends is handed on.
    if (next !== undefined) next();
    else {
      turns.running -= 1;
      if (turns.running === 0 && turns.window === undefined) this.#workflows.delete(workflowId);
    }
  }

  /** When there is room in a window again; undefined: there is now, and it is taken. */
  async #throttled(
    workflowId: string,
    turns: Turns,
    { limit, seconds }: { limit: number; seconds: number },
  ): Promise<number | undefined> {
    if (limit === 0) return this.#clock.now() + heldMs;
    for (;;) {
      const nowMs = this.#clock.now();
      const startMs = nowMs - (nowMs % (seconds * 1000));
      if (turns.window === undefined || turns.window.startMs !== startMs) {
        // A window that was begun before this process is in the store.
        const isFirst = turns.window === undefined;
        const window = { startMs, started: 0 };
        turns.window = window;
        if (isFirst) window.started += await countStartedSince(this.#db, workflowId, startMs);
        continue;
      }
      if (turns.window.started < limit) {
        turns.window.started += 1;
        return undefined;
      }
      const endMs = startMs + seconds * 1000;
      if (endMs - nowMs > waitHereMaxMs) return endMs;
      await new Promise((resolve) => setTimeout(resolve, endMs - nowMs));
    }
  }
}
