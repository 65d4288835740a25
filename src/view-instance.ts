import { statfs } from 'node:fs/promises';
import type { Settings } from '#config/settings.ts';
import { viewSettings } from '#config/view-settings.ts';
import type { DeliveryDispatcher } from '#delivery/dispatch/delivery-dispatcher.ts';
import { nodeHealth, unwritableReason } from '#health/node-health.ts';
import type { Instance } from '#http/routes/instance-routes.ts';
import { queueDepths } from '#jobs/job-store.ts';
import { nodeStates } from '#jobs/node-state-store.ts';
import type { WorkerPool } from '#jobs/worker-pool.ts';
import { type Clock, epochSeconds } from '#lib/clock.ts';
import type { SandboxLevel } from '#runner/confinement.ts';
import type { Runner, RunnerStats } from '#runner/runner.ts';
import type { ClockStatus } from '#storage/database-clock.ts';
import type { Store } from '#storage/store.ts';
import type { LiveStreams } from '#streams/live-updates.ts';

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
  /** Undefined: there is no database with a clock of its own. */
  clockStatus: ClockStatus | undefined;
}

/** What the admin sees of this process and its settings: read when asked, so that it costs nothing in between. */
export async function viewInstance(options: InstanceOptions): Promise<Instance> {
  const { settings, environment, store, clock, runner } = options;
  const [jobs, disk, nodes] = await Promise.all([
    queueDepths(store.read),
    diskOf(settings.data),
    nodesOf(options),
  ]);
  const stats = runner.stats();
  const { level, reason } = viewSandbox(stats);
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
    memory_bytes: process.memoryUsage.rss(),
    disk,
    jobs: jobs.map(({ kind, state, jobs: count }) => ({ kind, state, count })),
    jobs_running: options.pool.runningCount(),
    deliveries_sending: options.deliveries.counts().sending,
    streams_open: options.streams.count,
    user_processes: stats.warm,
    settings: viewSettings(settings, environment),
  };
}

/** At which level user code runs, and why it is not the kernel level where that was tried. */
export function viewSandbox(stats: Pick<RunnerStats, 'level' | 'notKernel'>): {
  level: SandboxLevel;
  reason: string | null;
} {
  return { level: stats.level, reason: stats.notKernel ?? null };
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
