import type { WorkflowSettings } from '#sdk';
import { formatNumber } from './format.ts';

type FlowControl = NonNullable<WorkflowSettings['flow_control']>;

/** Each control of a workflow in a sentence. */
export function flowControlWords(flow: FlowControl): [string, string][] {
  const { concurrency, throttle, debounce, singleton, batch, priority, rate_limit } = flow;
  const words: [string, string][] = [];
  const by = (key: string | undefined) => (key === undefined ? '' : ` of each ${key}`);
  if (concurrency !== undefined)
    words.push([
      'Concurrency',
      `${formatNumber(concurrency.limit)} runs${by(concurrency.key)} at the same time`,
    ]);
  if (throttle !== undefined)
    words.push([
      'Throttle',
      `${formatNumber(throttle.limit)} runs${by(throttle.key)} in any ${formatNumber(throttle.seconds)} s`,
    ]);
  if (debounce !== undefined)
    words.push([
      'Debounce',
      `the last event${by(debounce.key)} after ${formatNumber(debounce.seconds)} s without another one, at the latest after ${formatNumber(debounce.max_wait_seconds)} s`,
    ]);
  if (singleton !== undefined)
    words.push([
      'Singleton',
      `one run${by(singleton.key)}; a further event ${singleton.mode === 'skip' ? 'is skipped' : 'replaces it'}`,
    ]);
  if (batch !== undefined)
    words.push([
      'Batch',
      `${formatNumber(batch.max_events)} events${by(batch.key)}, or what came within ${formatNumber(batch.max_seconds)} s`,
    ]);
  if (rate_limit !== undefined)
    words.push([
      'Rate limit',
      `${formatNumber(rate_limit.limit)} runs in any ${formatNumber(rate_limit.seconds)} s, shared by workflows and sources with the account of ${rate_limit.account}`,
    ]);
  if (priority !== undefined) words.push(['Priority', String(priority)]);
  return words;
}
