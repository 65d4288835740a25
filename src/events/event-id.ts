import { CallerError } from '#lib/errors.ts';

/** `<ms>-<seq>`; ordered first by ms, then by seq (specification, section 2, Event summary). */
export interface EventId {
  ms: number;
  seq: number;
}

export function formatEventId(id: EventId): string {
  return `${id.ms}-${id.seq}`;
}

/** Throws `invalid_event_id`, naming the parameter, when the text is not an event id. */
export function parseEventId(text: string, parameter: string): EventId {
  const match = /^(\d{1,15})-(\d{1,15})$/.exec(text);
  if (match?.[1] === undefined || match[2] === undefined) {
    throw new CallerError(
      'invalid_event_id',
      `${parameter}: expected an event id such as 1605215560102-0, found ${JSON.stringify(text.slice(0, 100))}`,
      {
        parameter,
      },
    );
  }
  return { ms: Number(match[1]), seq: Number(match[2]) };
}

export function compareEventIds(a: EventId, b: EventId): number {
  return a.ms - b.ms || a.seq - b.seq;
}

/** The id after `last`: strictly larger, also when the clock stands still or steps back. */
export function nextEventId(last: EventId, nowMs: number): EventId {
  return nowMs > last.ms ? { ms: nowMs, seq: 0 } : { ms: last.ms, seq: last.seq + 1 };
}
