import type { FlowEdge, FlowNode } from '#sdk';
import { formatDuration, formatNumber } from '~/parts/format.ts';
import { oneLine } from '~/parts/plain-text.ts';

/** Words for what is on the map. */

const kinds = {
  source: ['Source', 'sources'],
  workflow: ['Workflow', 'workflows'],
  webhook: ['Webhook', 'webhooks'],
  all: ['All of a kind', 'kinds'],
} as const;

export function kindName(kind: FlowNode['kind']): string {
  return kinds[kind][0];
}

export function kindNames(kind: FlowNode['kind']): string {
  return kinds[kind][1];
}

const everything: Readonly<Record<string, string>> = { 'dc_*': 'All sources', 'p_*': 'All workflows' };

/** An emitter or listener by its name where that is known; what cannot be seen is written out. */
export function nameOf(id: string, node: Pick<FlowNode, 'name'> | undefined): string {
  if (node?.name !== undefined && node.name !== null) return oneLine(node.name, 120) || id;
  return everything[id] ?? (/^[ou]_/.test(id) ? `Everything of ${oneLine(id, 60)}` : oneLine(id, 60));
}

export function pageOf(id: string): string | undefined {
  if (id.endsWith('*')) return undefined;
  if (id.startsWith('dc_')) return `/sources/${id}`;
  if (id.startsWith('wh_')) return `/webhooks/${id}`;
  return id.startsWith('p_') ? `/workflows/${id}` : undefined;
}

export function channelWords(eventName: string): string {
  if (eventName === '') return 'events';
  if (eventName === '$errors') return 'errors';
  return eventName === '$logs' ? 'logs' : `channel ${oneLine(eventName, 60)}`;
}

export function rateWords(perMinute: number): string {
  if (perMinute === 0) return 'quiet';
  if (perMinute < 300) return `${perMinute}/min`;
  const perSecond = perMinute / 60;
  return `${perSecond < 10 ? perSecond.toFixed(1) : formatNumber(Math.round(perSecond))}/s`;
}

export function triggerWords({ kind, interval_seconds, cron }: FlowNode['triggers'][number]): string {
  if (kind === 'http') return 'HTTP request';
  if (kind === 'email') return 'mail';
  if (cron !== null) return `cron ${oneLine(cron, 40)}`;
  return interval_seconds === null ? 'timer' : `every ${formatDuration(interval_seconds * 1000)}`;
}

/** The rate of an object per minute: runs, events, or deliveries to it. */
export function rateOf(node: FlowNode, reaching: number): number {
  if (node.runs !== null) return Math.max(node.runs.per_minute, node.emitted?.per_minute ?? 0);
  return node.emitted?.per_minute ?? reaching;
}

export function edgeRate({ deliveries }: FlowEdge): number {
  return deliveries?.per_minute ?? 0;
}
