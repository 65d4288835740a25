import { type MetricDefinition, metricGroups } from '#telemetry/metric-definitions.ts';
import { allMetrics } from './alert-rules.ts';

const panelWidth = 8;
const panelHeight = 7;
const panelsPerRow = 3;

/** The text of ops/grafana/millrace.json: a row for each group of metrics, and a panel for each metric. */
export function grafanaDashboard(): string {
  const panels: object[] = [];
  let y = 0;
  for (const group of metricGroups) {
    const metrics = Object.entries(allMetrics).filter(([, definition]) => definition.group === group);
    panels.push({
      id: panels.length + 1,
      type: 'row',
      title: group,
      collapsed: false,
      gridPos: { x: 0, y, w: panelWidth * panelsPerRow, h: 1 },
      panels: [],
    });
    y += 1;
    for (const [index, [name, definition]] of metrics.entries()) {
      const gridPos = {
        x: (index % panelsPerRow) * panelWidth,
        y: y + Math.floor(index / panelsPerRow) * panelHeight,
        w: panelWidth,
        h: panelHeight,
      };
      panels.push(panelOf(name, definition, { id: panels.length + 1, gridPos }));
    }
    y += Math.ceil(metrics.length / panelsPerRow) * panelHeight;
  }
  const dashboard = {
    uid: 'millrace',
    title: 'Millrace',
    description: 'Generated from src/telemetry/metric-definitions.ts (npm run reference).',
    tags: ['millrace'],
    editable: true,
    refresh: '30s',
    schemaVersion: 39,
    version: 1,
    time: { from: 'now-6h', to: 'now' },
    timezone: 'browser',
    templating: {
      list: [
        { name: 'datasource', label: 'Data source', type: 'datasource', query: 'prometheus' },
        {
          name: 'instance',
          label: 'Node',
          type: 'query',
          datasource,
          query: { query: 'label_values(millrace_store_up, instance)', refId: 'nodes' },
          refresh: 2,
          multi: true,
          includeAll: true,
          allValue: '.*',
          current: { text: 'All', value: '$__all' },
        },
      ],
    },
    panels,
  };
  return `${JSON.stringify(dashboard, null, 2)}\n`;
}

const datasource = { type: 'prometheus', uid: '$datasource' };

function panelOf(name: string, definition: MetricDefinition, place: { id: number; gridPos: object }): object {
  return {
    ...place,
    type: 'timeseries',
    title: titleOf(name),
    description: definition.text,
    datasource,
    fieldConfig: { defaults: { unit: unitOf(name, definition), min: 0 }, overrides: [] },
    options: { legend: { displayMode: 'list', placement: 'bottom' }, tooltip: { mode: 'multi' } },
    targets: queriesOf(name, definition).map(({ expr, legend }, index) => ({
      refId: String.fromCharCode('A'.charCodeAt(0) + index),
      datasource,
      expr,
      legendFormat: legend,
    })),
  };
}

function queriesOf(
  name: string,
  { type, labels = [] }: MetricDefinition,
): { expr: string; legend: string }[] {
  const series = (suffix = '') => `${name}${suffix}{instance=~"$instance"}`;
  const by = ['instance', ...labels];
  const legend = by.map((label) => `{{${label}}}`).join(' ');
  if (type === 'gauge') return [{ expr: series(), legend }];
  if (type === 'counter')
    return [{ expr: `sum by (${by.join(', ')}) (rate(${series()}[$__rate_interval]))`, legend }];
  const quantile = (part: number) =>
    `histogram_quantile(${part}, sum by (le, route) (rate(${series('_bucket')}[$__rate_interval])))`;
  return [
    { expr: quantile(0.5), legend: '{{route}} median' },
    { expr: quantile(0.99), legend: '{{route}} 99 %' },
  ];
}

/** `millrace_jobs_oldest_due_seconds` is Jobs oldest due. */
function titleOf(name: string): string {
  const words = name
    .replace(/^millrace_/, '')
    .replace(/(_seconds|_bytes|_total)+$/, '')
    .replaceAll('_', ' ');
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** A unit of Grafana. */
function unitOf(name: string, { type }: MetricDefinition): string {
  if (name.includes('_cpu_seconds')) return 'percentunit';
  if (type === 'counter') return 'ops';
  if (name.endsWith('_bytes')) return 'bytes';
  return name.endsWith('_seconds') ? 's' : 'short';
}
