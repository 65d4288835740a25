import { removeEmitter } from '#events/delete-events.ts';
import { insertEmitter } from '#events/event-store.ts';
import { deleteFlowOf } from '#flow-control/flow-queue-store.ts';
import { forgetOutcomes } from '#health/outcome-store.ts';
import { insertJobs, jobRow } from '#jobs/job-store.ts';
import { newTimeOrderedId } from '#lib/ids.ts';
import { deleteTicksOf, deleteTimers, deleteTimersOf, insertTimers } from '#schedule/timer-store.ts';
import type { Store, Tx } from '#storage/store.ts';
import type { DeploymentTable, TriggerTable, WorkflowTable } from '#storage/tables/workflow-tables.ts';
import { hasSameSchedule, timerOfTrigger } from './trigger-definition.ts';
import { deleteTriggersOf, replaceTriggers } from './trigger-store.ts';
import type { WorkflowDefinition } from './workflow-definition.ts';
import {
  type DeploymentAccount,
  deleteWorkflowRow,
  insertDeployment,
  insertWorkflow,
  updateWorkflow,
} from './workflow-store.ts';

/** The subscriptions of a workflow as emitter and as listener, which are updated in the transaction of the change. */
export interface WorkflowLinks {
  added(tx: Tx, workflow: LinkedWorkflow): Promise<void>;
  removed(tx: Tx, workflow: LinkedWorkflow): Promise<void>;
  /** The source is a trigger of the workflow from now on. */
  listen(tx: Tx, link: { workflow: LinkedWorkflow; sourceId: string }): Promise<void>;
  unlisten(tx: Tx, link: { workflow: LinkedWorkflow; sourceId: string }): Promise<void>;
  /** Failed runs of the other workflows of its owner trigger the workflow from now on, or no longer do. */
  listenToFailures(tx: Tx, workflow: LinkedWorkflow): Promise<void>;
  unlistenToFailures(tx: Tx, workflow: LinkedWorkflow): Promise<void>;
}

export interface LinkedWorkflow {
  id: string;
  ownerId: string;
  userId: string;
}

interface WorkflowWriteOptions {
  store: Store;
  links: WorkflowLinks;
}

/** A workflow as it is to be stored. */
interface WrittenWorkflow {
  workflow: WorkflowTable;
  deployment: DeploymentTable;
  accounts: readonly DeploymentAccount[];
  triggers: readonly TriggerTable[];
}

/** Everything that a new workflow is. */
export async function writeWorkflow(
  { store, links }: WorkflowWriteOptions,
  tx: Tx,
  { workflow, deployment, accounts, triggers }: WrittenWorkflow,
): Promise<void> {
  const { id, owner_id: ownerId, created_at_ms: nowMs } = workflow;
  const linked = linkOf(workflow);
  await insertWorkflow(tx, workflow);
  await insertDeployment(store, tx, deployment, accounts);
  await replaceTriggers(store, tx, id, triggers);
  await insertEmitter(tx, { id, ownerId });
  if (workflow.state === 'active') await insertTimers(tx, timersOf(triggers, nowMs));
  await links.added(tx, linked);
  for (const sourceId of sourcesOf(triggers)) await links.listen(tx, { workflow: linked, sourceId });
  if (hearsFailures(triggers)) await links.listenToFailures(tx, linked);
}

