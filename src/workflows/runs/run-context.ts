import type { RunTable } from '#storage/tables/workflow-tables.ts';

/**
 * JSON of `steps.trigger.context`, and of `original_context` in error events: the metadata of a run. For an
 * action that is run by itself, workflow and deployment are ''; code sees null.
 */
export function runContextJson(
  run: RunTable,
  known: {
    /** Null: it is no longer known. */
    workflowName: string | null;
    projectId: string | null;
    platformVersion: string;
    /** A user tries one step. */
    isTest: boolean;
  },
): string {
  return JSON.stringify({
    id: run.id,
    ts: new Date(run.created_at_ms).toISOString(),
    trace_id: run.trace_id,
    pipeline_id: null,
    workflow_id: orNull(run.workflow_id),
    workflow_name: orNull(known.workflowName),
    deployment_id: orNull(run.deployment_id),
    owner_id: run.owner_id,
    project_id: known.projectId,
    emitter_id: run.emitter_id,
    source_type: run.source_type,
    verified: false,
    hops: run.hops === 0 ? null : run.hops,
    test: known.isTest,
    replay: run.replay_of !== null,
    resume: null,
    external_user_id: null,
    external_user_environment: null,
    attachments: {},
    platform_version: known.platformVersion,
  });
}

function orNull(text: string | null): string | null {
  return text === '' ? null : text;
}
