import { type EventRouter, emitEvents } from '#events/emit-event.ts';
import type { StoredEvent } from '#events/event.ts';
import { formatEventId } from '#events/event-id.ts';
import type { Dialect } from '#storage/dialect.ts';
import type { Store, Tx } from '#storage/store.ts';
import type { RunSendTable } from '#storage/tables/workflow-tables.ts';
import { requiredText, SendError, type SendOutcome, sendArgument } from './run-send.ts';

/**
 * Where all that a workflow sent with `$.send.sse` is kept, whatever its channel, among the events of the workflow: so the
 * last hundred are those of the stream, in its order.
 */
export const sseChannel = '$sse';
const channelCharactersMax = 200;

/** `{ channel, payload }` as it is kept. Throws `SendError`. */
function sseEvent(payload: string): string {
  const argument = sendArgument(payload);
  const channel = requiredText(argument, 'channel');
  // It becomes the `event:` line of the stream.
  if (channel.length > channelCharactersMax || /[\r\n\0]/.test(channel))
    throw new SendError(`channel: expected one line of at most ${channelCharactersMax} characters`);
  if (argument.payload === undefined) throw new SendError('payload: required');
  return JSON.stringify({ channel, payload: argument.payload });
}

/**
 * Stores the SSE sends of one run, in the order in which they were requested, in the transaction that ends them, so that each is
 * stored exactly once. Returns the outcome of each.
 */
export async function storeSse(
  store: Dialect & Pick<Store, 'notify' | 'defer'>,
  tx: Tx,
  options: { sends: readonly RunSendTable[]; router: EventRouter; nowMs: number },
): Promise<{ outcomes: SendOutcome[]; stored: StoredEvent[] }> {
  const { sends, router, nowMs } = options;
  const [first] = sends;
  if (first === undefined) return { outcomes: [], stored: [] };
  const read = sends.map(({ payload }) => sseEventOr(payload));
  const events = read
    .filter((event) => typeof event === 'string')
    .map((event) => ({ channel: sseChannel, event }));
  const emission = { emitterId: first.workflow_id, hops: 0, events };
  const [result] = await emitEvents(store, tx, { emissions: [emission], router, nowMs });
  const stored = result?.accepted === true ? result.stored : [];
  const ids = stored.filter(({ channel }) => channel === sseChannel).map(formatEventId);
  const lost =
    result?.accepted === true ? 'there is no room for events of one more channel' : 'the workflow is gone';
  const outcomes = read.map((event): SendOutcome => {
    if (typeof event !== 'string') return { state: 'failed', result: { error: event.message } };
    const id = ids.shift();
    if (id === undefined) return { state: 'failed', result: { error: lost } };
    return { state: 'sent', result: { event_id: id } };
  });
  return { outcomes, stored };
}

function sseEventOr(payload: string): string | SendError {
  try {
    return sseEvent(payload);
  } catch (error) {
    if (error instanceof SendError) return error;
    throw error;
  }
}
