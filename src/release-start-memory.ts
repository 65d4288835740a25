import { performance } from 'node:perf_hooks';
import { getHeapStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { Logger } from '#lib/logger.ts';

/** The service must have been idle for so long. */
const windowMs = 5_000;
/** Below this share of its time at work, the event loop counts as idle. */
const idleShare = 0.1;
/** Windows after which a service that was never idle keeps what it has: it needs the memory. */
const windowsMax = 60;

/**
 * Gives the memory that only the start needed back to the system, once, in the first five seconds in which the service does nothing. V8 has
 * grown its heap while modules were read, and an idle process allocates so little that no collection comes to shrink it: 20 MB
 * of the installed package and 50 MB of a clone stay for hours. The event loop stands still meanwhile, 100 to 120 ms in a clone.
 * @returns ends the watch
 */
export function releaseStartMemory(
  logger: Pick<Logger, 'debug'>,
  collect: () => void = collectAll,
): () => void {
  let windows = 0;
  let before = performance.eventLoopUtilization();
  const watch = setInterval(() => {
    const { utilization } = performance.eventLoopUtilization(before);
    before = performance.eventLoopUtilization();
    windows += 1;
    if (utilization >= idleShare && windows < windowsMax) return;
    clearInterval(watch);
    if (utilization >= idleShare) return;
    const heapMb = heapSizeMb();
    collect();
    logger.debug({ heapMb: { before: heapMb, after: heapSizeMb() } }, 'service.start-memory-released');
  }, windowMs);
  watch.unref();
  return () => clearInterval(watch);
}

/** V8 has no other call that shrinks the heap. The flag makes its function visible in contexts that are created while it is set. */
function collectAll(): void {
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc') as (how: { type: 'major'; flavor: 'last-resort' }) => void;
  setFlagsFromString('--no-expose-gc');
  gc({ type: 'major', flavor: 'last-resort' });
}

function heapSizeMb(): number {
  return Math.round(getHeapStatistics().total_heap_size / 1e6);
}
