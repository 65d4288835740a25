/** What one or more invocations of an owner add to one UTC day. */
export interface UsageRow {
  ownerId: string;
  day: string;
  invocations: number;
  computeMs: number;
  credits: number;
  /** Absent: none. */
  events?: number;
  deliveries?: number;
}

/** A credit is a started 30 seconds of run time at 256 MB; more memory counts proportionally more. */
const creditMs = 30_000;
const creditMemoryMb = 256;

/**
 * Pure: what one call into user code costs its owner, which is the owner of the object: a workspace for its objects, a user
 * for personal ones, never both. `workflowRun`: it is a run of a workflow, which costs at least one credit.
 */
export function usageOf(
  ownerId: string,
  nowMs: number,
  used: { invocations: number; computeMs: number; memoryMb: number; workflowRun?: boolean },
): UsageRow {
  const started = Math.ceil(used.computeMs / creditMs);
  return {
    ownerId,
    day: usageDay(nowMs),
    invocations: used.invocations,
    computeMs: used.computeMs,
    credits: Math.max(
      Math.ceil(started * (used.memoryMb / creditMemoryMb)),
      used.workflowRun === true ? 1 : 0,
    ),
  };
}

/** Pure: one attempt to deliver to a listener of this owner. */
export function deliveryUsage(ownerId: string, nowMs: number): UsageRow {
  return { ownerId, day: usageDay(nowMs), invocations: 0, computeMs: 0, credits: 0, deliveries: 1 };
}

const dayMs = 86_400_000;
/** The day that was computed last: nearly always the same one. */
let lastDay = { number: Number.NaN, text: '' };

/** YYYY-MM-DD in UTC: the day usage is counted on. */
export function usageDay(nowMs: number): string {
  const number = Math.floor(nowMs / dayMs);
  if (number !== lastDay.number) lastDay = { number, text: new Date(nowMs).toISOString().slice(0, 10) };
  return lastDay.text;
}
