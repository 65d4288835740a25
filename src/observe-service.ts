import { collectDefaultMetrics, Gauge, type Registry } from 'prom-client';
import type { ComponentBuilder } from '#components/build-component.ts';
import type { DeliveryDispatcher } from '#delivery/dispatch/delivery-dispatcher.ts';
import { queueDepths } from '#jobs/job-store.ts';
import type { WorkerPool } from '#jobs/worker-pool.ts';
import type { Runner } from '#runner/runner.ts';
import type { Store } from '#storage/store.ts';
import type { LiveStreams } from '#streams/live-updates.ts';

/** What `/metrics` reports in addition to requests; read when asked, so that it costs nothing in between. */
export function observeService(
  registry: Registry,
  options: {
    store: Store;
    runner: Runner;
    builder: ComponentBuilder;
    pool: WorkerPool;
    streams: LiveStreams;
    deliveries: DeliveryDispatcher;
    clockOffsetMs: () => number;
  },
): void {
  collectDefaultMetrics({ register: registry, prefix: 'millrace_' });
  const gauge = (name: string, help: string, read: () => number) =>
    new Gauge({
      name,
      help,
      registers: [registry],
      collect() {
        this.set(read());
      },
    });
  gauge('millrace_jobs_running', 'Jobs under way in this process', () => options.pool.runningCount());
  gauge(
    'millrace_deliveries_held',
    'Deliveries in the memory of this process',
    () => options.deliveries.counts().held,
  );
  gauge('millrace_deliveries_sending', 'Deliveries being sent', () => options.deliveries.counts().sending);
  new Gauge({
    name: 'millrace_delivery_attempts',
    help: 'Attempts to deliver since the start, by outcome',
    labelNames: ['outcome'],
    registers: [registry],
    collect() {
      for (const [outcome, count] of Object.entries(options.deliveries.counts().attempts))
        this.set({ outcome }, count);
    },
  });
  gauge(
    'millrace_clock_offset_seconds',
    'Clock of this machine minus that of the database; 0 with SQLite',
    () => options.clockOffsetMs() / 1000,
  );
  gauge('millrace_streams_open', 'Open event streams', () => options.streams.count);
  gauge(
    'millrace_store_commits',
    'Group commits since the start',
    () => options.store.writes.counts().commits,
  );
  gauge(
    'millrace_store_writes',
    'Writes in group commits since the start',
    () => options.store.writes.counts().items,
  );
  gauge(
    'millrace_store_writes_waiting',
    'Writes waiting for a group commit',
    () => options.store.writes.counts().pending,
  );
  gauge('millrace_builds_running', 'Components being built', () => options.builder.counts().running);
  gauge('millrace_builds_waiting', 'Components in line to be built', () => options.builder.counts().waiting);
  gauge(
    'millrace_builds_oldest_wait_seconds',
    'How long the component that is in line for longest has waited',
    () => options.builder.counts().oldestWaitMs / 1000,
  );
  gauge(
    'millrace_runner_warm',
    'Sandboxed processes with code of deployments',
    () => options.runner.stats().warm,
  );
  gauge(
    'millrace_runner_prewarmed',
    'Sandboxed processes ready for code',
    () => options.runner.stats().prewarmed,
  );
  gauge(
    'millrace_runner_deployments',
    'Deployments that have their code in a process',
    () => options.runner.stats().deployments,
  );
  gauge(
    'millrace_runner_set_apart',
    'Deployments that have a process of their own since their code ended a shared one',
    () => options.runner.stats().setApart,
  );
  gauge('millrace_runner_calls', 'Calls into user code since the start', () => options.runner.stats().calls);
  gauge(
    'millrace_runner_kills',
    'Sandboxed processes that had to be killed since the start',
    () => options.runner.stats().kills,
  );
  for (const what of ['delayed', 'refused'] as const)
    new Gauge({
      name: `millrace_share_${what}`,
      help: `Calls into user code, and connections from it, that were ${what} since the start because their owner had its share, by resource`,
      labelNames: ['resource'],
      registers: [registry],
      collect() {
        for (const [resource, counts] of Object.entries(options.runner.stats().shares))
          this.set({ resource }, counts[what]);
      },
    });
  new Gauge({
    name: 'millrace_jobs',
    help: 'Jobs in the store, by kind and state',
    labelNames: ['kind', 'state'],
    registers: [registry],
    async collect() {
      this.reset();
      for (const { kind, state, jobs } of await queueDepths(options.store.read))
        this.set({ kind, state }, jobs);
    },
  });
}
