import { newTimeOrderedId } from '#lib/ids.ts';
import type { LoadedDeployment } from '#workflows/definitions/loaded-deployment.ts';
import { LiveRun } from './live-run.ts';
import { newRunRow } from './new-run.ts';
import type { RunTrigger } from './run.ts';

/** A run that exists in memory only, for one step: nothing of it is recorded. */
export function detachedRun(
  trigger: Pick<RunTrigger, 'workflowId' | 'ownerId' | 'deploymentId' | 'event'>,
  made: { deployment: LoadedDeployment; nowMs: number; platformVersion: string; isTest: boolean },
): LiveRun {
  const { deployment, nowMs, platformVersion, isTest } = made;
  const id = newTimeOrderedId(nowMs);
  return new LiveRun({
    run: newRunRow(
      { ...trigger, emitterId: null, sourceType: 'SDK', hops: 0, noStore: true },
      { id, nowMs, token: 'detached', state: 'running' },
    ),
    job: {
      id,
      kind: 'run_workflow',
      ownerId: trigger.ownerId,
      lane: null,
      attempts: 1,
      payload: { run_id: id, workflow_id: trigger.workflowId },
      bytes: 0,
      createdAtMs: nowMs,
    },
    deployment,
    unpersisted: undefined,
    steps: [],
    sends: [],
    surroundings: { platformVersion },
    isTest,
  });
}
