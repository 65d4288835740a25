import { timingSafeEqual } from 'node:crypto';
import type { EventRouter } from '#events/emit-event.ts';
import type { StoredEvent } from '#events/event.ts';
import type { EventBus } from '#events/event-bus.ts';
import type { Clock } from '#lib/clock.ts';
import type { Store, Tx } from '#storage/store.ts';
import type { RunTable } from '#storage/tables/workflow-tables.ts';
import { endLockedRun } from './end-run.ts';
import { isTerminal, type RunResumption } from './run.ts';
import { lockJobOf, wakeJob } from './run-job-store.ts';
import { findRun, insertResume, lockRun, stepsOfRun, updateRunQuery } from './run-store.ts';

/** A request to one of the two URLs that `$.flow.suspend`, `delay` and `rerun` answer. */
export interface ResumeRequest {
  runId: string;
  /** Index of the step that answered the URL. */
  position: number;
  token: string;
  /** The request, as an event of an HTTP trigger: what the step gets. */
  request: object;
}

/** `waiting_for_step`: the step has not ended yet, and goes on at once when it does. `over`: the run has gone on, or ended. */
export type ResumeOutcome = 'resumed' | 'waiting_for_step' | 'unknown' | 'over';

/** Resumes and cancels runs that wait, for whoever knows the token of the run. */
export class RunResumer {
  readonly #store: Store;
  readonly #router: EventRouter;
  readonly #bus: EventBus;
  readonly #clock: Clock;
  readonly #onJobs: () => void;
  readonly #onEnded: (workflowId: string) => void;

  constructor(parts: {
    store: Store;
    router: EventRouter;
    bus: EventBus;
    clock: Clock;
    /** A job is due. */
    onJobs: () => void;
    onEnded: (workflowId: string) => void;
  }) {
    this.#store = parts.store;
    this.#router = parts.router;
    this.#bus = parts.bus;
    this.#clock = parts.clock;
    this.#onJobs = parts.onJobs;
    this.#onEnded = parts.onEnded;
  }

  async resume(input: ResumeRequest): Promise<ResumeOutcome> {
    const { outcome } = await this.#take(input, 'resume');
    if (outcome === 'resumed') this.#onJobs();
    return outcome;
  }

  async cancel(input: ResumeRequest): Promise<ResumeOutcome> {
    const { outcome, ended } = await this.#take(input, 'cancel');
    if (ended !== undefined) {
      this.#bus.publish(ended.stored);
      this.#onEnded(ended.workflowId);
    }
    return outcome;
  }

  /** One transaction: of several requests for the same wait the first one counts, and the others are told so. */
  async #take(input: ResumeRequest, kind: 'resume' | 'cancel'): Promise<Taken> {
    const { runId, position } = input;
    const known = await findRun(this.#store.read, runId);
    if (known === undefined || !isSame(known.token, input.token)) return { outcome: 'unknown' };
    const nowMs = this.#clock.now();
    return this.#store.transaction(async (tx): Promise<Taken> => {
      const job = await lockJobOf(this.#store, tx, runId);
      const run = await lockRun(this.#store, tx, runId);
      if (run === undefined || job === undefined || isTerminal(run)) return { outcome: 'over' };
      const resumption = run.resumption === null ? {} : (JSON.parse(run.resumption) as RunResumption);
      const isAnswered = resumption.request !== undefined || resumption.cancelled === true;
      if (job.state === 'queued' && waitsAt(run, position)) {
        if (isAnswered) return { outcome: 'over' };
        if (kind === 'cancel') return this.#cancelNow(tx, run);
        const answered = JSON.stringify({ ...resumption, request: input.request });
        await tx.executeQuery(updateRunQuery(tx, runId, { resumption: answered }));
        await wakeJob(tx, runId, nowMs);
        await this.#store.notify(tx, 'millrace_jobs', '');
        return { outcome: 'resumed' };
      }
      // Its time has come, or it was answered: whoever has the run has decided already how it goes on.
      if (run.wait_kind === 'suspend' && run.position === position) return { outcome: 'over' };
      if (await hasEnded(tx, run, position)) return { outcome: 'over' };
      const isFirst = await insertResume(tx, {
        run_id: runId,
        owner_id: run.owner_id,
        position,
        kind,
        request: JSON.stringify(input.request),
        created_at_ms: nowMs,
      });
      return { outcome: isFirst ? 'waiting_for_step' : 'over' };
    });
  }

  async #cancelNow(tx: Tx, run: RunTable): Promise<Taken> {
    const parts = { store: this.#store, router: this.#router, clock: this.#clock };
    const end = { state: 'cancelled', reason: 'cancelled by its URL' };
    const stored = await endLockedRun(parts, tx, run, end);
    return { outcome: 'resumed', ended: { workflowId: run.workflow_id, stored } };
  }
}

/** What came of a request; `ended`: it ended the run. */
interface Taken {
  outcome: ResumeOutcome;
  ended?: { workflowId: string; stored: StoredEvent[] };
}

function waitsAt(run: RunTable, position: number): boolean {
  return run.state === 'waiting' && run.wait_kind !== null && run.position === position;
}

/** Whether the run is past the step: another one was recorded since, or this one ended without a wait. */
async function hasEnded(
  tx: Parameters<typeof stepsOfRun>[0],
  run: RunTable,
  position: number,
): Promise<boolean> {
  if (run.wait_kind !== null && run.position > position) return true;
  const steps = await stepsOfRun(tx, run.id);
  return steps.some(
    (step) => step.position > position || (step.position === position && step.state === 'succeeded'),
  );
}

/** In the same time whatever the tokens are. */
function isSame(expected: string, given: string): boolean {
  const [a, b] = [Buffer.from(expected), Buffer.from(given)];
  return a.length === b.length && timingSafeEqual(a, b);
}
