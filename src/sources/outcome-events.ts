import { createHash } from 'node:crypto';
import type { NewEvent } from '#events/emit-event.ts';
import { channels } from '#events/event.ts';
import type { CallOutcome, EmittedEvent, UserCodeError } from '#runner/call-outcome.ts';

/** Console lines kept of one run; then one line says how many were dropped. */
const logLinesMax = 100;

/** What a call emits: its own events, its console lines on `$logs`, and on `$errors` what went wrong. */
export function eventsOfOutcome(
  outcome: CallOutcome,
  options: { redact: (text: string) => string; originalEvent: string | undefined; nowMs: number },
): NewEvent[] {
  const { redact } = options;
  const events = outcome.emits.map((emit) => emittedEvent(emit, redact));
  const lines = outcome.logs.slice(0, logLinesMax);
  const dropped = outcome.logsDropped + outcome.logs.length - lines.length;
  for (const line of lines) {
    events.push({
      channel: channels.logs,
      event: JSON.stringify({ ts: line.ts, level: line.level, message: redact(line.message) }),
    });
  }
  if (dropped > 0) {
    const message = `${dropped} more line(s) of this run were dropped: at most ${logLinesMax} are kept`;
    events.push({
      channel: channels.logs,
      event: JSON.stringify({ ts: options.nowMs, level: 'warn', message }),
    });
  }
  if (outcome.error !== undefined) events.push(errorEvent(outcome.error, options));
  return events;
}

/** `{error: {name, message, stack, ts, code?}, original_event, metadata}`; the JSON of the event is placed as it is. */
export function errorEvent(
  error: UserCodeError,
  options: { redact: (text: string) => string; originalEvent: string | undefined; nowMs: number },
): NewEvent {
  const shown = { ...error, ts: new Date(options.nowMs).toISOString() };
  // One by one: the event of a run may have been searched before, with the rest of its outcome.
  const [about, original] = [JSON.stringify(shown), options.originalEvent ?? 'null'].map(options.redact);
  return {
    channel: channels.errors,
    event: `{"error":${about},"original_event":${original}}`,
    summary: `${options.redact(error.name)}: ${options.redact(error.message).slice(0, 200)}`,
    holdsMetadata: true,
  };
}

function emittedEvent(emit: EmittedEvent, redact: (text: string) => string): NewEvent {
  return {
    channel: redact(emit.name),
    event: redact(emit.event),
    ...emittedId(emit, redact),
    ...(emit.summary === undefined ? {} : { summary: redact(emit.summary) }),
    // Whole milliseconds: the store keeps integers, and components send times such as "1700000000.1234".
    ...(emit.ts === undefined ? {} : { ts: Math.trunc(emit.ts) }),
    ...(emit.deliveryTs === undefined ? {} : { deliverAtMs: Math.trunc(emit.deliveryTs) }),
  };
}

/** Ids of which a secret was taken out may look the same then, and are still different ones to dedupe. */
function emittedId(
  { id, idIsNumber }: EmittedEvent,
  redact: (text: string) => string,
): Pick<NewEvent, 'id' | 'idHash' | 'idIsNumber'> {
  if (id === undefined) return {};
  const shown = redact(id);
  if (shown !== id) return { id: shown, idHash: createHash('sha256').update(id).digest('hex') };
  return { id, ...(idIsNumber === undefined ? {} : { idIsNumber }) };
}
