/** What one or more invocations of an owner add to one UTC day. */
export interface UsageRow {
  ownerId: string;
  day: string;
  invocations: number;
  computeMs: number;
  credits: number;
}

/** A credit is a started 30 seconds of run time at 256 MB; more memory counts proportionally more. */
const creditMs = 30_000;
const creditMemoryMb = 256;

/** Pure: what one call into user code costs its owner. */
export function usageOf(
  ownerId: string,
  nowMs: number,
  used: { invocations: number; computeMs: number; memoryMb: number },
): UsageRow {
  const started = Math.ceil(used.computeMs / creditMs);
  return {
    ownerId,
    day: usageDay(nowMs),
    invocations: used.invocations,
    computeMs: used.computeMs,
    credits: Math.ceil(started * (used.memoryMb / creditMemoryMb)),
  };
}

/** YYYY-MM-DD in UTC: the day usage is counted on. */
export function usageDay(nowMs: number): string {
  return new Date(nowMs).toISOString().slice(0, 10);
}
