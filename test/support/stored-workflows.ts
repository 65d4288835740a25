import type { RunPreparer } from '#delivery/dispatch/deliver-to-workflow.ts';
import { insertEmitter } from '#events/event-store.ts';
import { jobRow } from '#jobs/job-store.ts';
import type { Clock } from '#lib/clock.ts';
import { newTimeOrderedId } from '#lib/ids.ts';
import type { Store } from '#storage/store.ts';
import type { RunTable, WorkflowState } from '#storage/tables/workflow-tables.ts';
import {
  defaultWorkflowSettings,
  type WorkflowSettings,
} from '#workflows/definitions/workflow-definition.ts';
import { insertDeployment, insertWorkflow, updateWorkflow } from '#workflows/definitions/workflow-store.ts';
import { newRunRow } from '#workflows/runs/new-run.ts';
import type { RunTrigger } from '#workflows/runs/run.ts';

/** A workflow that is nothing but its rows: it emits and listens, and its runs never continue. */
export async function storeWorkflow(
  store: Store,
  options: {
    id?: string;
    ownerId?: string;
    state?: WorkflowState;
    settings?: Partial<WorkflowSettings>;
  } = {},
): Promise<string> {
  const { id = 'p_1', ownerId = 'o_1', state = 'active' } = options;
  await store.transaction(async (tx) => {
    await insertEmitter(tx, { id, ownerId });
    await insertWorkflow(tx, {
      id,
      owner_id: ownerId,
      user_id: 'u_1',
      project_id: null,
      name: id,
      state,
      deployment_id: `d_${id}_1`,
      flow_control: null,
      created_at_ms: 1,
      updated_at_ms: 1,
    });
  });
  await deployAgain(store, { id, ownerId, number: 1, settings: options.settings ?? {} });
  return id;
}

/** Another deployment of it, which new events run. */
export async function deployAgain(
  store: Store,
  workflow: { id: string; ownerId?: string; number: number; settings: Partial<WorkflowSettings> },
): Promise<string> {
  const { id, ownerId = 'o_1', number } = workflow;
  const settings = { ...defaultWorkflowSettings, ...workflow.settings };
  const deploymentId = `d_${id}_${number}`;
  await store.transaction(async (tx) => {
    const row = {
      id: deploymentId,
      workflow_id: id,
      owner_id: ownerId,
      user_id: 'u_1',
      number,
      template_id: null,
      definition: JSON.stringify({ steps: [], settings }),
      created_at_ms: 1,
    };
    await insertDeployment(store, tx, row, []);
    await updateWorkflow(tx, id, { deployment_id: deploymentId, updated_at_ms: number });
  });
  return deploymentId;
}

/** Makes the rows of runs as the engine does, and remembers those reported as stored. */
export class RecordedRuns implements RunPreparer {
  readonly stored: string[] = [];
  readonly prepared: { trigger: RunTrigger; inStore: boolean }[] = [];
  readonly #clock: Clock;
  readonly #hereOn: string | undefined;

  /** `hereOn`: the node that has room for every run. */
  constructor(clock: Clock, hereOn?: string) {
    this.#clock = clock;
    this.#hereOn = hereOn;
  }

  prepare(trigger: RunTrigger, { inStore = false }: { inStore?: boolean } = {}) {
    this.prepared.push({ trigger, inStore });
    const nowMs = this.#clock.now();
    const id = newTimeOrderedId(nowMs);
    const node = inStore ? undefined : this.#hereOn;
    const { workflowId, ownerId } = trigger;
    const payload = { run_id: id, workflow_id: workflowId };
    const job = jobRow(
      { id, kind: 'run_workflow', ownerId, lane: workflowId, payload, runAtMs: nowMs, nowMs },
      node,
    );
    const run = newRunRow(trigger, {
      id,
      nowMs,
      token: 'token',
      state: node === undefined ? 'queued' : 'running',
    });
    return { run, job, stored: () => this.stored.push(id) };
  }
}

/** A run that is nothing but its row. One in a terminal state ended as it began. */
export async function storeRun(
  store: Store,
  given: Partial<RunTable> & Pick<RunTable, 'workflow_id' | 'state' | 'created_at_ms'>,
): Promise<string> {
  const { workflow_id: workflowId, state, created_at_ms: nowMs } = given;
  const id = newTimeOrderedId(nowMs);
  const trigger: RunTrigger = {
    ownerId: 'o_1',
    workflowId,
    deploymentId: `d_${workflowId}_1`,
    flowControl: null,
    emitterId: null,
    sourceType: 'HTTP',
    event: '{}',
    hops: 0,
  };
  const isOpen = ['queued', 'running', 'waiting'].includes(state);
  const row = {
    ...newRunRow(trigger, { id, nowMs, token: 'token', state: 'queued' }),
    ended_at_ms: isOpen ? null : nowMs,
    ...given,
  };
  await store.transaction((tx) => tx.insertInto('runs').values(row).execute());
  return id;
}
