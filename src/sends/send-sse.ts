import { type EventRouter, emitEvents } from '#events/emit-event.ts';
import type { StoredEvent } from '#events/event.ts';
import { formatEventId } from '#events/event-id.ts';
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
export function sseEvent(payload: string): string {
  const argument = sendArgument(payload);
  const channel = requiredText(argument, 'channel');
  // It becomes the `event:` line of the stream.
  if (channel.length > channelCharactersMax || /[\r\n\0]/.test(channel))
    throw new SendError(`channel: expected one line of at most ${channelCharactersMax} characters`);
  if (argument.payload === undefined) throw new SendError('payload: required');
  return JSON.stringify({ channel, payload: argument.payload });
}

/** Stores it in the transaction that ends the send, so that it is there exactly once. */
export async function storeSse(
  store: Pick<Store, 'name' | 'notify' | 'defer'>,
  tx: Tx,
  options: { send: RunSendTable; event: string; router: EventRouter; nowMs: number },
): Promise<{ outcome: SendOutcome; stored: StoredEvent[] }> {
  const { send, event, router, nowMs } = options;
  const emission = { emitterId: send.workflow_id, hops: 0, events: [{ channel: sseChannel, event }] };
  const [result] = await emitEvents(store, tx, { emissions: [emission], router, nowMs });
  const stored = result?.accepted === true ? result.stored : [];
  const [first] = stored;
  if (first === undefined)
    return { outcome: { state: 'failed', result: { error: 'the workflow is gone' } }, stored };
  return { outcome: { state: 'sent', result: { event_id: formatEventId(first) } }, stored };
}
