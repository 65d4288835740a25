import { stringify } from 'yaml';
import {
  type MetricDefinition,
  type MetricName,
  metricDefinitions,
  runtimeMetrics,
} from '#telemetry/metric-definitions.ts';

/** A metric as an alert names it; `up` is that of Prometheus itself. */
type AlertMetric = MetricName | keyof typeof runtimeMetrics | 'up';

export interface Alert {
  name: string;
  /** PromQL. */
  expr: string;
  /** The metrics in `expr`; the tests compare. */
  metrics: readonly AlertMetric[];
  /** How long it has to be so. */
  for: string;
  severity: 'critical' | 'warning' | 'info';
  summary: string;
  /** What to do. */
  action: string;
}

/** `job` in the configuration of Prometheus, as the guide has it. */
export const scrapeJob = 'millrace';
/** The page with a heading for each alert, below the address of each node. */
export const alertGuide = 'docs/guides/monitor';

/** Every alert. The guide has a heading for each, and ops/prometheus/millrace-rules.test.yml a test. */
export const alerts: readonly Alert[] = [
  {
    name: 'MillraceDown',
    expr: `up{job="${scrapeJob}"} == 0`,
    metrics: ['up'],
    for: '2m',
    severity: 'critical',
    summary: 'Millrace does not answer on {{ $labels.instance }}',
    action: 'Look at the process and the end of its log, and start it again. Other nodes take over its work.',
  },
  {
    name: 'MillraceStoreDown',
    expr: 'millrace_store_up == 0',
    metrics: ['millrace_store_up'],
    for: '1m',
    severity: 'critical',
    summary: 'The store does not answer to {{ $labels.instance }}',
    action: 'Bring the database back: nothing is accepted meanwhile, and senders get 503.',
  },
  {
    name: 'MillraceUnavailable',
    expr: 'sum by (instance) (rate(millrace_http_request_seconds_count{status="503"}[5m])) > 0',
    metrics: ['millrace_http_request_seconds'],
    for: '5m',
    severity: 'warning',
    summary: 'Requests to {{ $labels.instance }} are answered with 503',
    action:
      'Ask /readyz for the reason: the store is away, its disk is full, or the service has too much to do.',
  },
  {
    name: 'MillraceQueueLate',
    expr: 'millrace_jobs_oldest_due_seconds > 300',
    metrics: ['millrace_jobs_oldest_due_seconds'],
    for: '5m',
    severity: 'warning',
    summary: 'Work has waited for {{ $value | humanizeDuration }}',
    action: 'Find the kind that grows in millrace_jobs; add workers, or limit the source that floods.',
  },
  {
    name: 'MillraceJobsQuarantined',
    expr: 'millrace_jobs{state="quarantined"} > 0',
    metrics: ['millrace_jobs'],
    for: '0m',
    severity: 'warning',
    summary: '{{ $value }} jobs of kind {{ $labels.kind }} are set aside',
    action:
      'Read the error on $errors of their source or workflow: its code took a process down three times.',
  },
  {
    name: 'MillraceDeliveriesLate',
    expr: 'millrace_deliveries_oldest_due_seconds > 600',
    metrics: ['millrace_deliveries_oldest_due_seconds'],
    for: '10m',
    severity: 'warning',
    summary: 'A delivery has waited for {{ $value | humanizeDuration }}',
    action:
      'Find the listener whose deliveries wait with millrace deliveries list; a slow receiver holds up only its own.',
  },
  {
    name: 'MillraceDeliveriesFailing',
    expr: 'sum by (instance) (rate(millrace_delivery_attempts{outcome=~"failed|gone"}[15m])) > sum by (instance) (rate(millrace_delivery_attempts{outcome="delivered"}[15m]))',
    metrics: ['millrace_delivery_attempts'],
    for: '15m',
    severity: 'warning',
    summary: 'More deliveries fail than arrive on {{ $labels.instance }}',
    action:
      'Look at delivery.attempted in the log for the receivers; if all fail, at the network and MILLRACE_EGRESS.',
  },
  {
    name: 'MillraceWebhooksFailing',
    expr: 'millrace_webhooks > 0',
    metrics: ['millrace_webhooks'],
    for: '1h',
    severity: 'info',
    summary: '{{ $value }} webhooks are {{ $labels.state }}',
    action:
      'Their owners see why on the page of the webhook. One that only fails is disabled after five days.',
  },
  {
    name: 'MillraceSandboxBelowWanted',
    expr: 'millrace_sandbox_below_wanted == 1',
    metrics: ['millrace_sandbox_below_wanted'],
    for: '1m',
    severity: 'critical',
    summary: 'User code on {{ $labels.instance }} runs without the walls of the kernel',
    action:
      'Read sandbox.kernel-level-missed in the log, and let bubblewrap work; MILLRACE_SANDBOX=require refuses to start without it.',
  },
  {
    name: 'MillraceProcessesKilled',
    expr: 'increase(millrace_runner_kills[15m]) > 20',
    metrics: ['millrace_runner_kills'],
    for: '0m',
    severity: 'warning',
    summary: '{{ $value | humanize }} sandboxed processes were killed in 15 minutes',
    action:
      'Find the deployments in runner.process-killed of the log: code that never ends or takes too much memory.',
  },
  {
    name: 'MillraceBuildsLate',
    expr: 'millrace_builds_oldest_wait_seconds > 60',
    metrics: ['millrace_builds_oldest_wait_seconds'],
    for: '10m',
    severity: 'warning',
    summary: 'A component has waited to be built for {{ $value | humanizeDuration }}',
    action:
      'Owners take turns, so all wait: the npm registry is slow, or the machine is too small for what is deployed.',
  },
  {
    name: 'MillraceQuotaRefusals',
    expr: 'increase(millrace_quota_refused[15m]) > 0',
    metrics: ['millrace_quota_refused'],
    for: '0m',
    severity: 'info',
    summary: 'An owner has used up a quota',
    action: 'See GET /v1/usage, or the page Usage; a quota starts over at 00:00 UTC, or an admin raises it.',
  },
  {
    name: 'MillraceDiskNearlyFull',
    expr: 'millrace_data_disk_free_bytes / millrace_data_disk_size_bytes < 0.1',
    metrics: ['millrace_data_disk_free_bytes', 'millrace_data_disk_size_bytes'],
    for: '10m',
    severity: 'critical',
    summary:
      'The disk of the data folder on {{ $labels.instance }} has {{ $value | humanizePercentage }} left',
    action: 'Make room or enlarge it. When it is full, nothing is accepted; what is accepted is not lost.',
  },
  {
    name: 'MillraceClockOff',
    expr: 'abs(millrace_clock_offset_seconds) > 1',
    metrics: ['millrace_clock_offset_seconds'],
    for: '5m',
    severity: 'warning',
    summary: 'The clock of {{ $labels.instance }} is off by {{ $value | humanizeDuration }}',
    action: 'Synchronize it with NTP. More than a minute off, no timer fires on that node.',
  },
  {
    name: 'MillraceStoreSlow',
    expr: 'millrace_store_writes_waiting > 500',
    metrics: ['millrace_store_writes_waiting'],
    for: '5m',
    severity: 'warning',
    summary: '{{ $value }} writes wait for the store',
    action: 'Look at the disk of the database: each commit is synced to it.',
  },
  {
    name: 'MillraceOverloaded',
    expr: 'millrace_nodejs_eventloop_lag_p99_seconds > 0.5',
    metrics: ['millrace_nodejs_eventloop_lag_p99_seconds'],
    for: '10m',
    severity: 'warning',
    summary: '{{ $labels.instance }} has more to do than its processor can',
    action: 'Give it more processors, or add a node on PostgreSQL.',
  },
  {
    name: 'MillraceConnectionsRefused',
    expr: 'increase(millrace_http_connections_refused_total[15m]) > 100',
    metrics: ['millrace_http_connections_refused_total'],
    for: '0m',
    severity: 'info',
    summary: 'Connections to {{ $labels.instance }} are refused',
    action:
      'Find the address in http.connections-refused of the log. Behind a proxy, set MILLRACE_TRUSTED_PROXIES.',
  },
  {
    name: 'MillraceSpansLost',
    expr: 'sum by (instance) (increase(millrace_trace_spans{outcome=~"dropped|failed"}[15m])) > 0',
    metrics: ['millrace_trace_spans'],
    for: '15m',
    severity: 'info',
    summary: 'Traces of {{ $labels.instance }} have gaps',
    action:
      'Look at trace.export-failed in the log for the receiver, or record fewer traces with OTEL_TRACES_SAMPLER.',
  },
];

/** Every metric with its definition, those of Node.js and of the process too. */
export const allMetrics: Readonly<Record<string, MetricDefinition>> = {
  ...metricDefinitions,
  ...runtimeMetrics,
};

/** The text of ops/prometheus/millrace-rules.yml. */
export function alertRules(): string {
  const rules = alerts.map(({ name, expr, for: duration, severity, summary, action }) => ({
    alert: name,
    expr,
    for: duration,
    labels: { severity },
    annotations: {
      summary,
      description: `${action} ${alertGuide}.md has more.`,
      runbook_url: `http://{{ $labels.instance }}/${alertGuide}#${name.toLowerCase()}`,
    },
  }));
  const notice = '# Generated from scripts/monitoring/alert-rules.ts (npm run reference); do not edit.\n';
  return notice + stringify({ groups: [{ name: 'millrace', rules }] }, { lineWidth: 0 });
}
