import { statfs } from 'node:fs/promises';
import { Counter, collectDefaultMetrics, Gauge, type Registry } from 'prom-client';
import type { ComponentBuilder } from '#components/build-component.ts';
import type { Settings } from '#config/settings.ts';
import type { DeliveryDispatcher } from '#delivery/dispatch/delivery-dispatcher.ts';
import type { WorkerPool } from '#jobs/worker-pool.ts';
import type { QuotaGuard } from '#metering/quota-guard.ts';
import type { Runner } from '#runner/runner.ts';
import type { Store } from '#storage/store.ts';
import type { LiveStreams } from '#streams/live-streams.ts';
import { type MetricDefinition, type MetricName, metricDefinitions } from '#telemetry/metric-definitions.ts';
import type { SpanExporter } from '#telemetry/span-exporter.ts';
import { StoreReadings } from './store-readings.ts';

/** What `/metrics` reports in addition to requests; read when asked, so that it costs nothing in between. */
export interface ObservedService {
  settings: Settings;
  store: Store;
  runner: Runner;
  builder: ComponentBuilder;
  pool: WorkerPool;
  streams: LiveStreams;
  deliveries: DeliveryDispatcher;
  quotas: Pick<QuotaGuard, 'refusals'>;
  spans: Pick<SpanExporter, 'counts'> | undefined;
  now: () => number;
  clockOffsetMs: () => number;
}

/** Metrics that are counted where it happens: requests and connections. */
type CountedElsewhere = 'millrace_http_request_seconds' | 'millrace_http_connections_refused_total';
/** The values of a metric: one, or one for each combination of labels. */
type Values = number | readonly { labels: Record<string, string>; value: number }[];
type Reader = () => Values | Promise<Values>;

export function observeService(registry: Registry, service: ObservedService): void {
  collectDefaultMetrics({ register: registry, prefix: 'millrace_' });
  for (const [name, read] of Object.entries(readers(service)))
    register(registry, name, metricDefinitions[name as MetricName], read);
}

function register(registry: Registry, name: string, definition: MetricDefinition, read: Reader): void {
  const options = {
    name,
    help: definition.text,
    labelNames: definition.labels ?? [],
    registers: [registry],
  };
  const valuesNow = async () => {
    const values = await read();
    return typeof values === 'number' ? [{ labels: {}, value: values }] : values;
  };
  if (definition.type === 'counter')
    new Counter({
      ...options,
      async collect() {
        const values = await valuesNow();
        this.reset();
        for (const { labels, value } of values) this.inc(labels, value);
      },
    });
  else
    new Gauge({
      ...options,
      async collect() {
        const values = await valuesNow();
        // Combinations that no longer exist, and values that cannot be read now, are left out.
        this.reset();
        if (values.length === 0 && options.labelNames.length === 0) this.remove();
        for (const { labels, value } of values) this.set(labels, value);
      },
    });
}

function readers(service: ObservedService): Record<Exclude<MetricName, CountedElsewhere>, Reader> {
  const { store, runner, builder, pool, streams, deliveries, quotas, spans, settings } = service;
  const readings = new StoreReadings({ store, now: service.now });
  const disk = (part: 'bavail' | 'blocks') => async (): Promise<Values> => {
    const figures = await statfs(settings.data).catch(() => undefined);
    return figures === undefined ? [] : figures[part] * figures.bsize;
  };
  return {
    millrace_streams_open: () => streams.count,
    millrace_quota_refused: () => labelled('quota', quotas.refusals),
    millrace_jobs: async () =>
      (await readings.read())?.depths.map(({ kind, state, jobs }) => ({
        labels: { kind, state },
        value: jobs,
      })) ?? [],
    millrace_jobs_running: () => pool.runningCount(),
    millrace_jobs_oldest_due_seconds: async () => (await readings.read())?.oldestJobSeconds ?? [],
    millrace_builds_running: () => builder.counts().running,
    millrace_builds_waiting: () => builder.counts().waiting,
    millrace_builds_oldest_wait_seconds: () => builder.counts().oldestWaitMs / 1000,
    millrace_delivery_attempts: () => labelled('outcome', deliveries.counts().attempts),
    millrace_deliveries_held: () => deliveries.counts().held,
    millrace_deliveries_sending: () => deliveries.counts().sending,
    millrace_deliveries_oldest_due_seconds: async () => (await readings.read())?.oldestDeliverySeconds ?? [],
    millrace_webhooks: async () => {
      const reading = await readings.read();
      return reading === undefined ? [] : labelled('state', reading.webhooks);
    },
    millrace_sandbox_below_wanted: () => {
      const wantsKernel = settings.sandbox === 'auto' || settings.sandbox === 'require';
      return wantsKernel && runner.stats().level !== 'kernel' ? 1 : 0;
    },
    millrace_runner_calls: () => runner.stats().calls,
    millrace_runner_kills: () => runner.stats().kills,
    millrace_runner_warm: () => runner.stats().warm,
    millrace_runner_prewarmed: () => runner.stats().prewarmed,
    millrace_runner_deployments: () => runner.stats().deployments,
    millrace_runner_set_apart: () => runner.stats().setApart,
    millrace_share_delayed: () => sharesOf(runner, 'delayed'),
    millrace_share_refused: () => sharesOf(runner, 'refused'),
    millrace_store_up: async () => ((await readings.read()) === undefined ? 0 : 1),
    millrace_store_commits: () => store.writes.counts().commits,
    millrace_store_writes: () => store.writes.counts().items,
    millrace_store_writes_waiting: () => store.writes.counts().pending,
    millrace_clock_offset_seconds: () => service.clockOffsetMs() / 1000,
    millrace_data_disk_free_bytes: disk('bavail'),
    millrace_data_disk_size_bytes: disk('blocks'),
    millrace_trace_spans: () => {
      const { exported, dropped, failed } = spans?.counts() ?? { exported: 0, dropped: 0, failed: 0 };
      return labelled('outcome', { exported, dropped, failed });
    },
    millrace_trace_spans_waiting: () => spans?.counts().waiting ?? 0,
  };
}

function labelled(label: string, counts: Readonly<Record<string, number>>) {
  return Object.entries(counts).map(([name, value]) => ({ labels: { [label]: name }, value }));
}

function sharesOf(runner: Runner, what: 'delayed' | 'refused') {
  return Object.entries(runner.stats().shares).map(([resource, counts]) => ({
    labels: { resource },
    value: counts[what],
  }));
}
