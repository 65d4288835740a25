import { CallerError, toError, UnavailableError } from '#lib/errors.ts';
import type { SourceDeployer } from '#sources/deploy-source.ts';
import { findSource, pageOfSources } from '#sources/source-store.ts';
import type { Db } from '#storage/store.ts';
import type { WorkflowDeployer } from './deploy-workflow.ts';
import { pageOfWorkflows } from './workflow-store.ts';

const pageSize = 100;

/** Ids of the active sources and workflows of an owner. */
export interface ActiveDeployments {
  sources: string[];
  workflows: string[];
}

export async function activeDeploymentsOf(db: Db, ownerId: string): Promise<ActiveDeployments> {
  const sources: string[] = [];
  for await (const { id } of everyRow((page) => pageOfSources(db, ownerId, page)))
    if ((await findSource(db, id))?.state === 'active') sources.push(id);
  const workflows: string[] = [];
  for await (const { id, state } of everyRow((page) => pageOfWorkflows(db, { ownerId }, page)))
    if (state === 'active') workflows.push(id);
  return { sources, workflows };
}

async function* everyRow<Row extends { id: string }>(
  read: (page: { limit: number; after?: string }) => Promise<{ rows: Row[] }>,
): AsyncGenerator<Row> {
  for (let after: string | undefined; ; ) {
    const { rows } = await read({ limit: pageSize, ...(after === undefined ? {} : { after }) });
    yield* rows;
    after = rows.at(-1)?.id;
    if (rows.length < pageSize) return;
  }
}

/** What could not be paused, and why. */
export interface PauseFailure {
  id: string;
  reason: string;
}

/** Deactivates these sources and workflows, one after another, and returns those that could not be deactivated. */
export async function pauseDeployments(
  { deployer, workflowDeployer }: { deployer: SourceDeployer; workflowDeployer: WorkflowDeployer },
  ownerId: string,
  { sources, workflows }: ActiveDeployments,
): Promise<PauseFailure[]> {
  const owner = { ownerId, userId: ownerId, readableOwners: [ownerId] };
  const failures: PauseFailure[] = [];
  for (const id of workflows) await attempt(id, () => workflowDeployer.update(id, { active: false }));
  for (const id of sources) await attempt(id, () => deployer.update(id, { active: false }, owner));
  return failures;

  async function attempt(id: string, pause: () => Promise<unknown>): Promise<void> {
    try {
      await pause();
    } catch (error) {
      if (!(error instanceof CallerError) && !(error instanceof UnavailableError)) throw error;
      failures.push({ id, reason: toError(error).message });
    }
  }
}
