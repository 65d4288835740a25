import type { LeasedJob } from '#jobs/job-store.ts';
import { must } from '#lib/assert.ts';
import type { HttpReply } from '#runner/call-outcome.ts';
import type { JobTable } from '#storage/tables/job-tables.ts';
import type {
  RunSendTable,
  RunState,
  RunTable,
  RunWaitTable,
  WaitKind,
} from '#storage/tables/workflow-tables.ts';
import type { LoadedDeployment, LoadedStep } from '#workflows/definitions/loaded-deployment.ts';
import { isRetriedBlock } from './block-attempts.ts';
import type { EndedStep, RunResumption } from './run.ts';
import { runContextJson } from './run-context.ts';
import { Strand, type StrandWait } from './strand.ts';
import { StrandWaits } from './strand-waits.ts';

/** Names the version of the platform in `context.platform_version`. */
export interface RunSurroundings {
  platformVersion: string;
}

/** A run while this node works on it: what is recorded, and what is only in memory until the next record. */
export class LiveRun {
  readonly run: RunTable;
  readonly job: LeasedJob;
  /** Replaced by the same deployment with new tokens when its tokens expire. */
  deployment: LoadedDeployment;
  /** Rows on their way to the disk; gone once they, or a first record in their place, were handed to the store. */
  unpersisted: { run: RunTable; job: JobTable } | undefined;
  /** When it began, or when it came here for the first time: time limits of blocks do not begin before. Epoch ms. */
  readonly begunAtMs: number;
  /** It has begun before, here or on a node that was lost since. */
  readonly hasBegun: boolean;
  /** The steps of the run itself; those that run at the same time have strands of their own. */
  readonly main: Strand;
  /** Strands that wait while others run. */
  readonly waits: StrandWaits;
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
  /** It is being ended by one of its strands: the others have nothing to say. */
  isEnding = false;
  /** One record after another of its branches, while `attempts` still counts a lost node. */
  #recording: Promise<unknown> = Promise.resolve();
  /** Stops the steps under way. */
  readonly abort = new AbortController();
  /** Records of its steps, and the bytes of their exports and logs: with maps there are far more than any step sees. */
  records = 0;
  recordedBytes = 0;
  /** Steps that had ended when this node took the run, by place, and delays that began since. */
  readonly #recorded = new Map<string, EndedStep>();
  /** Failures of blocks with retries, by place. */
  readonly #failures = new Map<string, number>();
  /** The last try of each step, whatever the attempt, where blocks have retries. */
  readonly #lastTries = new Map<string, number>();
  /** True when a block of the deployment has retries. */
  readonly hasRetriedBlocks: boolean;
  /** What strands other than the run's own wait for, by place. */
  readonly #strandWaits = new Map<string, StrandWait & { failures: number }>();
  readonly #context: string;
  readonly #isTest: boolean;

