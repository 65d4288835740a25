import { type Static, Type } from 'typebox';
import { type App, callerOf, DataOf, OneOf } from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import type { Caller } from '#identity/permissions.ts';
import { processPurposes, processStates } from '#runner/runner.ts';
import { sandboxLevels } from '#runner/sandbox-grant.ts';
import { providerStates } from '#single-sign-on/identity-provider.ts';
import { clockStates, jobKinds, jobStates } from '#storage/tables/job-tables.ts';
import { EgressProxyShape, FileBucketShape, Health } from './health-shapes.ts';

/** Beyond, a count says enough. */
export const idsShownMax = 100;
export const ownersShownMax = 100;
export const setApartShownMax = 100;
/** Deployments of a process that have their names beside them: a page has no room for more. */
export const deploymentsNamedMax = 5;

const InstanceShape = Type.Object({
  version: Type.String({ description: 'The version of Millrace' }),
  node_version: Type.String({ description: 'The version of Node, such as v26.1.0' }),
  platform: Type.String({ description: 'Operating system and processor, such as linux x64' }),
  node: Type.String({ description: 'node_…: this process among those on the same store' }),
  now: Type.Integer({ description: 'Epoch seconds: the time that this process goes by' }),
  clock: Type.Union(
    [
      Type.Object({
        state: OneOf(clockStates, {
          description:
            'corrected: more than a second apart; unreliable: more than a minute apart, no timer fires on this node',
        }),
        offset_ms: Type.Integer({ description: 'Clock of this machine minus that of the database' }),
        checked_at: Type.Integer({ description: 'Epoch seconds' }),
      }),
      Type.Null(),
    ],
    { description: 'How the clock of this machine compares with that of the database; null with SQLite' },
  ),
  nodes: Type.Array(
    Type.Object({
      id: Type.String({ description: 'node_…' }),
      started_at: Type.Integer({ description: 'Epoch seconds' }),
      heartbeat_at: Type.Integer({ description: 'Epoch seconds of its last heartbeat' }),
      clock: Type.Union(
        [Type.Object({ state: OneOf(clockStates), offset_ms: Type.Integer() }), Type.Null()],
        {
          description: 'The clock of its machine, as in clock; null with SQLite',
        },
      ),
      health: Health,
      advice: Type.Union([Type.String(), Type.Null()], { description: 'What to do; null: nothing' }),
    }),
    {
      description:
        'Every process on this store. healthy; paused: it is stopping; failing: it sent no heartbeat, its clock is off by more than a ' +
        'minute, or the store takes no writes of it. One that ended without a stop is listed for an hour',
    },
  ),
  started_at: Type.Integer({ description: 'Epoch seconds' }),
  address: Type.String({ description: 'Under which others reach it' }),
  store: OneOf(['sqlite', 'postgres']),
  sandbox: OneOf(sandboxLevels, { description: 'Isolation of user code' }),
  sandbox_reason: Type.Union([Type.String(), Type.Null()], {
    description: 'Why it is not the kernel level; null: it is, or another one was asked for',
  }),
  cgroups_reason: Type.Union([Type.String(), Type.Null()], {
    description: 'Why processes of user code have no control group (cgroup) each; null: they do',
  }),
  memory_bytes: Type.Integer({ description: 'Memory of this process, without processes of user code' }),
  disk: Type.Union(
    [
      Type.Object({
        folder: Type.String(),
        free_bytes: Type.Integer({ description: 'Bytes that the service may still write' }),
        total_bytes: Type.Integer(),
      }),
      Type.Null(),
    ],
    { description: 'The file system of the data folder; null: the system does not say' },
  ),
  jobs: Type.Array(
    Type.Object({
      kind: OneOf(jobKinds),
      state: OneOf(jobStates),
      count: Type.Integer(),
    }),
    { description: 'In the store, of all users and workspaces' },
  ),
  jobs_running: Type.Integer({ description: 'In this process' }),
  deliveries_sending: Type.Integer({ description: 'By this process' }),
  streams_open: Type.Integer({ description: 'To this process' }),
  user_processes: Type.Integer({
    description: 'Sandboxed processes of this one that have code of deployments',
  }),
  single_sign_on: Type.Union(
    [
      Type.Object({
        name: Type.String({ description: 'Of the provider, as on the sign-in page' }),
        issuer: Type.String(),
        redirect_uri: Type.String({ description: 'To be registered at the provider' }),
        state: OneOf(providerStates, {
          description: 'unchecked: not asked since the start of this process',
        }),
        problem: Type.Union([Type.String(), Type.Null()], {
          description: 'Why it is unreachable; null: it is not',
        }),
        checked_at: Type.Union([Type.Integer(), Type.Null()], {
          description: 'Epoch seconds; null: not since the start of this process',
        }),
      }),
      Type.Null(),
    ],
    { description: 'The provider that users sign in with; null: none is set up' },
  ),
  file_bucket: Type.Union([FileBucketShape, Type.Null()], {
    description: 'null: the content of files is in the store',
  }),
  egress_proxy: Type.Union([EgressProxyShape, Type.Null()], {
    description: 'null: connections to the outside go through none',
  }),
  settings: Type.Array(
    Type.Object({
      env: Type.String({ description: 'Name of the variable' }),
      text: Type.String({ description: 'What it is for' }),
      value: Type.Union([Type.String(), Type.Null()], {
        description: 'null: it is set, and kept secret. URLs are without user, password and query',
      }),
      amount: Type.Union([Type.String(), Type.Null()], {
        description: 'The value with its unit, such as 10 minutes or 2 GB; null: it is no amount',
      }),
      from: OneOf(['environment', 'file', 'default']),
    }),
  ),
});
export type Instance = Static<typeof InstanceShape>;

