import type { Clock } from '#lib/clock.ts';
import type { Store } from '#storage/store.ts';
import type { WorkflowState } from '#storage/tables/workflow-tables.ts';
import {
  defaultWorkflowSettings,
  type WorkflowDefinition,
  type WorkflowSettings,
} from './workflow-definition.ts';
import { findDeployment, findWorkflow } from './workflow-store.ts';

/** What has to be known of a workflow for each event that starts a run of it. */
export interface KnownWorkflow {
  id: string;
  ownerId: string;
  /** The deployment that new events run. */
  deploymentId: string;
  state: WorkflowState;
  settings: WorkflowSettings;
  /** `flow_control` of its row. */
  flowControl: string | null;
}

/** Maximum of workflows in memory; beyond that the oldest entries are dropped. */
const rememberedMax = 10_000;
/** With other nodes on the store, a change by one of them is known here after this at the latest. */
const sharedMs = 1_000;

interface Remembered {
  atMs: number;
  workflow: Promise<KnownWorkflow | undefined>;
}

/**
 * Workflows as they are now, without asking the store for each event. With one node (SQLite) what it remembers is true
 * until `forget`, which a change of a workflow calls after its commit; with several it is up to a second old.
 */
export class WorkflowDirectory {
  readonly #store: Pick<Store, 'isShared' | 'read'>;
  readonly #clock: Clock;
  readonly #known = new Map<string, Remembered>();

  constructor(options: { store: Pick<Store, 'isShared' | 'read'>; clock: Clock }) {
    this.#store = options.store;
    this.#clock = options.clock;
  }

  /** Undefined when it does not exist. */
  find(id: string): Promise<KnownWorkflow | undefined> {
    const nowMs = this.#clock.now();
    const known = this.#known.get(id);
    if (known !== undefined && this.#isTrue(known, nowMs)) return known.workflow;
    const remembered: Remembered = { atMs: nowMs, workflow: this.#read(id) };
    this.#known.delete(id);
    this.#known.set(id, remembered);
    // It drops only itself: the entry may have been forgotten, and read again, meanwhile.
    const drop = () => {
      if (this.#known.get(id) === remembered) this.#known.delete(id);
    };
    remembered.workflow.then((workflow) => {
      if (workflow === undefined) drop();
    }, drop);
    if (this.#known.size > rememberedMax) {
      const [oldest] = this.#known.keys();
      if (oldest !== undefined) this.#known.delete(oldest);
    }
    return remembered.workflow;
  }

  /** It was changed or removed: call it after the commit. */
  forget(id: string): void {
    this.#known.delete(id);
  }

  #isTrue({ atMs }: Remembered, nowMs: number): boolean {
    // Not for ever when the clock steps back.
    return !this.#store.isShared || (atMs <= nowMs && nowMs < atMs + sharedMs);
  }

  async #read(id: string): Promise<KnownWorkflow | undefined> {
    const workflow = await findWorkflow(this.#store.read, id);
    if (workflow === undefined) return undefined;
    const deployment = await findDeployment(this.#store.read, workflow.deployment_id);
    // Removed in between: a deployment is removed only with its workflow.
    if (deployment === undefined) return undefined;
    const definition = JSON.parse(deployment.definition) as WorkflowDefinition;
    return {
      id,
      ownerId: workflow.owner_id,
      deploymentId: deployment.id,
      state: workflow.state,
      settings: { ...defaultWorkflowSettings, ...definition.settings },
      flowControl: workflow.flow_control,
    };
  }
}
