/**
 * Jobs of a subject with flow control are stored as held: they are due at a time that never comes, so that no node claims them until the
 * flow control has put them into the lane that nodes share. `arrived`: it has not looked at them yet.
 */
export const arrivedMs = 8_000_000_000_000_000;
export const heldMs = arrivedMs + 1;

/** Where jobs arrive that flow control has to look at. `isEvaluated` false: an expression of their keys has to be evaluated first. */
export function arrivalLane(subject: string, { isEvaluated }: { isEvaluated: boolean }): string {
  return `${subject}${isEvaluated ? mark : unevaluatedMark}`;
}

/** The subject of a lane of arrivals; undefined for any other lane. */
export function arrivalOf(lane: string): { subject: string; isEvaluated: boolean } | undefined {
  if (lane.endsWith(unevaluatedMark))
    return { subject: lane.slice(0, -unevaluatedMark.length), isEvaluated: false };
  return lane.endsWith(mark) ? { subject: lane.slice(0, -mark.length), isEvaluated: true } : undefined;
}

/** Not in any id. */
const mark = '+';
const unevaluatedMark = '++';

/** The keys of one event, as its job carries them until the queue has taken it. */
export interface FlowKeys {
  concurrency?: string;
  throttle?: string;
  debounce?: string;
  singleton?: string;
  batch?: string;
  priority?: number;
  /** Size of the event. */
  bytes: number;
  /** The run repeats another one: it is neither debounced nor put into a batch. */
  repeats?: true;
  /** In words, what is wrong with the keys of this event. */
  warning?: string;
}
