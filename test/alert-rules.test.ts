import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { promisify } from 'node:util';
import { stringify } from 'yaml';
import { metricDefinitions } from '#telemetry/metric-definitions.ts';
import { alerts, allMetrics, scrapeJob } from '../scripts/monitoring/alert-rules.ts';
import { grafanaDashboard } from '../scripts/monitoring/grafana-dashboard.ts';
import { useSharedService } from './support/millrace.ts';
import { projectRoot, readProjectFile } from './support/project-files.ts';
import { promtoolFile, promtoolSkip } from './support/promtool.ts';
import { createTempFolder } from './support/temp-folder.ts';

const rulesFile = 'ops/prometheus/millrace-rules.yml';
const run = promisify(execFile);

/** What makes each alert fire, and what does not: values of series, one a minute, as promtool writes them. */
const cases: Record<
  string,
  { labels?: string; series: readonly string[]; fires: string[]; rests: string[] }
> = {
  MillraceDown: { labels: `job="${scrapeJob}"`, series: ['up'], fires: ['0x200'], rests: ['1x200'] },
  MillraceStoreDown: { series: ['millrace_store_up'], fires: ['0x200'], rests: ['1x200'] },
  MillraceUnavailable: {
    series: ['millrace_http_request_seconds_count{status="503"}'],
    fires: ['0+1x200'],
    rests: ['5x200'],
  },
  MillraceQueueLate: {
    series: ['millrace_jobs_oldest_due_seconds'],
    fires: ['301x200'],
    rests: ['300x200'],
  },
  MillraceJobsQuarantined: {
    labels: 'kind="run_source",state="quarantined"',
    series: ['millrace_jobs'],
    fires: ['1x200'],
    rests: ['0x200'],
  },
  MillraceDeliveriesLate: {
    series: ['millrace_deliveries_oldest_due_seconds'],
    fires: ['601x200'],
    rests: ['600x200'],
  },
  MillraceDeliveriesFailing: {
    series: [
      'millrace_delivery_attempts{outcome="failed"}',
      'millrace_delivery_attempts{outcome="delivered"}',
    ],
    fires: ['0+3x200', '0+2x200'],
    rests: ['0+2x200', '0+3x200'],
  },
  MillraceWebhooksFailing: {
    labels: 'state="failing"',
    series: ['millrace_webhooks'],
    fires: ['1x200'],
    rests: ['0x200'],
  },
  MillraceSandboxBelowWanted: {
    series: ['millrace_sandbox_below_wanted'],
    fires: ['1x200'],
    rests: ['0x200'],
  },
  MillraceProcessesKilled: { series: ['millrace_runner_kills'], fires: ['0+2x200'], rests: ['0+1x200'] },
  MillraceBuildsLate: {
    series: ['millrace_builds_oldest_wait_seconds'],
    fires: ['61x200'],
    rests: ['60x200'],
  },
  MillraceQuotaRefusals: { series: ['millrace_quota_refused'], fires: ['0+1x200'], rests: ['9x200'] },
  MillraceDiskNearlyFull: {
    series: ['millrace_data_disk_free_bytes', 'millrace_data_disk_size_bytes'],
    fires: ['9x200', '100x200'],
    rests: ['10x200', '100x200'],
  },
  MillraceClockOff: {
    series: ['millrace_clock_offset_seconds'],
    fires: ['-1.1x200'],
    rests: ['1x200'],
  },
  MillraceStoreSlow: { series: ['millrace_store_writes_waiting'], fires: ['501x200'], rests: ['500x200'] },
  MillraceOverloaded: {
    series: ['millrace_nodejs_eventloop_lag_p99_seconds'],
    fires: ['0.6x200'],
    rests: ['0.5x200'],
  },
  MillraceConnectionsRefused: {
    series: ['millrace_http_connections_refused_total'],
    fires: ['0+10x200'],
    rests: ['0+1x200'],
  },
  MillraceSpansLost: {
    series: ['millrace_trace_spans{outcome="dropped"}', 'millrace_trace_spans{outcome="failed"}'],
    fires: ['0x200', '0+1x200'],
    rests: ['7x200', '0x200'],
  },
};

/** Names of metrics in PromQL, without what a histogram adds to them. */
function metricsIn(expr: string): string[] {
  const names = [...expr.matchAll(/\b(?:millrace_\w+|up)\b/g)].map(([name]) =>
    name in allMetrics ? name : name.replace(/_(?:count|sum|bucket)$/, ''),
  );
  return [...new Set(names)];
}

