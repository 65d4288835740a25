import { epochSeconds } from '#lib/clock.ts';
import { UnavailableError } from '#lib/errors.ts';
import type { NodeStateTable } from '#storage/tables/job-tables.ts';
import type { Health, HealthState } from './health.ts';

/** The health of a process of the service, and what to do about it; null: nothing. */
export interface NodeHealth {
  health: Health;
  advice: string | null;
}

/**
 * Pure. `unwritable` is why the store takes no writes of the node, where that is known: only the node itself can say.
 * A node that cannot write sends no heartbeats, which is what the others see.
 */
export function nodeHealth(node: NodeStateTable, nowMs: number, unwritable?: string): NodeHealth {
  const { seen_at_ms: seenMs, clock_offset_ms: offsetMs } = node;
  if (unwritable !== undefined)
    return found(
      'failing',
      seenMs,
      unwritable,
      'Free disk space, or make the database reachable and writable. Nothing is accepted until then.',
    );
  if (nowMs - seenMs > node.lease_ms)
    return found(
      'failing',
      seenMs,
      `no heartbeat for ${seconds(nowMs - seenMs)}; other nodes take over its work after ${seconds(node.lease_ms)}`,
      'Check whether its process runs and reaches the database; its log says why. A node that was removed leaves this list after an hour.',
    );
  if (node.stopping_since_ms !== null)
    return found(
      'paused',
      node.stopping_since_ms,
      'it is stopping: it finishes its work and accepts nothing new',
      null,
    );
  if (node.clock_state === 'unreliable' && offsetMs !== null)
    return found(
      'failing',
      node.clock_since_ms,
      `its clock is ${seconds(Math.abs(offsetMs))} ${offsetMs < 0 ? 'behind' : 'ahead of'} that of the database: no timer fires there`,
      'Synchronize the clock of its machine, for example with chrony.',
    );
  return found('healthy', node.started_at_ms, null, null);
}

/** Why the store takes no writes. */
export function unwritableReason(cause: unknown): string {
  const code = cause instanceof UnavailableError ? cause.code : '';
  if (code === 'storage_full') return 'the disk of the store is full';
  if (code === 'store_damaged') return 'the database is damaged';
  return 'the store cannot be reached or written';
}

function found(
  state: HealthState,
  sinceMs: number | null,
  reason: string | null,
  advice: string | null,
): NodeHealth {
  const since = sinceMs === null ? null : epochSeconds(sinceMs);
  return { health: { state, since, reason, failures: 0, waiting: 0 }, advice };
}

function seconds(ms: number): string {
  return `${Math.round(ms / 1000)} s`;
}
