import type { Db } from '#storage/store.ts';
import type { WorkflowSettings } from '#workflows/definitions/workflow-definition.ts';
import type { LiveRun } from './live-run.ts';
import { countStartedSince } from './run-store.ts';

/** A run that has to wait longer for its throttle waits in the store. */
const waitHereMaxMs = 1_000;
/** A held workflow (throttle of 0) is looked at again after this. */
const heldMs = 60_000;

interface Turns {
  /** Runs that have begun, and the workflow's present limit of them; null: none. */
  running: number;
  concurrency: number | null;
  waiting: (() => void)[];
  /** Runs that were made here and still wait for their turn, although the store counts them as begun. */
  made: Set<string>;
  window: { startMs: number; started: number; counted: Promise<void> } | undefined;
}

/** What a workflow allows now; undefined when it is gone. */
export type SettingsOf = (
  workflowId: string,
) => Promise<Pick<WorkflowSettings, 'concurrency' | 'throttle'> | undefined>;

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
  /** By workflow: resolves when the last arrival has its place. */
  readonly #arrivals = new Map<string, Promise<void>>();

  readonly #settingsOf: SettingsOf;

  constructor(options: { db: Db; clock: { now(): number }; settingsOf: SettingsOf }) {
    this.#db = options.db;
    this.#clock = options.clock;
    this.#settingsOf = options.settingsOf;
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
    const { workflow_id: workflowId, source_type: sourceType } = live.run;
    if (sourceType !== 'COMPONENT' && sourceType !== 'WORKFLOW') {
      arrival.passed();
      return atOnce;
    }
    // The settings of the workflow as it is now, not of the deployment that the run began with: a user who
    // has held the queue, or set too low a throttle, wants a change to apply to the runs that wait.
    const { concurrency, throttle } = (await this.#settingsOf(workflowId)) ?? live.deployment.settings;
    const known = this.#workflows.get(workflowId);
    if (concurrency === null && throttle === null && known === undefined) {
      arrival.passed();
      return atOnce;
    }
    await arrival.before;
    const turns = this.#turnsOf(workflowId);
    turns.concurrency = concurrency;
    if (!live.hasBegun && live.run.started_at_ms !== null) turns.made.add(live.run.id);
    const turn = new Promise<void>((resolve) => turns.waiting.push(resolve));
    admit(turns);
    arrival.passed();
    await turn;
    const done = () => {
      turns.made.delete(live.run.id);
      this.#done(workflowId, turns);
    };
    // A run that continues after a wait or a crash was let in before.
    if (throttle === null || live.main.waited !== null || live.hasBegun) return { kind: 'now', done };
    try {
      const atMs = await this.#throttled(workflowId, turns, throttle);
      if (atMs === undefined) return { kind: 'now', done };
      done();
      return { kind: 'later', atMs };
    } catch (error) {
      done();
      throw error;
    }
  }

  #turnsOf(workflowId: string): Turns {
    const known = this.#workflows.get(workflowId);
    if (known !== undefined) return known;
    const turns: Turns = { running: 0, concurrency: null, waiting: [], made: new Set(), window: undefined };
    this.#workflows.set(workflowId, turns);
    return turns;
  }

  #done(workflowId: string, turns: Turns): void {
    turns.running -= 1;
    admit(turns);
    // Another node may run the next ones, so the store is counted again.
    if (turns.running === 0 && this.#workflows.get(workflowId) === turns) this.#workflows.delete(workflowId);
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
        // What began in it before this workflow was busy here is in the store.
        const isFirst = turns.window === undefined;
        const window = { startMs, started: 0, counted: Promise.resolve() };
        turns.window = window;
        if (isFirst) {
          window.counted = countStartedSince(this.#db, workflowId, startMs, [...turns.made]).then(
            (started) => {
              window.started += started;
            },
          );
          window.counted.catch(() => {
            if (turns.window === window) turns.window = undefined;
          });
        }
      }
      const { window } = turns;
      await window.counted;
      if (turns.window !== window) continue;
      if (window.started < limit) {
        window.started += 1;
        return undefined;
      }
      const endMs = startMs + seconds * 1000;
      if (endMs - nowMs > waitHereMaxMs) return endMs;
      await new Promise((resolve) => setTimeout(resolve, endMs - nowMs));
    }
  }
}

/** Lets in as many of those that wait, in their order, as may run. */
function admit(turns: Turns): void {
  while (turns.concurrency === null || turns.running < turns.concurrency) {
    const next = turns.waiting.shift();
    if (next === undefined) return;
    turns.running += 1;
    next();
  }
}