describe('the dashboard and the alert rules', () => {
  test('name only metrics that exist, and the dashboard has all of them', () => {
    for (const { name, expr, metrics } of alerts) {
      assert.deepEqual(metricsIn(expr), metrics, name);
      for (const metric of metrics) assert.ok(metric === 'up' || metric in allMetrics, `${name}: ${metric}`);
    }
    const dashboard = JSON.parse(grafanaDashboard()) as { panels: { targets?: { expr: string }[] }[] };
    const shown = dashboard.panels.flatMap(({ targets = [] }) =>
      targets.flatMap(({ expr }) => metricsIn(expr)),
    );
    assert.deepEqual([...new Set(shown)].sort(), Object.keys(allMetrics).sort());
  });

  test('have a heading in the guide for each alert, and a case here', () => {
    const guide = readProjectFile('docs/guides/monitor.md');
    const headings = [...guide.matchAll(/^#+ (Millrace\w+)$/gm)].map(([, name]) => name);
    const names = alerts.map(({ name }) => name);
    assert.deepEqual(headings, names);
    assert.deepEqual(Object.keys(cases), names);
  });
});

describe('the alert rules', { skip: promtoolSkip() }, () => {
  test('fire when they should, and only then', async () => {
    await run(promtoolFile(), ['check', 'rules', join(projectRoot, rulesFile)]);
    await using folder = await createTempFolder();
    const file = join(folder.path, 'tests.yml');
    const tests = Object.entries(cases).flatMap(([name, { labels = '', series, fires, rests }]) => {
      const severity = alerts.find((alert) => alert.name === name)?.severity;
      const common = [`instance="a"`, ...(labels === '' ? [] : [labels])].join();
      const named = (text: string) =>
        text.includes('{') ? text.replace('{', `{${common},`) : `${text}{${common}}`;
      const testOf = (values: readonly string[], samples: object[]) => ({
        interval: '1m',
        input_series: series.map((text, index) => ({ series: named(text), values: values[index] })),
        promql_expr_test: [
          {
            expr: `ALERTS{alertname="${name}",alertstate="firing"}`,
            eval_time: '150m',
            exp_samples: samples,
          },
        ],
      });
      const fired = `ALERTS{alertname="${name}",alertstate="firing",severity="${severity}",${common}}`;
      return [testOf(fires, [{ labels: fired, value: 1 }]), testOf(rests, [])];
    });
    await writeFile(
      file,
      stringify({ rule_files: [join(projectRoot, rulesFile)], evaluation_interval: '5m', tests }),
    );
    const { stdout } = await run(promtoolFile(), ['test', 'rules', file]).catch(
      ({ stdout: out, stderr }: { stdout: string; stderr: string }) => assert.fail(`${out}\n${stderr}`),
    );
    assert.match(stdout, /SUCCESS/);
  });
});

describe('/metrics', () => {
  const fixture = useSharedService();

  test('has every metric of the table, with its type and its labels', async () => {
    await fetch(`${fixture.service.url}/healthz`);
    const text = await (await fetch(`${fixture.service.url}/metrics`)).text();
    const types = new Map([...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name, type]) => [name, type]));
    for (const [name, { type }] of Object.entries(allMetrics)) assert.equal(types.get(name), type, name);
    const own = [...types.keys()].filter((name) => !/^millrace_(nodejs|process)_/.test(name ?? ''));
    assert.deepEqual(own.sort(), Object.keys(metricDefinitions).sort());
    const sampleOf = (sample: string) =>
      Number(
        text
          .split('\n')
          .find((line) => line.startsWith(`${sample} `))
          ?.split(' ')[1],
      );
    assert.equal(sampleOf('millrace_store_up'), 1);
    assert.equal(sampleOf('millrace_webhooks{state="disabled"}') >= 0, true);
    assert.ok(sampleOf('millrace_data_disk_free_bytes') <= sampleOf('millrace_data_disk_size_bytes'));
    assert.ok(sampleOf('millrace_data_disk_free_bytes') > 0);
    for (const outcome of ['exported', 'dropped', 'failed'])
      assert.equal(sampleOf(`millrace_trace_spans{outcome="${outcome}"}`), 0);
  });
});
