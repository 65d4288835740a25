import type { Emission } from '#events/emit-event.ts';
import type { StoredEvent } from '#events/event.ts';
import type { UsageRow } from '#metering/invocation-usage.ts';
import type { JobTable } from '#storage/tables/job-tables.ts';
import type {
  RunSendTable,
  RunState,
  RunStepTable,
  RunTable,
  RunWaitTable,
  WaitKind,
} from '#storage/tables/workflow-tables.ts';
import type { StepRange } from '#workflows/definitions/block-definition.ts';
import type { RunResumption } from './run.ts';

/** One change of one run, by the node that runs it. */
export interface RunRecord {
  run: Pick<RunTable, 'id' | 'owner_id' | 'workflow_id' | 'deployment_id' | 'no_store'>;
  /** The job as it is held; its `attempts` is the fence. */
  job: { id: string; attempts: number };
  /** Rows that are not in the store yet: written by this change, and nothing is to be fenced. */
  unpersisted?: { run: RunTable; job: JobTable };
  step?: RunStepTable;
  /** State of `$.service.db` that a step set: its id and JSON text by key. */
  stepDb?: { stepId: string; sets: Record<string, string> };
  /** What its steps have asked to be sent when it ends; kept with the step. */
  sends?: readonly RunSendTable[];
  /** It lost its node before: a finished step is progress, and losses count from zero. */
  resetsAttempts?: boolean;
  usage?: UsageRow;
  next: NextState;
}

/** The waits at the steps of a block, for one place in the maps around it. */
export type WaitsInBlock = StepRange & Pick<RunWaitTable, 'iteration'>;

export type NextState =
  /** The next step follows; `clears` what the run waited for before. `answered`: the wait of a branch that is over. */
  | {
      kind: 'go-on';
      clears: boolean;
      answered?: Pick<RunWaitTable, 'position' | 'iteration'>;
      /** What waits at these steps of a block waits no longer. */
      over?: WaitsInBlock;
    }
  /** A branch waits, and others may run. */
  | {
      kind: 'branch-wait';
      clears: boolean;
      wait: RunWaitTable;
      /** As in `go-on`. */
      over?: WaitsInBlock;
    }
  | {
      kind: 'wait';
      /** As in `go-on`. */
      over?: WaitsInBlock;
      waitKind: WaitKind;
      untilMs: number;
      position: number;
      failures: number;
      resumption: RunResumption | null;
    }
  | {
      kind: 'end';
      state: RunState;
      position: number;
      error: string | null;
      reason: string | null;
      emissions: readonly Emission[];
      /** Sends whose time has come. */
      jobs: readonly JobTable[];
      /** Among `emissions` is what its steps sent by `$.send.emit`. */
      emits: boolean;
    };

export type RecordResult =
  | {
      held: true;
      stored: StoredEvent[];
      /** The wait is over already. */
      woken: boolean;
      /** When the first branch of a parked run continues, epoch ms. */
      untilMs?: number;
    }
  /** Another node has the run, or it was cancelled or removed: nothing of it may be stored. */
  | { held: false };
