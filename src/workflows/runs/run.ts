import type { HttpReply } from '#runner/call-outcome.ts';
import type { JobTable } from '#storage/tables/job-tables.ts';
import type { RunSourceType, RunState, RunStepTable, RunTable } from '#storage/tables/workflow-tables.ts';

/** What triggers a run. */
export interface RunTrigger {
  workflowId: string;
  ownerId: string;
  /** The deployment the run begins with, and ends with. */
  deploymentId: string;
  /** `flow_control` of the workflow's row: decides when the run may begin. */
  flowControl: string | null;
  /** hi_, ti_, ei_, dc_ or p_ id of what triggered it; null: a user. */
  emitterId: string | null;
  sourceType: RunSourceType;
  /** JSON text: `steps.trigger.event`. */
  event: string;
  /** How many workflows and sources the event has come through. */
  hops: number;
  /** Nothing of it is kept once it has ended. */
  noStore?: boolean;
  /** A replay keeps that of the run it repeats. Absent: the trace that triggered it, or where tracing is off the id of the run. */
  traceId?: string;
  replayOf?: string;
}

/** A run with its job: `running` and leased to this node, or `queued`. */
export interface NewRun {
  run: RunTable;
  job: JobTable;
  /** The `traceparent` of the span that it was made in; absent: there was none. */
  trace?: string;
}

/** How a run left this node: in the state it ended in, waiting, refused by the queue, or in a way that this node does not know. */
export type TurnEnd = RunState | 'parked' | 'refused' | 'unknown';

/** Why a run stops here for now; `branches`: some of its strands wait and the others have ended. */
export type Stop = 'ended' | 'parked' | 'branches';

/** A step that succeeded, or whose error a block handled, as far as the run needs it to continue; of a block with retries its failures too. */
export type EndedStep = Pick<
  RunStepTable,
  'position' | 'iteration' | 'attempt' | 'try' | 'namespace' | 'state' | 'exports' | 'error' | 'started_at_ms'
>;

/** The outcome of a run that a caller follows. */
export interface FollowedRun {
  runId: string;
  state: TurnEnd;
  /** JSON object of the exports of its steps. */
  result: string;
  lastNamespace: string | undefined;
  /** The message of its error; empty when it did not fail. */
  message: string;
}

/** The answer of a run that a caller waits for. */
export type RunReply =
  | { kind: 'responded'; reply: HttpReply }
  /** It ended, or came to a wait, without `$.respond`. */
  | { kind: 'ended'; waits: boolean; state: TurnEnd };

/** What a waiting run continues with; JSON in `runs.resumption`. */
export interface RunResumption {
  /** `$.context.run` of the next call of the step. */
  run?: { runs: number; context: unknown };
  /** JSON-able request that hit the resume URL; exported as `$resume_data`, or sent as `callback_request`. */
  request?: unknown;
  /** The run that a `call` block has begun, and since when it waits for it, epoch ms. */
  called?: { runId: string; workflowId: string; sinceMs: number };
  /** Its cancel URL was called while its step still ran. */
  cancelled?: true;
}

const terminalStates: ReadonlySet<RunState> = new Set<RunState>([
  'succeeded',
  'failed',
  'cancelled',
  'quarantined',
  'not_triggered',
]);

export function isTerminal(run: Pick<RunTable, 'state'>): boolean {
  return terminalStates.has(run.state);
}
