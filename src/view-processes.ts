import {
  deploymentsNamedMax,
  idsShownMax,
  ownersShownMax,
  type Processes,
  setApartShownMax,
} from '#http/routes/instance-routes.ts';
import { type Caller, ownersOf } from '#identity/permissions.ts';
import { usernamesOf } from '#identity/user-store.ts';
import { listWorkspacesOf } from '#identity/workspace-store.ts';
import { namesOf } from '#insights/overview-store.ts';
import { epochSeconds } from '#lib/clock.ts';
import type { Runner } from '#runner/runner.ts';
import { membersOfDomain } from '#runner/trust-domain.ts';
import type { Db } from '#storage/store.ts';
import { workflowsOfDeployments } from '#workflows/definitions/workflow-store.ts';

interface ProcessesOptions {
  runner: Pick<Runner, 'stats' | 'processes'>;
  db: Db;
  node: string;
}

/**
 * The processes of user code on this node. The admin of the instance sees the names of all users, but of workspaces, sources and workflows
 * only the names that the admin may read as their member.
 */
export async function viewProcesses(
  { runner, db, node }: ProcessesOptions,
  caller: Caller,
): Promise<Processes> {
  const { processesMax, memoryBytesMax, ...all } = runner.processes();
  const shares = all.shares
    .toSorted((a, b) => b.refused - a.refused || b.processes - a.processes)
    .slice(0, ownersShownMax);
  const setApart = all.setApart.slice(0, setApartShownMax);
  const [ownerNames, deployments] = await Promise.all([
    ownerNamesOf(db, caller, [
      ...[...all.processes, ...shares, ...setApart].map(({ ownerId }) => ownerId),
      ...all.processes.flatMap(({ trustDomain }) => membersOfDomain(trustDomain)),
    ]),
    readableDeployments(db, caller, [
      ...all.processes.flatMap(({ ownerId, deploymentIds }) =>
        deploymentIds.slice(0, deploymentsNamedMax).map((id) => ({ ownerId, id })),
      ),
      ...setApart.map(({ ownerId, deploymentId }) => ({ ownerId, id: deploymentId })),
      ...all.processes.flatMap(({ ownerId, lastBlame }) =>
        lastBlame === undefined ? [] : [{ ownerId, id: lastBlame.deploymentId }],
      ),
    ]),
  ]);
  const owner = (id: string) => ({ owner_id: id, owner_name: ownerNames.get(id) ?? null });
  return {
    node,
    sandbox: runner.stats().level,
    processes_max: processesMax,
    ready: runner.stats().prewarmed,
    memory_bytes: all.shares.reduce((sum, { memoryBytes }) => sum + memoryBytes, 0),
    memory_bytes_max: memoryBytesMax,
    processes: all.processes.map(({ pid, ownerId, isShared, state, deploymentIds, lastBlame, ...rest }) => ({
      pid: pid ?? null,
      ...owner(ownerId),
      shared: isShared,
      trust_domain: membersOfDomain(rest.trustDomain),
      trust_domain_names: membersOfDomain(rest.trustDomain).map((id) => ownerNames.get(id) ?? null),
      last_blame:
        lastBlame === undefined
          ? null
          : {
              deployment_id: lastBlame.deploymentId,
              reason: lastBlame.reason,
              at: epochSeconds(lastBlame.atMs),
            },
      purpose: rest.purpose,
      state,
      deployment_count: deploymentIds.length,
      deployment_ids: deploymentIds.slice(0, idsShownMax),
      calls: rest.calls,
      memory_bytes: rest.memoryBytes ?? null,
      cpu_cores: Math.round(rest.cores * 100) / 100,
      priority: rest.isGreedy ? ('low' as const) : ('usual' as const),
      started_at: epochSeconds(rest.startedAtMs),
    })),
    owners: shares.map(({ ownerId, memoryBytes, ...rest }) => ({
      ...owner(ownerId),
      ...rest,
      memory_bytes: memoryBytes,
    })),
    set_apart_count: all.setApart.length,
    set_apart: setApart.map(({ deploymentId, ownerId, reason, atMs }) => ({
      deployment_id: deploymentId,
      ...owner(ownerId),
      reason,
      at: epochSeconds(atMs),
    })),
    deployments,
  };
}

async function ownerNamesOf(
  db: Db,
  { userId }: Caller,
  ids: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const userIds = new Set(ids.filter((id) => id.startsWith('u_')));
  const [users, workspaces] = await Promise.all([
    usernamesOf(db, [...userIds]),
    listWorkspacesOf(db, userId),
  ]);
  return new Map([...users, ...workspaces.map(({ id, name }) => [id, name] as const)]);
}

/** The sources and workflows of deployments, where the caller may read what belongs to their owner. */
async function readableDeployments(
  db: Db,
  caller: Caller,
  deployments: readonly { ownerId: string; id: string }[],
): Promise<Processes['deployments']> {
  const owners = await ownersOf(db, caller);
  const ids = [...new Set(deployments.filter(({ ownerId }) => owners.mayRead(ownerId)).map(({ id }) => id))];
  const [sources, workflows] = await Promise.all([
    namesOf(
      db,
      ids.filter((id) => id.startsWith('dc_')),
    ),
    workflowsOfDeployments(
      db,
      ids.filter((id) => id.startsWith('d_')),
    ),
  ]);
  return [
    ...[...sources].map(([id, name]) => ({ id, object_id: id, name })),
    ...[...workflows].map(([id, workflow]) => ({ id, object_id: workflow.id, name: workflow.name })),
  ];
}
