import { CallerError } from '#lib/errors.ts';
import type { HostCall, HostCallAnswer } from '#runner/runner.ts';
import type { Db } from '#storage/store.ts';
import { redactLarge } from '#vault/redact-large.ts';
import { findWorkflow } from '#workflows/definitions/workflow-store.ts';
import type { WorkflowCalls } from './call-workflow.ts';
import type { LiveRun } from './live-run.ts';
import type { FollowedRun, RunTrigger } from './run.ts';
import type { StepCaller } from './run-host-calls.ts';
import type { RunStarter } from './start-run.ts';

/**
 * Answers `$.flow.trigger(workflowId, payload)`: runs another workflow of the same owner and waits until it has ended, or
 * waits itself; a `call` block then waits in the store until that run has ended. The body is what its last step returned, as JSON, or with the option `result_type: "all_exports"` the
 * exports of all its steps by namespace. A `call` block waits for a run under flow control too, and runs the workflow once for each of its tries;
 * the header has run and state. Throws CallerError `not_found` for a workflow that is not there, not the owner's, or not active.
 */
export function triggerHostCalls(options: {
  db: Db;
  starter: () => RunStarter;
  calls: Pick<WorkflowCalls, 'call'>;
}): (live: LiveRun, ask: HostCall, caller: StepCaller) => Promise<HostCallAnswer> {
  return async ({ run, deployment }, ask, { call, signal }) => {
    const id = ask.header.workflow_id;
    // PostgreSQL refuses a text with a NUL.
    const workflow =
      typeof id === 'string' && !id.includes('\0') ? await findWorkflow(options.db, id) : undefined;
    if (workflow === undefined || workflow.owner_id !== run.owner_id || workflow.state !== 'active')
      throw new CallerError('not_found', `there is no active workflow ${JSON.stringify(id)} of this owner`);
    const trigger: RunTrigger = {
      workflowId: workflow.id,
      ownerId: workflow.owner_id,
      deploymentId: workflow.deployment_id,
      flowControl: workflow.flow_control,
      // An action that is run by itself is no emitter: a call of the API triggers.
      emitterId: run.workflow_id === '' ? null : run.workflow_id,
      sourceType: 'WORKFLOW',
      // The event is stored with the other run.
      event:
        ask.body.length === 0
          ? 'null'
          : await redactLarge(run.owner_id, deployment.redact, payloadText(ask.body)),
      hops: run.hops + 1,
      traceId: run.trace_id,
    };
    const ended =
      call === undefined
        ? await options.starter().startAndFollow(trigger)
        : await options.calls.call(trigger, call, signal);
    if (ended.state === 'parked') call?.parked({ runId: ended.runId, workflowId: workflow.id });
    const header = { run_id: ended.runId, state: ended.state };
    if (ended.state === 'failed')
      throw new CallerError('workflow_failed', `workflow ${workflow.id} failed: ${ended.message}`, header);
    if (ended.state === 'cancelled')
      throw new CallerError(
        'workflow_failed',
        `run ${ended.runId} of workflow ${workflow.id} was cancelled`,
        header,
      );
    const isWhole =
      (ask.header.options as { result_type?: unknown } | undefined)?.result_type === 'all_exports';
    return { header, body: Buffer.from(isWhole ? ended.result : returnValueOf(ended)) };
  };
}

/** Written by user code: a run needs it as JSON. */
function payloadText(body: Buffer): string {
  const text = body.toString('utf8');
  try {
    JSON.parse(text);
  } catch {
    throw new CallerError('invalid_parameter', 'the payload of a workflow must be JSON');
  }
  return text;
}

/** JSON of what the last step returned; `null` when it returned nothing. */
function returnValueOf({ result, lastNamespace }: FollowedRun): string {
  if (lastNamespace === undefined) return 'null';
  const exports = (JSON.parse(result) as Record<string, Record<string, unknown>>)[lastNamespace];
  return JSON.stringify(exports?.$return_value ?? null);
}