/** Another version of a workflow that is locked, with what changes with it. */
export async function writeDeployment(
  { store, links }: WorkflowWriteOptions,
  tx: Tx,
  before: Pick<WrittenWorkflow, 'workflow' | 'triggers'>,
  after: WrittenWorkflow & { hasSameSteps: boolean },
): Promise<void> {
  const { id, name, state, deployment_id, flow_control, updated_at_ms } = after.workflow;
  await insertDeployment(store, tx, after.deployment, after.accounts);
  await updateWorkflow(tx, id, { name, state, deployment_id, flow_control, updated_at_ms });
  // How runs of other steps ended says nothing about these.
  if (!after.hasSameSteps) await forgetOutcomes(tx, id);
  await replaceTriggers(store, tx, id, after.triggers);
  const ticking = before.workflow.state === 'active' ? before.triggers : [];
  if (state === 'active') await changeTimers(tx, ticking, after.triggers, updated_at_ms);
  else await deleteTimersOf(tx, id);
  const workflow = linkOf(after.workflow);
  const heard = new Set(sourcesOf(before.triggers));
  const toHear = new Set(sourcesOf(after.triggers));
  for (const sourceId of heard.difference(toHear)) await links.unlisten(tx, { workflow, sourceId });
  for (const sourceId of toHear.difference(heard)) await links.listen(tx, { workflow, sourceId });
  const [heardFailures, hears] = [hearsFailures(before.triggers), hearsFailures(after.triggers)];
  if (heardFailures && !hears) await links.unlistenToFailures(tx, workflow);
  if (hears && !heardFailures) await links.listenToFailures(tx, workflow);
}

/**
 * Removes a workflow that is locked: at once what starts runs and what waits, the records of its runs and its versions
 * by a job of this transaction. In the order in which schedules and runs lock the same rows.
 */
export async function eraseWorkflow(
  { store, links }: WorkflowWriteOptions,
  tx: Tx,
  workflow: WorkflowTable,
  nowMs: number,
): Promise<void> {
  const { id, owner_id: ownerId } = workflow;
  await deleteWorkflowRow(tx, id);
  await deleteTimersOf(tx, id);
  await deleteTriggersOf(tx, id);
  await deleteFlowOf(tx, id);
  await removeEmitter(store, tx, { id, ownerId }, nowMs);
  await forgetOutcomes(tx, id);
  await deleteTicksOf(tx, id);
  await links.removed(tx, linkOf(workflow));
  const job = jobRow({
    id: newTimeOrderedId(nowMs),
    kind: 'delete_workflow',
    ownerId,
    payload: { workflow_id: id },
    runAtMs: nowMs,
    nowMs,
  });
  await insertJobs(tx, [job]);
  await store.notify(tx, 'millrace_jobs', '');
}

/** The deployment that the workflow is to have now. */
export function deploymentRow(
  workflow: WorkflowTable,
  definition: WorkflowDefinition,
  made: { number: number; templateId: string | null; userId: string },
): DeploymentTable {
  return {
    id: workflow.deployment_id,
    workflow_id: workflow.id,
    owner_id: workflow.owner_id,
    user_id: made.userId,
    number: made.number,
    template_id: made.templateId,
    definition: JSON.stringify(definition),
    created_at_ms: workflow.updated_at_ms,
  };
}

function linkOf(workflow: WorkflowTable): LinkedWorkflow {
  return { id: workflow.id, ownerId: workflow.owner_id, userId: workflow.user_id };
}

/** The timers of triggers that begin to tick now. */
export function timersOf(triggers: readonly TriggerTable[], nowMs: number) {
  return triggers.flatMap((trigger) => timerOfTrigger(trigger, nowMs));
}

function sourcesOf(triggers: readonly TriggerTable[]): string[] {
  return triggers.filter(({ kind }) => kind === 'source').map(({ id }) => id);
}

function hearsFailures(triggers: readonly TriggerTable[]): boolean {
  return triggers.some(({ kind }) => kind === 'on_failure');
}

/** A timer with an unchanged schedule keeps its due times. */
async function changeTimers(
  tx: Tx,
  before: readonly TriggerTable[],
  after: readonly TriggerTable[],
  nowMs: number,
): Promise<void> {
  const goesOn = (trigger: TriggerTable, among: readonly TriggerTable[]) =>
    among.some((other) => other.id === trigger.id && hasSameSchedule(other, trigger));
  const timers = (rows: readonly TriggerTable[]) => rows.filter(({ kind }) => kind === 'timer');
  const gone = timers(before).filter((trigger) => !goesOn(trigger, after));
  await deleteTimers(
    tx,
    gone.map(({ id }) => id),
  );
  await insertTimers(
    tx,
    timersOf(
      timers(after).filter((trigger) => !goesOn(trigger, before)),
      nowMs,
    ),
  );
}