const OwnerName = Type.Union([Type.String(), Type.Null()], {
  description: 'Name of the user or workspace; null: a workspace of which you are not a member',
});

const ProcessesShape = Type.Object({
  node: Type.String({ description: 'node_…: the node that answers' }),
  sandbox: OneOf(sandboxLevels, { description: 'Isolation of user code' }),
  processes_max: Type.Integer({ description: 'Processes that this node has at once' }),
  ready: Type.Integer({
    description:
      'Processes without code, ready for the next owner that needs one; more of them before timers are due',
  }),
  memory_bytes: Type.Integer({ description: 'Private memory of all processes of this node together' }),
  memory_bytes_max: Type.Integer({ description: 'Beyond it, processes that are idle end' }),
  processes: Type.Array(
    Type.Object({
      pid: Type.Union([Type.Integer(), Type.Null()], { description: 'null: it has just been started' }),
      owner_id: Type.String({ description: 'The owner whose code it runs' }),
      owner_name: OwnerName,
      shared: Type.Boolean({ description: 'Other deployments of its trust domain may use it' }),
      trust_domain: Type.Array(Type.String(), {
        description:
          'The owner, and the other users whose accounts its code uses: deployments share processes only where all of these are the same',
      }),
      trust_domain_names: Type.Array(OwnerName, { description: 'The names of these, in the same order' }),
      last_blame: Type.Union(
        [
          Type.Object({
            deployment_id: Type.String({ description: 'The deployment at fault' }),
            reason: Type.String({ description: 'How the call ended that ended the process' }),
            at: Type.Integer({ description: 'Epoch seconds' }),
          }),
          Type.Null(),
        ],
        {
          description:
            'The last time that code of its trust domain ended a process that others shared; null: not since the start',
        },
      ),
      purpose: OneOf(processPurposes, {
        description:
          'evaluation: it evaluates code that is being deployed; call: one call has it to itself. Both end with that',
      }),
      state: OneOf(processStates, {
        description:
          'background: no call is in it, and code that its calls left behind uses the processor; blocked: its code keeps it from answering; leaving: it takes no further calls and ends after those that are in it',
      }),
      deployment_count: Type.Integer({
        description: 'Sources and workflow deployments that have code in it',
      }),
      deployment_ids: Type.Array(Type.String(), {
        description: `The first ${idsShownMax} of them, those with the most calls under way first`,
      }),
      calls: Type.Integer({ description: 'In it at the moment' }),
      memory_bytes: Type.Union([Type.Integer(), Type.Null()], {
        description: 'Resident; null: the system does not say',
      }),
      cpu_cores: Type.Number({ description: 'Cores that it kept busy in the last second; 1: one core' }),
      priority: OneOf(['usual', 'low'], {
        description:
          'low: its owner keeps more of the cores busy than its share, so that its busy processes come after those of others and take turns',
      }),
      started_at: Type.Integer({ description: 'Epoch seconds' }),
    }),
    { description: 'Processes that run user code on the node that answers' },
  ),
  owners: Type.Array(
    Type.Object({
      owner_id: Type.String(),
      owner_name: OwnerName,
      processes: Type.Integer({ description: 'The number of its processes' }),
      memory_bytes: Type.Integer({ description: 'Private memory of its processes together' }),
      delayed: Type.Integer({
        description:
          'Runs, builds and calls of user code that waited since the start because the owner had its share',
      }),
      refused: Type.Integer({
        description: 'Calls, connections, builds, actions and streams that were refused because of it',
      }),
    }),
    { description: `Shares of owners, the most refused first; ${ownersShownMax} at most` },
  ),
  set_apart_count: Type.Integer({ description: 'Deployments that are set apart' }),
  set_apart: Type.Array(
    Type.Object({
      deployment_id: Type.String(),
      owner_id: Type.String(),
      owner_name: OwnerName,
      reason: Type.String({ description: 'How the call ended that ended the shared process' }),
      at: Type.Integer({ description: 'Epoch seconds' }),
    }),
    {
      description:
        'Deployments whose code ended a process that others shared, the latest first. Each has a process of its own until its code changes. ' +
        `${setApartShownMax} at most`,
    },
  ),
  deployments: Type.Array(
    Type.Object({
      id: Type.String({ description: 'dc_… or d_…, as in deployment_ids and deployment_id' }),
      object_id: Type.String({ description: 'dc_… or p_…: the source, or the workflow of the deployment' }),
      name: Type.String({ description: 'The name of the source or workflow' }),
    }),
    {
      description:
        `Sources and workflows of the first ${deploymentsNamedMax} deployments of each process, of those that are set apart, and of those blamed last, as far as ` +
        'you may read them',
    },
  ),
});
export type Processes = Static<typeof ProcessesShape>;

