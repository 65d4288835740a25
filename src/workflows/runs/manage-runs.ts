import type { EventRouter } from '#events/emit-event.ts';
import type { EventBus } from '#events/event-bus.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import type { Store } from '#storage/store.ts';
import type { RunTable } from '#storage/tables/workflow-tables.ts';
import { endRunOutside } from './end-run.ts';
import type { RunEdits, RunRepeater } from './repeat-run.ts';
import { cancelNotice } from './run-notices.ts';
import type { WorkflowRuns } from './run-workflow.ts';
import type { RunStarter } from './start-run.ts';

/** What users do with runs: cancel, run again, continue from a step. */
export class RunManager {
  readonly #store: Store;
  readonly #router: EventRouter;
  readonly #bus: EventBus;
  readonly #clock: Clock;
  readonly #starter: RunStarter;
  readonly #repeater: RunRepeater;
  readonly #runs: WorkflowRuns;
  readonly #onEnded: (workflowId: string) => void;

  constructor(options: {
    store: Store;
    router: EventRouter;
    bus: EventBus;
    clock: Clock;
    starter: RunStarter;
    repeater: RunRepeater;
    runs: WorkflowRuns;
    onEnded: (workflowId: string) => void;
  }) {
    this.#store = options.store;
    this.#router = options.router;
    this.#bus = options.bus;
    this.#clock = options.clock;
    this.#starter = options.starter;
    this.#repeater = options.repeater;
    this.#runs = options.runs;
    this.#onEnded = options.onEnded;
  }

  /** Ends a run, whatever it does. Throws CallerError `conflict` when it has ended. */
  async cancel(run: Pick<RunTable, 'id' | 'workflow_id'>, reason: string): Promise<void> {
    const options = { store: this.#store, router: this.#router, clock: this.#clock };
    const notice = `${cancelNotice}${run.id}`;
    const stored = await endRunOutside(options, { runId: run.id, state: 'cancelled', reason, notice });
    if (stored === undefined) throw new CallerError('conflict', `run ${run.id} has ended already`);
    this.#bus.publish(stored);
    this.#runs.abandon(run.id);
    this.#onEnded(run.workflow_id);
  }

  /** A new run of the same event, or of another one, with the current deployment. Throws `not_found` when the workflow is gone. */
  async replay(run: RunTable, edits: Pick<RunEdits, 'event'> = {}): Promise<{ runId: string }> {
    return this.#starter.start(await this.#repeater.replayTrigger(run, edits));
  }

  /** A new run that continues at a step; see `RunRepeater.prepareRestart`. */
  async restart(run: RunTable, fromStep?: string, edits: RunEdits = {}): Promise<{ runId: string }> {
    const repeated = await this.#repeater.prepareRestart(run, fromStep, edits);
    await this.#repeater.store([repeated]);
    return { runId: repeated.prepared.run.id };
  }
}
