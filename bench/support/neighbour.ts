import { setTimeout as delay } from 'node:timers/promises';
import { deployAnswering, quantile, shown } from './answering-source.ts';
import type { Service } from './service.ts';
import { statusOf } from './status-of.ts';

const callEveryMs = 10;
const deployEveryMs = 1_000;

/** A workspace that minds its own business: one warm source that answers requests. */
export interface Neighbour {
  orgId: string;
  url: string;
}

/** What users of the neighbour notice until `isOver`; times in milliseconds. */
export interface Noticed {
  /** Calls of the warm source, one after another. */
  warm: number[];
  /** Deploys of a new source, one each second. */
  deploys: number[];
  /** Answers other than 200, each with the number of times. */
  failed: Map<string, number>;
}

export async function watchNeighbour(
  service: Service,
  { orgId, url }: Neighbour,
  name: string,
  isOver: () => boolean,
): Promise<Noticed> {
  const noticed: Noticed = { warm: [], deploys: [], failed: new Map() };
  const timed = async (times: number[], everyMs: number, work: () => Promise<string>) => {
    while (!isOver()) {
      const startedAt = performance.now();
      const status = await work();
      times.push(performance.now() - startedAt);
      if (status !== '200') noticed.failed.set(status, (noticed.failed.get(status) ?? 0) + 1);
      await delay(everyMs);
    }
  };
  await Promise.all([
    timed(noticed.warm, callEveryMs, () => statusOf(fetch(url, { method: 'POST', body: '{}' }))),
    timed(noticed.deploys, deployEveryMs, () =>
      deployAnswering(service, orgId, `${name} ${noticed.deploys.length}`).then(
        () => '200',
        (error: Error) => `deploy: ${error.message.slice(0, 100)}`,
      ),
    ),
  ]);
  return noticed;
}

/** For `watchNeighbour`: over after so many seconds from now. */
export function after(seconds: number): () => boolean {
  const endAt = performance.now() + seconds * 1000;
  return () => performance.now() >= endAt;
}

/** The columns of a table; `quietP99` is that of the row without load. */
export function rowOf(
  { warm, deploys, failed }: Noticed,
  name: string,
  quietP99?: number,
): Record<string, string | number> {
  const p99 = quantile(warm, 0.99);
  return {
    while: name,
    'warm p50': shown(quantile(warm, 0.5)),
    'warm p90': shown(quantile(warm, 0.9)),
    'warm p99': shown(p99),
    'times quiet': (p99 / (quietP99 ?? p99)).toFixed(1),
    requests: warm.length,
    'deploy p50': shown(quantile(deploys, 0.5)),
    'deploy max': shown(Math.max(...deploys)),
    'not 200': [...failed].map(([status, times]) => `${times} × ${status}`).join(', '),
  };
}
