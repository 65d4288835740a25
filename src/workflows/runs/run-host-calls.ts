import { CallerError } from '#lib/errors.ts';
import type { HostCall, HostCallAnswer } from '#runner/runner.ts';
import type { LiveRun } from './live-run.ts';
import type { WaitPlace } from './run-link.ts';

/** Answers host calls of the code of one owner. */
export type OwnerHostCalls = (ownerId: string, hostCall: HostCall) => Promise<HostCallAnswer>;

/** The try of a `call` block. */
export interface CallPlace extends WaitPlace {
  runId: string;
  /** The run that it has begun in a try before, and waits for; absent: none. */
  calledRunId?: string;
  /** The run that it has begun waits, and so it waits too. */
  parked(called: { runId: string; workflowId: string }): void;
}

/** The step that makes a host call. `signal`: it has ended. `call`: it is a `call` block. */
export interface StepCaller {
  call: CallPlace | undefined;
  signal: AbortSignal;
}

/** Answers the host calls of a step. The owner is the run's, whatever the host call says. */
export function answerHostCalls(kinds: {
  data_store: OwnerHostCalls;
  file: OwnerHostCalls;
  /** `$.flow.trigger`: runs another workflow of the same owner. */
  trigger_workflow: (live: LiveRun, hostCall: HostCall, caller: StepCaller) => Promise<HostCallAnswer>;
}): (live: LiveRun, hostCall: HostCall, caller: StepCaller) => Promise<HostCallAnswer> {
  return async (live, hostCall, caller) => {
    switch (hostCall.kind) {
      case 'data_store':
        return kinds.data_store(live.run.owner_id, hostCall);
      case 'file':
        return kinds.file(live.run.owner_id, hostCall);
      case 'trigger_workflow':
        return kinds.trigger_workflow(live, hostCall, caller);
      default:
        throw unknownKind(hostCall);
    }
  };
}

/** Answers the host calls of a source, which starts no workflows but by its events. */
export function answerSourceHostCalls(kinds: Record<'data_store' | 'file', OwnerHostCalls>): OwnerHostCalls {
  return async (ownerId, hostCall) => {
    if (hostCall.kind === 'data_store' || hostCall.kind === 'file')
      return kinds[hostCall.kind](ownerId, hostCall);
    throw unknownKind(hostCall);
  };
}

function unknownKind({ kind }: HostCall): CallerError {
  return new CallerError(
    'invalid_parameter',
    `the service does not know what ${JSON.stringify(kind.slice(0, 100))} is`,
  );
}
