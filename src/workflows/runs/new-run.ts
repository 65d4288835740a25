import type { RunTable } from '#storage/tables/workflow-tables.ts';
import type { RunTrigger } from './run.ts';

/** The row of a new run: `running` where a node takes it from birth, else `queued`. */
export function newRunRow(
  trigger: Omit<RunTrigger, 'flowControl'>,
  made: { id: string; nowMs: number; token: string; state: 'queued' | 'running' },
): RunTable {
  const { id, nowMs } = made;
  return {
    id,
    owner_id: trigger.ownerId,
    workflow_id: trigger.workflowId,
    deployment_id: trigger.deploymentId,
    state: made.state,
    emitter_id: trigger.emitterId,
    source_type: trigger.sourceType,
    event: trigger.event,
    trace_id: trigger.traceId ?? id,
    token: made.token,
    hops: trigger.hops,
    no_store: trigger.noStore === true ? 1 : 0,
    replay_of: trigger.replayOf ?? null,
    wait_kind: null,
    wait_until_ms: null,
    position: 0,
    resumption: null,
    failures: 0,
    error: null,
    reason: null,
    flow_warning: null,
    created_at_ms: nowMs,
    started_at_ms: made.state === 'running' ? nowMs : null,
    ended_at_ms: null,
  };
}
