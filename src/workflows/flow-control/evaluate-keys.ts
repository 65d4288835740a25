import { createHash } from 'node:crypto';
import { parseFlowControl } from '#flow-control/flow-control.ts';
import { expressionsOf, keysFrom, plainValues } from '#flow-control/read-keys.ts';
import { type ArrivedJob, arrivedJobs, setArrivedPayload } from '#jobs/held-job-store.ts';
import { arrivalLane } from '#jobs/held-jobs.ts';
import { CallerError, toError, UnavailableError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { Runner } from '#runner/runner.ts';
import { wasTakenDown } from '#runner/runner-outcomes.ts';
import type { Store } from '#storage/store.ts';
import type { RunTable } from '#storage/tables/workflow-tables.ts';
import { redactLarge } from '#vault/redact-large.ts';
import type { LoadedDeployment } from '#workflows/definitions/loaded-deployment.ts';
import { findWorkflow } from '#workflows/definitions/workflow-store.ts';
import { LiveRun, type RunSurroundings } from '#workflows/runs/live-run.ts';
import { findRun } from '#workflows/runs/run-store.ts';

/** Runs whose keys are read from the store at a time, and evaluated at the same time, for each workflow. */
const batchMax = 50;
const atOnceMax = 8;
/** Longest that one expression may take. A key that takes longer counts as the empty one. */
const deadlineMs = 5_000;

/** Says what the value of an expression is; a value that cannot be a key stays in the sandbox. */
const code = `module.exports = {
  props: { value: { type: 'any' } },
  run() {
    const { value } = this;
    const type = value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value;
    const isKey = type === 'string' || type === 'number' || type === 'boolean';
    return { type, value: isKey ? String(value).slice(0, 10000) : null };
  },
};
`;
const bundle = { hash: createHash('sha256').update(code).digest('hex'), code, format: 'cjs' as const };

/** Names the module beside the steps of a deployment; steps are c_ and 12 characters. */
const moduleName = 'c_flow_key';

export interface KeyEvaluatorOptions {
  store: Store;
  logger: Logger;
  runner: Pick<Runner, 'call'>;
  deployments: { get(deploymentId: string): Promise<LoadedDeployment> };
  surroundings: RunSurroundings;
  /** The keys of runs of this workflow are known. */
  onEvaluated: (workflowId: string) => void;
}

/**
 * Evaluates keys that are more than a path into the event: in a process of the owner, like the props of steps. What is not evaluated stays
 * in the store, and this or another node evaluates it later; that two nodes do is harmless.
 */
export class KeyEvaluator {
  readonly #options: KeyEvaluatorOptions;
  /** Workflows whose keys are evaluated here now; true: more have arrived meanwhile. */
  readonly #underWay = new Map<string, boolean>();
  #isStopped = false;

  constructor(options: KeyEvaluatorOptions) {
    this.#options = options;
  }

  /** Does not wait: slow expressions of one workflow hold up no other one. */
  evaluate(workflowId: string): void {
    if (this.#isStopped) return;
    if (this.#underWay.has(workflowId)) {
      this.#underWay.set(workflowId, true);
      return;
    }
    this.#underWay.set(workflowId, false);
    void this.#evaluateAll(workflowId).then(() => {
      const isMore = this.#underWay.get(workflowId) === true;
      this.#underWay.delete(workflowId);
      if (isMore) this.evaluate(workflowId);
    });
  }

  /** What is under way ends with the runner. */
  stop(): void {
    this.#isStopped = true;
  }

  async #evaluateAll(workflowId: string): Promise<void> {
    const { store, logger, onEvaluated } = this.#options;
    const lane = arrivalLane(workflowId, { isEvaluated: false });
    try {
      while (!this.#isStopped) {
        const jobs = await arrivedJobs(store.read, lane, batchMax);
        if (jobs.length === 0) return;
        for (let at = 0; at < jobs.length; at += atOnceMax) {
          const part = jobs.slice(at, at + atOnceMax);
          const known = await Promise.all(part.map((job) => this.#keysOf(workflowId, job)));
          await store.transaction(async (tx) => {
            for (const [index, payload] of known.entries())
              await setArrivedPayload(tx, { id: part[index]?.id ?? '', subject: workflowId, payload });
          });
          onEvaluated(workflowId);
        }
      }
    } catch (error) {
      // They stay in the store, and are evaluated again with the next scan.
      logger.warn({ workflow: workflowId, error: toError(error).message }, 'flow-control.evaluation-failed');
    }
  }

  async #keysOf(workflowId: string, { id, payload }: ArrivedJob): Promise<ArrivedJob['payload']> {
    const { read } = this.#options.store;
    const run = await findRun(read, id);
    const workflow = await findWorkflow(read, workflowId);
    const event = { bytes: payload.flow?.bytes ?? 0, repeats: payload.flow?.repeats === true };
    // The pass drops the runs of a workflow that is gone.
    if (run === undefined || workflow === undefined || workflow.flow_control === null)
      return { ...payload, flow: { bytes: event.bytes } };
    const flow = parseFlowControl(workflow.flow_control);
    const values = plainValues(flow, run.event);
    for (const expression of expressionsOf(flow)) {
      if (values.has(expression)) continue;
      values.set(expression, await this.#valueOf(run, expression));
    }
    return { ...payload, flow: keysFrom(flow, values, event) };
  }

  /** An Error when it has none. */
  async #valueOf(run: RunTable, expression: string): Promise<unknown> {
    let deployment: LoadedDeployment;
    try {
      deployment = await this.#options.deployments.get(run.deployment_id);
    } catch (error) {
      if (error instanceof CallerError) return error;
      throw error;
    }
    const outcome = await this.#call(run, deployment, expression, false);
    const last = wasTakenDown(outcome) ? await this.#call(run, deployment, expression, true) : outcome;
    if (last.status === 'cancelled')
      throw new UnavailableError('overloaded', last.error?.message ?? 'the expression was cancelled');
    if (last.status !== 'finished' || last.step === undefined)
      return new Error(deployment.redact(last.error?.message ?? last.status));
    const { $return_value: result } = JSON.parse(last.step.exports) as {
      $return_value?: { type: string; value: string | null };
    };
    if (typeof result?.value === 'string') return redactLarge(run.owner_id, deployment.redact, result.value);
    return { null: null, array: [], object: {} }[result?.type ?? ''];
  }

  #call(run: RunTable, deployment: LoadedDeployment, expression: string, alone: boolean) {
    const live = new LiveRun({
      run,
      job: {
        ...{ id: run.id, kind: 'run_workflow', ownerId: run.owner_id, lane: null, attempts: 1, bytes: 0 },
        payload: { run_id: run.id, workflow_id: run.workflow_id },
        createdAtMs: run.created_at_ms,
      },
      ...{ deployment, unpersisted: undefined, steps: [], sends: [] },
      surroundings: this.#options.surroundings,
    });
    return this.#options.runner.call({
      deploymentId: deployment.id,
      ownerId: deployment.ownerId,
      trustDomain: deployment.trustDomain,
      isolated: deployment.settings.isolated === true,
      bundle,
      module: moduleName,
      packages: deployment.packages,
      revision: deployment.revision,
      call: {
        kind: 'step',
        steps: live.main.stepsJson(),
        context: live.callContextJson({ runs: 1 }),
        ...{ resumeUrl: '', cancelUrl: '', scratch: run.id },
      },
      props: { value: expression },
      variables: deployment.variables.values,
      db: {},
      deadlineMs,
      memoryMb: deployment.settings.memoryMb,
      ...(alone ? { alone } : {}),
    });
  }
}
