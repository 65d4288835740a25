import type { EventRouter } from '#events/emit-event.ts';
import type { StoredEvent } from '#events/event.ts';
import type { EventBus } from '#events/event-bus.ts';
import { lockJobOf, wakeJob } from '#jobs/run-job-store.ts';
import type { Clock } from '#lib/clock.ts';
import { FairQueue } from '#lib/fair-queue.ts';
import type { Store, Tx } from '#storage/store.ts';
import type { LinkAction, RunTable } from '#storage/tables/workflow-tables.ts';
import { endLockedRun } from './end-run.ts';
import { findResume, insertResume } from './resume-request-store.ts';
import { isTerminal, type RunResumption } from './run.ts';
import { isLinkToken, type WaitPlace } from './run-link.ts';
import { cancelNotice, wakeNotice } from './run-notices.ts';
import { endedTriesOf } from './run-step-store.ts';
import { findRun, lockRun, updateRunQuery } from './run-store.ts';
import { answerWaitQuery, findWait } from './run-wait-store.ts';
import type { WorkflowRuns } from './run-workflow.ts';

/** Links that are taken at the same time, each of another owner. */
const takenAtOnce = 4;
/**
 * An owner whose links take long leaves as much time to others. Sixty callers of links, each a transaction that the writes of all others wait for, made
 * calls of others take 300 ms.
 */
const restTimes = 1;
const restAfterMs = 3;

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

export interface LinkAnswer {
  outcome: LinkOutcome;
  /** `done_before`, `other_done`: when the first request came, which is the one that counted. */
  usedAtMs?: number;
}

/** Resumes and cancels runs that wait, for callers with a link of the wait. */
export class RunResumer {
  readonly #store: Store;
  readonly #router: EventRouter;
  readonly #bus: EventBus;
  readonly #clock: Clock;
  readonly #onJobs: () => void;
  readonly #onEnded: (workflowId: string) => void;
  readonly #runs: Pick<WorkflowRuns, 'wake' | 'abandon'>;

  readonly #turns = new FairQueue(takenAtOnce, { rest: () => restTimes, restAfterMs });

  constructor(options: {
    store: Store;
    router: EventRouter;
    bus: EventBus;
    clock: Clock;
    /** A job is due. */
    onJobs: () => void;
    onEnded: (workflowId: string) => void;
    /** The runs of this process: notices of the store reach the others. */
    runs: Pick<WorkflowRuns, 'wake' | 'abandon'>;
  }) {
    this.#store = options.store;
    this.#router = options.router;
    this.#bus = options.bus;
    this.#clock = options.clock;
    this.#onJobs = options.onJobs;
    this.#onEnded = options.onEnded;
    this.#runs = options.runs;
  }

  async resume(input: LinkRequest): Promise<LinkAnswer> {
    const { answer } = await this.#take(input, 'resume');
    if (answer.outcome === 'done') {
      this.#runs.wake(input.runId);
      this.#onJobs();
    }
    return answer;
  }

  async cancel(input: LinkRequest): Promise<LinkAnswer> {
    const { answer, ended } = await this.#take(input, 'cancel');
    if (ended !== undefined) {
      this.#bus.publish(ended.stored);
      this.#runs.abandon(input.runId);
      this.#onEnded(ended.workflowId);
    }
    return answer;
  }

  /** One transaction: of several requests for the same wait the first one counts, and the others are answered what it did. */
  async #take(input: LinkRequest, action: LinkAction): Promise<Taken> {
    const { runId } = input;
    const wait = { position: input.position, iteration: input.iteration, try: input.try };
    const known = await findRun(this.#store.read, runId);
    if (known === undefined || !isLinkToken(known, wait, { action, token: input.token }))
      return { answer: { outcome: 'unknown' } };
    // Links are used again and again, by mail programs that look at them too: that waits for no turn.
    const before = await findResume(this.#store.read, runId, wait);
    if (before !== undefined) return { answer: usedBefore(before, action) };
    return this.#turns.run(known.owner_id, () => this.#takeInTurn(input, wait, action));
  }

  #takeInTurn({ runId, request }: LinkRequest, wait: WaitPlace, action: LinkAction): Promise<Taken> {
    const nowMs = this.#clock.now();
    return this.#store.transaction(async (tx): Promise<Taken> => {
      const job = await lockJobOf(this.#store, tx, runId);
      const run = await lockRun(this.#store, tx, runId);
      const answered = await findResume(tx, runId, wait);
      if (answered !== undefined) return { answer: usedBefore(answered, action) };
      if (run === undefined || job === undefined || isTerminal(run)) return { answer: { outcome: 'over' } };
      const row = {
        run_id: runId,
        owner_id: run.owner_id,
        ...wait,
        kind: action,
        request: null,
        created_at_ms: nowMs,
      };
      const tries = await endedTriesOf(tx, runId, wait);
      if (tries.some((ended) => ended > wait.try)) return { answer: { outcome: 'over' } };
      if (!tries.includes(wait.try)) {
        await insertResume(tx, { ...row, request: JSON.stringify(request) });
        return { answer: { outcome: 'waiting_for_step' } };
      }
      const branch = await findWait(tx, row);
      // Its time has come, or it did not wait: the node that has the run has decided already how it continues.
      if (branch === undefined && (job.state !== 'queued' || !waitsAt(run, wait.position)))
        return { answer: { outcome: 'over' } };
      if (branch !== undefined && branch.until_ms <= nowMs) return { answer: { outcome: 'over' } };
      await insertResume(tx, row);
      if (action === 'cancel') return this.#cancelNow(tx, run);
      if (branch === undefined)
        await tx.executeQuery(
          updateRunQuery(tx, runId, { resumption: resumptionWith(run.resumption, request) }),
        );
      else {
        const resumption = resumptionWith(branch.resumption, request);
        await tx.executeQuery(answerWaitQuery(tx, branch, { resumption, nowMs }));
      }
      // Other branches of the run may be under way, and the node that runs them need not wait until it parks the run.
      if (job.state === 'queued') await wakeJob(tx, runId, nowMs);
      await this.#store.notify(tx, 'millrace_jobs', job.state === 'queued' ? '' : `${wakeNotice}${runId}`);
      return { answer: { outcome: 'done' } };
    });
  }

  async #cancelNow(tx: Tx, run: RunTable): Promise<Taken> {
    const options = { store: this.#store, router: this.#router, clock: this.#clock };
    const notice = `${cancelNotice}${run.id}`;
    const end = { state: 'cancelled', reason: 'cancelled by its URL', notice } as const;
    const stored = await endLockedRun(options, tx, run, end);
    return { answer: { outcome: 'done' }, ended: { workflowId: run.workflow_id, stored } };
  }
}

/** The answer to a request; `ended`: it ended the run. */
interface Taken {
  answer: LinkAnswer;
  ended?: { workflowId: string; stored: StoredEvent[] };
}

function usedBefore(
  { kind, created_at_ms: usedAtMs }: { kind: LinkAction; created_at_ms: number },
  action: LinkAction,
): LinkAnswer {
  return { outcome: kind === action ? 'done_before' : 'other_done', usedAtMs };
}

function waitsAt(run: RunTable, position: number): boolean {
  return run.state === 'waiting' && run.wait_kind !== null && run.position === position;
}

function resumptionWith(before: string | null, request: object): string {
  return JSON.stringify({ ...(before === null ? {} : (JSON.parse(before) as RunResumption)), request });
}
