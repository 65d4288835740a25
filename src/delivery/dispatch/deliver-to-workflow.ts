import type { HeldDelivery } from '#delivery/delivery.ts';
import { channels } from '#events/event.ts';
import type { Clock } from '#lib/clock.ts';
import type { JobTable } from '#storage/tables/job-tables.ts';
import type { RunTable } from '#storage/tables/workflow-tables.ts';
import type { WorkflowSettings } from '#workflows/definitions/workflow-definition.ts';
import type { KnownWorkflow, WorkflowDirectory } from '#workflows/definitions/workflow-directory.ts';
import type { RunTrigger } from '#workflows/runs/run.ts';
import type { AttemptOutcome } from './delivery-retries.ts';
import { cameThrough } from './failure-chain.ts';
import type { QueuedRuns, QueuePlace } from './queued-runs.ts';

/** The number of waiting runs of a workflow without a queue of its own: more than any operator plans for. */
const waitingMax = 100_000;
/** Such a workflow is asked again after this. */
const busyDelayMs = 5_000;

/** What makes the rows of runs (workflows/start-run.ts). */
export interface RunPreparer {
  /** `inStore`: the run waits in the store for its turn, also when there is room for it on this node. */
  prepare(
    trigger: RunTrigger,
    options?: { inStore?: boolean },
  ): { run: RunTable; job: JobTable /** To be called after the commit. */; stored: () => void };
}

/** Tells the owner of a workflow that an event was dropped because too many wait for it; resolves when that is on disk. */
export type OnQueueFull = (workflow: KnownWorkflow, delivery: HeldDelivery) => Promise<void>;

export interface WorkflowDeliveryOptions {
  workflows: Pick<WorkflowDirectory, 'find'>;
  runs: RunPreparer;
  queued: QueuedRuns;
  onQueueFull: OnQueueFull;
  clock: Clock;
}

/**
 * Delivers to a listening workflow: the delivery ends as a run of the current deployment, written in the same transaction.
 *
 * A workflow that limits its simultaneous runs, or the runs started per time, has them all wait in the store, whichever
 * node they come to, and begin in the order in which their events were stored. What is more than its queue takes is
 * dropped: the record of the delivery says so, and an event on `$errors`, which is on disk before it.
 */
export async function deliverToWorkflow(
  options: WorkflowDeliveryOptions,
  delivery: HeldDelivery,
): Promise<AttemptOutcome> {
  const { workflows, runs, queued } = options;
  const workflow = await workflows.find(delivery.listenerId);
  if (workflow === undefined) return { kind: 'not-sent', state: 'cancelled', reason: 'listener_removed' };
  if (workflow.state !== 'active') return { kind: 'not-sent', state: 'skipped', reason: 'listener_inactive' };
  if (isFailureOfRun(delivery) && cameThrough(delivery.body.toString(), workflow.id))
    return { kind: 'not-sent', state: 'dropped', reason: 'failure_loop' };
  const trigger = triggerOf(workflow, delivery);
  const attempt = { at: options.clock.now(), latency_ms: 0 };
  const { settings } = workflow;
  const bytes = delivery.body.length;
  if (isBounded(settings)) {
    const { queueSize, concurrency } = settings;
    const place = await queued.admit(workflow.id, { bytes, queueSize, concurrency: concurrency ?? 0 });
    if (place === undefined) {
      await options.onQueueFull(workflow, delivery);
      return { kind: 'not-sent', state: 'dropped', reason: 'queue_full' };
    }
    const prepared = runs.prepare(trigger, { inStore: true });
    // Its place in the queue is that of its event, whenever and on whichever node it was delivered.
    const runAtMs = Math.min(prepared.job.run_at_ms, delivery.createdAtMs);
    const job = { ...prepared.job, run_at_ms: runAtMs };
    return { kind: 'delivered', attempt, handover: withPlace({ ...prepared, job }, place) };
  }
  const prepared = runs.prepare(trigger);
  if (prepared.job.lease_node !== null) return { kind: 'delivered', attempt, handover: prepared };
  const place = await queued.admit(workflow.id, { bytes, queueSize: waitingMax, concurrency: 0 });
  if (place === undefined) return { kind: 'postponed', delayMs: busyDelayMs };
  return { kind: 'delivered', attempt, handover: withPlace(prepared, place) };
}

function isFailureOfRun({ emitterId, channel }: HeldDelivery): boolean {
  return channel === channels.errors && sourceTypeOf(emitterId) === 'WORKFLOW';
}

function isBounded({ concurrency, throttle }: WorkflowSettings): boolean {
  return concurrency !== null || throttle !== null;
}

function triggerOf(workflow: KnownWorkflow, delivery: HeldDelivery): RunTrigger {
  return {
    workflowId: workflow.id,
    ownerId: workflow.ownerId,
    deploymentId: workflow.deploymentId,
    flowControl: workflow.flowControl,
    emitterId: delivery.emitterId,
    sourceType: sourceTypeOf(delivery.emitterId),
    event: delivery.body.toString(),
    hops: delivery.hops + 1,
  };
}

/** What kind of emitter started a run, in the words of `steps.trigger.context.source_type`. */
export function sourceTypeOf(emitterId: string): 'COMPONENT' | 'WORKFLOW' {
  return emitterId.startsWith('p_') ? 'WORKFLOW' : 'COMPONENT';
}

function withPlace(prepared: ReturnType<RunPreparer['prepare']>, place: QueuePlace) {
  return {
    ...prepared,
    stored: () => {
      place.settled();
      prepared.stored();
    },
    refused: () => place.settled(),
  };
}
