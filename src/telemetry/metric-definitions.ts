/**
 * Table of contents of `/metrics`: every metric of the service. The Grafana dashboard (ops/grafana) has a panel for each, and the alert
 * rules (ops/prometheus) may name no others, beside those of `runtimeMetrics`.
 */
export interface MetricDefinition {
  /** `counter`: counts since the start of the process. */
  readonly type: 'gauge' | 'counter' | 'histogram';
  readonly text: string;
  readonly labels?: readonly string[];
  /** The row of the dashboard. */
  readonly group: MetricGroup;
}

export const metricGroups = [
  'Requests',
  'Work',
  'Deliveries',
  'User code',
  'Store',
  'Machine',
  'Traces',
] as const;
export type MetricGroup = (typeof metricGroups)[number];

export const metricDefinitions = {
  millrace_http_request_seconds: {
    type: 'histogram',
    text: 'Time from the first byte of a request to the last of its answer, by route, method and status; where user code picks the status, by its class (2xx) or 503',
    labels: ['route', 'method', 'status'],
    group: 'Requests',
  },
  millrace_http_connections_refused_total: {
    type: 'counter',
    text: 'Connections that were closed, because the address or the process had as many as it may, or a connection had 20 requests that waited for an answer',
    group: 'Requests',
  },
  millrace_streams_open: { type: 'gauge', text: 'Open event streams', group: 'Requests' },
  millrace_quota_refused: {
    type: 'counter',
    text: 'What was refused because its owner has used up a quota or a limit, by its name; for deliveries each time that one waits',
    labels: ['quota'],
    group: 'Requests',
  },
  millrace_jobs: {
    type: 'gauge',
    text: 'Jobs in the store, by kind and state',
    labels: ['kind', 'state'],
    group: 'Work',
  },
  millrace_jobs_running: { type: 'gauge', text: 'Jobs under way in this process', group: 'Work' },
  millrace_jobs_oldest_due_seconds: {
    type: 'gauge',
    text: 'How long the job that is due for longest has waited; 0 when none is due',
    group: 'Work',
  },
  millrace_builds_running: { type: 'gauge', text: 'Components being built', group: 'Work' },
  millrace_builds_waiting: { type: 'gauge', text: 'Components in line to be built', group: 'Work' },
  millrace_builds_oldest_wait_seconds: {
    type: 'gauge',
    text: 'How long the component that is in line for longest has waited for builds of others; those that wait for the evaluations of their own owner do not count',
    group: 'Work',
  },
  millrace_delivery_attempts: {
    type: 'counter',
    text: 'Attempts to deliver since the start, by outcome',
    labels: ['outcome'],
    group: 'Deliveries',
  },
  millrace_deliveries_held: {
    type: 'gauge',
    text: 'Deliveries in the memory of this process',
    group: 'Deliveries',
  },
  millrace_deliveries_sending: { type: 'gauge', text: 'Deliveries being sent', group: 'Deliveries' },
  millrace_deliveries_oldest_due_seconds: {
    type: 'gauge',
    text: 'How long the delivery that is due for longest has waited in the store; 0 when none is due',
    group: 'Deliveries',
  },
  millrace_webhooks: {
    type: 'gauge',
    text: 'Webhooks that are failing, and those that the service has disabled, by state',
    labels: ['state'],
    group: 'Deliveries',
  },
  millrace_sandbox_below_wanted: {
    type: 'gauge',
    text: '1 when user code runs without the kernel level of the sandbox although the settings want it, else 0',
    group: 'User code',
  },
  millrace_runner_calls: {
    type: 'counter',
    text: 'Calls into user code since the start',
    group: 'User code',
  },
  millrace_runner_kills: {
    type: 'counter',
    text: 'Sandboxed processes that had to be killed since the start',
    group: 'User code',
  },
  millrace_runner_warm: {
    type: 'gauge',
    text: 'Sandboxed processes with code of deployments',
    group: 'User code',
  },
  millrace_runner_prewarmed: {
    type: 'gauge',
    text: 'Sandboxed processes ready for code',
    group: 'User code',
  },
  millrace_runner_deployments: {
    type: 'gauge',
    text: 'Deployments that have their code in a process',
    group: 'User code',
  },
  millrace_runner_set_apart: {
    type: 'gauge',
    text: 'Deployments that have a process of their own since their code ended a shared one',
    group: 'User code',
  },
  millrace_share_delayed: {
    type: 'counter',
    text: 'How often something was delayed since the start because its owner had its share, by resource: processes, memory, connections, lookups, runs, builds, actions, streams',
    labels: ['resource'],
    group: 'User code',
  },
  millrace_share_refused: {
    type: 'counter',
    text: 'How often something was refused since the start because its owner had its share, by resource: processes, memory, connections, lookups, runs, builds, actions, streams, writes',
    labels: ['resource'],
    group: 'User code',
  },
  millrace_store_up: {
    type: 'gauge',
    text: '1 when the store answered within 4 seconds, else 0; the metrics that are read from it are missing then',
    group: 'Store',
  },
  millrace_store_commits: { type: 'counter', text: 'Group commits since the start', group: 'Store' },
  millrace_store_writes: {
    type: 'counter',
    text: 'Writes in group commits since the start',
    group: 'Store',
  },
  millrace_store_writes_waiting: {
    type: 'gauge',
    text: 'Writes waiting for a group commit',
    group: 'Store',
  },
  millrace_clock_offset_seconds: {
    type: 'gauge',
    text: 'Clock of this machine minus that of the database; 0 with SQLite',
    group: 'Machine',
  },
  millrace_data_disk_free_bytes: {
    type: 'gauge',
    text: 'Free space on the disk of the data folder',
    group: 'Machine',
  },
  millrace_data_disk_size_bytes: {
    type: 'gauge',
    text: 'Size of the disk of the data folder',
    group: 'Machine',
  },
  millrace_trace_spans: {
    type: 'counter',
    text: 'Spans since the start, by outcome: exported, dropped because too many waited, or failed to be exported',
    labels: ['outcome'],
    group: 'Traces',
  },
  millrace_trace_spans_waiting: { type: 'gauge', text: 'Spans waiting to be exported', group: 'Traces' },
} as const satisfies Record<string, MetricDefinition>;

export type MetricName = keyof typeof metricDefinitions;

/** Metrics of Node.js and of the process that the dashboard and the alert rules use; prom-client defines them. */
export const runtimeMetrics = {
  millrace_nodejs_eventloop_lag_p99_seconds: {
    type: 'gauge',
    text: 'Lag of the event loop: 99th percentile since the last scrape',
    group: 'Machine',
  },
  millrace_process_cpu_seconds_total: {
    type: 'counter',
    text: 'CPU time of the service, without sandboxed processes',
    group: 'Machine',
  },
  millrace_process_resident_memory_bytes: {
    type: 'gauge',
    text: 'Memory of the service, without sandboxed processes',
    group: 'Machine',
  },
} as const satisfies Record<string, MetricDefinition>;
