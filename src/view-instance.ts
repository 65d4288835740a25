import { statfs } from 'node:fs/promises';
import type { Settings } from '#config/settings.ts';
import { viewSettings } from '#config/view-settings.ts';
import type { DeliveryDispatcher } from '#delivery/dispatch/delivery-dispatcher.ts';
import type { EgressProxy } from '#egress/egress-proxy.ts';
import { nodeHealth, unwritableReason } from '#health/node-health.ts';
import type { SandboxView } from '#http/routes/health-routes.ts';
import type { EgressProxyView, FileBucketView } from '#http/routes/health-shapes.ts';
import type { Instance } from '#http/routes/instance-routes.ts';
import { queueDepths } from '#jobs/job-store.ts';
import { nodeStates } from '#jobs/node-state-store.ts';
import type { WorkerPool } from '#jobs/worker-pool.ts';
import { type Clock, epochSeconds } from '#lib/clock.ts';
import type { Runner, RunnerStats } from '#runner/runner.ts';
import type { SingleSignOn } from '#single-sign-on/single-sign-on.ts';
import type { ClockStatus } from '#storage/database-clock.ts';
import type { Store } from '#storage/store.ts';
import type { LiveStreams } from '#streams/live-streams.ts';
import type { BucketKeeper } from '#user-data/files/bucket-keeper.ts';
import type { UnnamedBucket } from '#user-data/files/unnamed-bucket.ts';

interface InstanceOptions {
  settings: Settings;
  environment: Readonly<Record<string, string | undefined>>;
  version: string;
  node: string;
  startedAtMs: number;
  clock: Clock;
  store: Pick<Store, 'read' | 'name' | 'checkWritable'>;
  runner: Pick<Runner, 'stats'>;
  pool: Pick<WorkerPool, 'runningCount'>;
  streams: Pick<LiveStreams, 'count'>;
  deliveries: Pick<DeliveryDispatcher, 'counts'>;
  publicUrl: () => string;
  /** Undefined: no provider is set up. */
  singleSignOn: SingleSignOn | undefined;
  /** Undefined: there is no database with a clock of its own. */
  clockStatus: ClockStatus | undefined;
  /** Undefined: the content of files is in the store alone. */
  fileBucket: () => FileBucketView | undefined;
  /** Undefined: connections to the outside go through none. */
  egressProxy: Pick<EgressProxy, 'place' | 'health'> | undefined;
}

/** What the admin sees of this process and its settings: read when asked, so that it costs nothing in between. */
export async function viewInstance(options: InstanceOptions): Promise<Instance> {
  const { settings, environment, store, clock, runner } = options;
  const [jobs, disk, nodes, singleSignOn] = await Promise.all([
    queueDepths(store.read),
    diskOf(settings.data),
    nodesOf(options),
    singleSignOnOf(options.singleSignOn),
  ]);
  const stats = runner.stats();
  const { level, reason, cgroups_reason } = viewSandbox(stats);
  return {
    version: options.version,
    node_version: process.version,
    platform: `${process.platform} ${process.arch}`,
    node: options.node,
    now: epochSeconds(clock.now()),
    clock: clockOf(options.clockStatus),
    nodes,
    started_at: epochSeconds(options.startedAtMs),
    address: withoutUser(options.publicUrl()),
    store: store.name,
    sandbox: level,
    sandbox_reason: reason,
    cgroups_reason,
    memory_bytes: process.memoryUsage.rss(),
    disk,
    jobs: jobs.map(({ kind, state, jobs: count }) => ({ kind, state, count })),
    jobs_running: options.pool.runningCount(),
    deliveries_sending: options.deliveries.counts().sending,
    streams_open: options.streams.count,
    user_processes: stats.warm,
    single_sign_on: singleSignOn,
    file_bucket: options.fileBucket() ?? null,
    egress_proxy: viewEgressProxy(options.egressProxy) ?? null,
    settings: viewSettings(settings, environment),
  };
}

/** At which level user code runs, and why it is not the kernel level, and has no control groups, where that was tried. */
export function viewSandbox(stats: Pick<RunnerStats, 'level' | 'notKernel' | 'notDelegated'>): SandboxView {
  const { level, notKernel = null, notDelegated = null } = stats;
  return { level, reason: notKernel, cgroups_reason: notDelegated };
}

/** The state of the bucket for files; undefined: there is none, and no file has its content in one. */
export function viewFileBucket({
  fileBucket,
  unnamedBucket,
}: {
  fileBucket: { name: string; keeper: Pick<BucketKeeper, 'status'> } | undefined;
  unnamedBucket: Pick<UnnamedBucket, 'status'> | undefined;
}): FileBucketView | undefined {
  const status = fileBucket?.keeper.status() ?? unnamedBucket?.status();
  if (status === undefined) return undefined;
  const { state, sinceMs, reason } = status;
  const since = sinceMs === null ? null : epochSeconds(sinceMs);
  return { bucket: fileBucket?.name ?? '', state, since, reason };
}

/** The state of the outbound proxy; undefined: there is none. */
export function viewEgressProxy(proxy: InstanceOptions['egressProxy']): EgressProxyView | undefined {
  if (proxy === undefined) return undefined;
  const { state, sinceMs, reason } = proxy.health.status();
  return { proxy: proxy.place, state, since: sinceMs === null ? null : epochSeconds(sinceMs), reason };
}

async function singleSignOnOf(singleSignOn: SingleSignOn | undefined): Promise<Instance['single_sign_on']> {
  if (singleSignOn === undefined) return null;
  const { state, problem, checkedAtMs } = await singleSignOn.status();
  return {
    name: singleSignOn.name,
    issuer: singleSignOn.issuer,
    redirect_uri: singleSignOn.redirectUri(),
    ...{ state, problem },
    checked_at: checkedAtMs === null ? null : epochSeconds(checkedAtMs),
  };
}

function clockOf(status: ClockStatus | undefined): Instance['clock'] {
  if (status === undefined) return null;
  const { state, offsetMs, checkedAtMs } = status;
  return { state, offset_ms: offsetMs, checked_at: epochSeconds(checkedAtMs) };
}

/** All processes on this store. Of itself, this one knows more than its last heartbeat says. */
async function nodesOf({ store, clock, node }: InstanceOptions): Promise<Instance['nodes']> {
  const [states, unwritable] = await Promise.all([
    nodeStates(store.read),
    store.checkWritable().then(
      () => undefined,
      (cause: unknown) => unwritableReason(cause),
    ),
  ]);
  const nowMs = clock.now();
  return states.map((state) => ({
    id: state.id,
    started_at: epochSeconds(state.started_at_ms),
    heartbeat_at: epochSeconds(state.seen_at_ms),
    clock:
      state.clock_state === null || state.clock_offset_ms === null
        ? null
        : { state: state.clock_state, offset_ms: state.clock_offset_ms },
    ...nodeHealth(state, nowMs, state.id === node ? unwritable : undefined),
  }));
}

async function diskOf(folder: string): Promise<Instance['disk']> {
  try {
    const { bavail, blocks, bsize } = await statfs(folder);
    return { folder, free_bytes: bavail * bsize, total_bytes: blocks * bsize };
  } catch {
    return null;
  }
}

function withoutUser(url: string): string {
  const { protocol, host, pathname } = new URL(url);
  return `${protocol}//${host}${pathname.replace(/\/$/, '')}`;
}
