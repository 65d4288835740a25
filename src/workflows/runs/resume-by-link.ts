import type { EventRouter } from '#events/emit-event.ts';
import type { StoredEvent } from '#events/event.ts';
import type { EventBus } from '#events/event-bus.ts';
import { lockJobOf, wakeJob } from '#jobs/run-job-store.ts';
import type { Clock } from '#lib/clock.ts';
import type { Store, Tx } from '#storage/store.ts';
import type { LinkAction, RunTable } from '#storage/tables/workflow-tables.ts';
import { endLockedRun } from './end-run.ts';
import { isTerminal, type RunResumption } from './run.ts';
import { isLinkToken, type WaitPlace } from './run-link.ts';
import { endedTriesOf, findResume, findRun, insertResume, lockRun, updateRunQuery } from './run-store.ts';

/** A request to one of the two URLs that `$.flow.suspend`, `delay` and `rerun` answer. */
export interface LinkRequest extends WaitPlace {
  runId: string;
  token: string;
  /** The request, as an event of an HTTP trigger: what the step gets. */
  request: object;
}

/**
 * `waiting_for_step`: the step has not ended yet; it counts as soon as it does. `done_before`: this link was used before, and nothing
 * is done twice. `other_done`: the other link of the same wait was. `over`: the run has continued, or ended.
 */
export type LinkOutcome = 'done' | 'waiting_for_step' | 'done_before' | 'other_done' | 'unknown' | 'over';

/** Resumes and cancels runs that wait, for callers with a link of the wait. */
export class RunResumer {
  readonly #store: Store;
  readonly #router: EventRouter;
  readonly #bus: EventBus;
  readonly #clock: Clock;
  readonly #onJobs: () => void;
  readonly #onEnded: (workflowId: string) => void;

  constructor(options: {
    store: Store;
    router: EventRouter;
    bus: EventBus;
    clock: Clock;
    /** A job is due. */
    onJobs: () => void;
    onEnded: (workflowId: string) => void;
  }) {
    this.#store = options.store;
    this.#router = options.router;
    this.#bus = options.bus;
    this.#clock = options.clock;
    this.#onJobs = options.onJobs;
    this.#onEnded = options.onEnded;
  }

  async resume(input: LinkRequest): Promise<LinkOutcome> {
    const { outcome } = await this.#take(input, 'resume');
    if (outcome === 'done') this.#onJobs();
    return outcome;
  }

  async cancel(input: LinkRequest): Promise<LinkOutcome> {
    const { outcome, ended } = await this.#take(input, 'cancel');
    if (ended !== undefined) {
      this.#bus.publish(ended.stored);
      this.#onEnded(ended.workflowId);
    }
    return outcome;
  }

  /** One transaction: of several requests for the same wait the first one counts, and the others are answered what it did. */
  async #take(input: LinkRequest, action: LinkAction): Promise<Taken> {
    const { runId, request } = input;
    const wait = { position: input.position, try: input.try };
    const known = await findRun(this.#store.read, runId);
    if (known === undefined || !isLinkToken(known, wait, { action, token: input.token }))
      return { outcome: 'unknown' };
    const nowMs = this.#clock.now();
    return this.#store.transaction(async (tx): Promise<Taken> => {
      const job = await lockJobOf(this.#store, tx, runId);
      const run = await lockRun(this.#store, tx, runId);
      const answered = await findResume(tx, runId, wait);
      if (answered !== undefined) return { outcome: answered.kind === action ? 'done_before' : 'other_done' };
      if (run === undefined || job === undefined || isTerminal(run)) return { outcome: 'over' };
      const row = {
        run_id: runId,
        owner_id: run.owner_id,
        ...wait,
        kind: action,
        request: null,
        created_at_ms: nowMs,
      };
      const tries = await endedTriesOf(tx, runId);
      if (tries.some((ended) => isAfter(ended, wait))) return { outcome: 'over' };
      if (!tries.some((ended) => ended.position === wait.position && ended.try === wait.try)) {
        await insertResume(tx, { ...row, request: JSON.stringify(request) });
        return { outcome: 'waiting_for_step' };
      }
      // Its time has come, or it did not wait: the node that has the run has decided already how it continues.
      if (job.state !== 'queued' || !waitsAt(run, wait.position)) return { outcome: 'over' };
      await insertResume(tx, row);
      if (action === 'cancel') return this.#cancelNow(tx, run);
      const before = run.resumption === null ? {} : (JSON.parse(run.resumption) as RunResumption);
      await tx.executeQuery(
        updateRunQuery(tx, runId, { resumption: JSON.stringify({ ...before, request }) }),
      );
      await wakeJob(tx, runId, nowMs);
      await this.#store.notify(tx, 'millrace_jobs', '');
      return { outcome: 'done' };
    });
  }

  async #cancelNow(tx: Tx, run: RunTable): Promise<Taken> {
    const options = { store: this.#store, router: this.#router, clock: this.#clock };
    const end = { state: 'cancelled', reason: 'cancelled by its URL' } as const;
    const stored = await endLockedRun(options, tx, run, end);
    return { outcome: 'done', ended: { workflowId: run.workflow_id, stored } };
  }
}

/** The outcome of a request; `ended`: it ended the run. */
interface Taken {
  outcome: LinkOutcome;
  ended?: { workflowId: string; stored: StoredEvent[] };
}

function waitsAt(run: RunTable, position: number): boolean {
  return run.state === 'waiting' && run.wait_kind !== null && run.position === position;
}

/** True when a try comes after that of the wait. */
function isAfter(ended: WaitPlace, wait: WaitPlace): boolean {
  return ended.position > wait.position || (ended.position === wait.position && ended.try > wait.try);
}
