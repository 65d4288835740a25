import type { LeasedJob } from '#jobs/job-store.ts';
import { must } from '#lib/assert.ts';
import type { HttpReply } from '#runner/call-outcome.ts';
import type { JobTable } from '#storage/tables/job-tables.ts';
import type {
  RunSendTable,
  RunState,
  RunStepTable,
  RunTable,
  WaitKind,
} from '#storage/tables/workflow-tables.ts';
import type { LoadedDeployment, LoadedStep } from '#workflows/definitions/loaded-deployment.ts';
import type { RunResumption } from './run.ts';
import { runContextJson } from './run-context.ts';

/** Names the version of the platform in `context.platform_version`. */
export interface RunSurroundings {
  platformVersion: string;
}

/** A run while this node works on it: what is recorded, and what is only in memory until the next record. */
export class LiveRun {
  readonly run: RunTable;
  readonly job: LeasedJob;
  /** Replaced by the same one with other tokens when those it has end. */
  deployment: LoadedDeployment;
  /** Rows on their way to the disk; gone once they, or a first record in their place, were handed to the store. */
  unpersisted: { run: RunTable; job: JobTable } | undefined;
  /** It has begun before, here or on a node that was lost since. */
  readonly hasBegun: boolean;
  /** What the run waited for when it came here; null for one that did not wait. */
  waited: { kind: WaitKind; position: number; resumption: RunResumption; untilMs: number } | null;
  failures: number;
  readonly sends: Pick<RunSendTable, 'number' | 'kind' | 'payload'>[] = [];
  /** The reply for the caller that waits, until the run ends. */
  response: HttpReply | undefined;
  /** How long user code has run since the run began, or continued after a wait. */
  segmentMs = 0;
  usedScratch = false;
  /** How it ended, and the message of its error. */
  endState: RunState = 'running';
  errorMessage = '';
  /** A user ended the run: nothing that is under way here counts. */
  isEnded = false;
  /** Stops the step under way. */
  readonly abort = new AbortController();
  /** JSON text of the exports of each step that has ended, by namespace, in order. */
  readonly #exports = new Map<string, string>();
  #bytes: number;
  #next = 0;
  readonly #context: string;
  readonly #isTest: boolean;

  constructor(options: {
    run: RunTable;
    job: LeasedJob;
    deployment: LoadedDeployment;
    unpersisted: { run: RunTable; job: JobTable } | undefined;
    steps: readonly RunStepTable[];
    sends: readonly RunSendTable[];
    surroundings: RunSurroundings;
    /** It was made for this attempt. */
    isNew?: boolean;
    /** A user tries one step. */
    isTest?: boolean;
  }) {
    const { run, deployment } = options;
    this.run = run;
    this.job = options.job;
    this.deployment = deployment;
    this.unpersisted = options.unpersisted;
    this.hasBegun = options.isNew !== true && run.started_at_ms !== null;
    this.failures = run.failures;
    this.waited =
      run.wait_kind === null
        ? null
        : {
            kind: run.wait_kind,
            position: run.position,
            resumption: run.resumption === null ? {} : (JSON.parse(run.resumption) as RunResumption),
            untilMs: run.wait_until_ms ?? 0,
          };
    this.#bytes = run.event.length;
    this.#isTest = options.isTest === true;
    this.#context = runContextJson(run, {
      workflowName: deployment.workflowName,
      projectId: deployment.projectId,
      platformVersion: options.surroundings.platformVersion,
      isTest: this.#isTest,
    });
    for (const step of options.steps) if (step.state === 'succeeded') this.finished(step.position, step);
    this.sends.push(...options.sends);
  }

  /** No run of a workflow: one action is run. */
  get isAction(): boolean {
    return this.run.workflow_id === '';
  }

  /** A step has succeeded: later steps can use its exports. */
  finished(position: number, step: Pick<RunStepTable, 'namespace' | 'exports'>): void {
    this.#exports.set(step.namespace, step.exports);
    this.#bytes += step.exports.length;
    this.#next = Math.max(this.#next, position + 1);
  }

  /** The next step that is not disabled, and its place; undefined when there is none. */
  next(): { step: LoadedStep; position: number } | undefined {
    const { steps } = this.deployment;
    for (let position = this.#next; position < steps.length; position += 1) {
      const step = steps[position];
      if (step !== undefined && !step.disabled) return { step, position };
    }
    return undefined;
  }

  stepAt(position: number): LoadedStep {
    return must(this.deployment.steps[position], `step ${position} of ${this.deployment.id}`);
  }

  /** Counts the tries of a step, from 1: those before it failed, or asked to be run again. */
  tryAt(position: number): number {
    const reruns = this.waited?.position === position ? (this.waited.resumption.run?.runs ?? 1) - 1 : 0;
    return 1 + this.failures + reruns;
  }

  /** Bytes of the event and of all exports. */
  get bytes(): number {
    return this.#bytes;
  }

  /** JSON text of `steps`: `trigger`, and the exports of the steps before. */
  stepsJson(): string {
    let text = `{"trigger":{"event":${this.run.event},"context":${this.#context}}`;
    for (const [namespace, exports] of this.#exports) text += `,"${namespace}":${exports}`;
    return `${text}}`;
  }

  /** JSON text of all exports by namespace, with the context: what a workflow that triggered this one gets. */
  resultJson(): string {
    const parts = [...this.#exports].map(([namespace, exports]) => `"${namespace}":${exports}`);
    return `{${[...parts, `"$context":${this.#context}`].join(',')}}`;
  }

  get lastNamespace(): string | undefined {
    return [...this.#exports.keys()].at(-1);
  }

  /** JSON text of `steps.trigger.context`. */
  get contextJson(): string {
    return this.#context;
  }

  /** JSON text of `$.context` without `deadline`. */
  callContextJson(run: { runs: number; context?: unknown; callback_request?: unknown }): string {
    return `${this.#context.slice(0, -1)},"JIT":${this.#isTest},"run":${JSON.stringify(run)}}`;
  }
}