  constructor(options: {
    run: RunTable;
    job: LeasedJob;
    deployment: LoadedDeployment;
    unpersisted: { run: RunTable; job: JobTable } | undefined;
    steps: readonly EndedStep[];
    /** What is recorded of it; absent: `steps` are all there is. */
    recorded?: { records: number; bytes: number };
    /** The last try of each step at each place, where blocks have retries. */
    lastTries?: readonly Pick<EndedStep, 'position' | 'iteration' | 'try'>[];
    sends: readonly RunSendTable[];
    waits?: readonly RunWaitTable[];
    now?: () => number;
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
    this.hasRetriedBlocks = deployment.steps.some(isRetriedBlock);
    this.hasBegun = options.isNew !== true && run.started_at_ms !== null;
    this.begunAtMs = run.started_at_ms ?? (options.now ?? Date.now)();
    this.#isTest = options.isTest === true;
    this.#context = runContextJson(run, {
      workflowName: deployment.workflowName,
      projectId: deployment.projectId,
      platformVersion: options.surroundings.platformVersion,
      isTest: this.#isTest,
    });
    this.main = new Strand({
      above: `{"trigger":{"event":${run.event},"context":${this.#context}}`,
      bytes: run.event.length,
    });
    this.main.failures = run.failures;
    if (run.wait_kind !== null) this.main.waited = waitOf(run.wait_kind, run.position, run);
    this.waits = new StrandWaits(options.now ?? Date.now, this.abort.signal);
    for (const step of options.steps) this.record(step);
    for (const last of options.lastTries ?? [])
      this.#lastTries.set(waitKey(last.position, last.iteration), last.try);
    this.records = options.recorded?.records ?? options.steps.length;
    this.recordedBytes = options.recorded?.bytes ?? 0;
    for (const wait of options.waits ?? [])
      this.#strandWaits.set(waitKey(wait.position, wait.iteration), {
        ...waitOf(wait.kind, wait.position, { wait_until_ms: wait.until_ms, resumption: wait.resumption }),
        failures: wait.failures,
      });
    this.sends.push(...options.sends);
  }

  /** No run of a workflow: one action is run. */
  get isAction(): boolean {
    return this.run.workflow_id === '';
  }

  /** A step has ended, and need not run again; or an attempt of a block with retries has failed, and it has to decide again. */
  record(step: EndedStep): void {
    const key = placeKey(step);
    if (step.state === 'failed') {
      this.#recorded.delete(key);
      this.#failures.set(key, (this.#failures.get(key) ?? 0) + 1);
    } else this.#recorded.set(key, step);
  }

  /** A try of a step was handed to the store, where blocks have retries: their attempts and the tries of their steps are counted. */
  count(step: EndedStep): void {
    if (!this.hasRetriedBlocks) return;
    this.#lastTries.set(waitKey(step.position, step.iteration), step.try);
    if (step.state === 'failed' && isRetriedBlock(this.stepAt(step.position))) this.record(step);
  }

  recordedAt(position: number, strand: Strand): EndedStep | undefined {
    return this.#recorded.size === 0 ? undefined : this.#recorded.get(placeAt(position, strand));
  }

  /** How often a block with retries has failed, in this attempt of the blocks around it. */
  failuresAt(position: number, strand: Strand): number {
    return this.#failures.get(placeAt(position, strand)) ?? 0;
  }

  /** The number of the next try of a step. In a further attempt of a block its tries count on, so each of them has links of its own. */
  tryAt(position: number, strand: Strand): number {
    const last = this.#lastTries.get(waitKey(position, strand.iteration));
    return last === undefined ? strand.tryAt(position) : last + 1;
  }

  /** What a strand waits for at a step since the run was here last; told once. */
  takeWaitAt(position: number, iteration: string): (StrandWait & { failures: number }) | undefined {
    if (this.#strandWaits.size === 0) return undefined;
    const key = waitKey(position, iteration);
    const wait = this.#strandWaits.get(key);
    this.#strandWaits.delete(key);
    return wait;
  }

  /** A block has ended, with all that waited in it. */
  forgetWaitsIn({ from, to, iteration }: { from: number; to: number; iteration: string }): void {
    for (const [key, { position }] of this.#strandWaits) {
      const place = key.slice(key.indexOf(' ') + 1);
      const isInside = iteration === '' || place === iteration || place.startsWith(`${iteration}-`);
      if (position >= from && position < to && isInside) this.#strandWaits.delete(key);
    }
  }

  /** Does the work after all that was given here before. */
  inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#recording.then(work, work);
    this.#recording = turn.catch(() => {});
    return turn;
  }

  stepAt(position: number): LoadedStep {
    return must(this.deployment.steps[position], `step ${position} of ${this.deployment.id}`);
  }

  /** JSON text of all exports by namespace, with the context: what a workflow that triggered this one gets. */
  resultJson(): string {
    const parts = [...this.main.exports].map(([namespace, exports]) => `"${namespace}":${exports}`);
    return `{${[...parts, `"$context":${this.#context}`].join(',')}}`;
  }

  get lastNamespace(): string | undefined {
    return [...this.main.exports.keys()].at(-1);
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

/** A wait is of the present attempt: those of an attempt that has failed are deleted with its end. */
function waitKey(position: number, iteration: string): string {
  return `${position} ${iteration}`;
}

function placeKey({
  position,
  iteration,
  attempt,
}: Pick<EndedStep, 'position' | 'iteration' | 'attempt'>): string {
  return `${position} ${iteration} ${attempt}`;
}

function placeAt(position: number, { iteration, attempt }: Strand): string {
  return placeKey({ position, iteration, attempt });
}

function waitOf(
  kind: WaitKind,
  position: number,
  row: Pick<RunTable, 'wait_until_ms' | 'resumption'>,
): StrandWait {
  const resumption = row.resumption === null ? {} : (JSON.parse(row.resumption) as RunResumption);
  return { kind, position, resumption, untilMs: row.wait_until_ms ?? 0 };
}