export interface InstanceRouteOptions {
  viewInstance: () => Promise<Instance>;
  viewProcesses: (caller: Caller) => Promise<Processes>;
}

/** Addition: what runs here and how it is set up, without secrets, for the admin of the instance. */
export function instanceRoutes(app: App, { viewInstance, viewProcesses }: InstanceRouteOptions): void {
  app.get(
    '/instance/processes',
    {
      config: { adminMay: 'see what runs' },
      schema: {
        operationId: 'getProcesses',
        summary: 'The processes of user code; only for the admin of the instance',
        description: 'On several machines the process that answers describes its own.',
        tags: ['operations', 'addition'],
        response: { 200: DataOf(ProcessesShape) },
      },
    },
    async (request) => ({ data: selectFields(request, await viewProcesses(callerOf(request))) }),
  );

  app.get(
    '/instance',
    {
      config: { adminMay: 'see how it is set up' },
      schema: {
        operationId: 'getInstance',
        summary: 'What is running and with which settings; only for the admin of the instance',
        description:
          'On several machines the process that answers describes itself. Secrets are never shown.',
        tags: ['operations', 'addition'],
        response: { 200: DataOf(InstanceShape) },
      },
    },
    async (request) => {
      return { data: selectFields(request, await viewInstance()) };
    },
  );
}
