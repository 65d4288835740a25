import { statfs } from 'node:fs/promises';
import type { Settings } from '#config/settings.ts';
import { viewSettings } from '#config/view-settings.ts';
import type { DeliveryDispatcher } from '#delivery/delivery-dispatcher.ts';
import type { LiveStreams } from '#http/live-updates.ts';
import type { Instance } from '#http/routes/instance-routes.ts';
import { queueDepths } from '#jobs/job-store.ts';
import type { WorkerPool } from '#jobs/worker-pool.ts';
import { type Clock, epochSeconds } from '#lib/clock.ts';
import type { Runner } from '#runner/runner.ts';
import type { ClockStatus } from '#storage/database-clock.ts';
import type { Store } from '#storage/store.ts';

interface InstanceParts {
  settings: Settings;
  environment: Readonly<Record<string, string | undefined>>;
  version: string;
  node: string;
  startedAtMs: number;
  clock: Clock;
  store: Pick<Store, 'read' | 'name'>;
  runner: Pick<Runner, 'stats'>;
  pool: Pick<WorkerPool, 'runningCount'>;
  streams: Pick<LiveStreams, 'count'>;
  deliveries: Pick<DeliveryDispatcher, 'counts'>;
  publicUrl: () => string;
  /** Undefined: there is no database with a clock of its own. */
  clockStatus: ClockStatus | undefined;
}

/** What the admin sees of this process and its settings: read when asked, so that it costs nothing in between. */
export async function viewInstance(parts: InstanceParts): Promise<Instance> {
  const { settings, environment, store, clock, runner } = parts;
  const [jobs, disk] = await Promise.all([queueDepths(store.read), diskOf(settings.data)]);
  const { level, warm } = runner.stats();
  return {
    version: parts.version,
    node_version: process.version,
    platform: `${process.platform} ${process.arch}`,
    node: parts.node,
    now: epochSeconds(clock.now()),
    clock: clockOf(parts.clockStatus),
    started_at: epochSeconds(parts.startedAtMs),
    address: withoutUser(parts.publicUrl()),
    store: store.name,
    sandbox: level,
    memory_bytes: process.memoryUsage.rss(),
    disk,
    jobs: jobs.map(({ kind, state, jobs: count }) => ({ kind, state, count })),
    jobs_running: parts.pool.runningCount(),
    deliveries_sending: parts.deliveries.counts().sending,
    streams_open: parts.streams.count,
    user_processes: warm,
    settings: viewSettings(settings, environment),
  };
}

function clockOf(status: ClockStatus | undefined): Instance['clock'] {
  if (status === undefined) return null;
  const { state, offsetMs, checkedAtMs } = status;
  return { state, offset_ms: offsetMs, checked_at: epochSeconds(checkedAtMs) };
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
