import type { EventSummary } from '#sdk';
import type { Api } from './api.ts';

/** An id that every event comes after. */
const beforeAll = '0-0';

export interface Followed {
  /** The path of the emitter, such as /v1/sources/dc_…. */
  path: string;
  /** Channel; undefined: the default one. */
  eventName?: string | undefined;
  /** The event to resume after. Undefined: from the first event. */
  after: string | undefined;
  /** Ends the stream, as if it had ended by itself. */
  signal: AbortSignal;
  /** Reports to the user what happened to the connection. */
  note: (text: string) => void;
}

/**
 * Events as they are emitted, each once, in order, until the signal. A connection that breaks is made again, from the last event
 * on, however long that takes; a stream whose emitter is gone ends with the error that the service answers.
 */
export async function* followStream(api: Api, followed: Followed): AsyncGenerator<EventSummary> {
  const { path, eventName, after = beforeAll, signal, note } = followed;
  let connection: 'first' | 'open' | 'lost' | 'told lost' = 'first';
  const stream = api.stream<EventSummary>(
    { path: `${path}/sse`, query: { event_name: eventName } },
    {
      signal,
      lastEventId: after,
      failuresMax: Number.POSITIVE_INFINITY,
      onConnect: () => {
        if (connection !== 'first') note('connected again');
        connection = 'open';
      },
      onReconnect: ({ error, endReason }) => {
        // Nothing was followed yet that would be worth waiting for.
        if (connection === 'first' && error !== undefined) throw error;
        if (connection === 'open') {
          if (endReason !== undefined) note(`the service ends the stream: ${endReason}`);
          note('the stream has ended; connecting again');
          connection = 'lost';
        } else if (connection === 'lost') {
          note(`${(api.asCliError(error) as Error).message}; trying again`);
          connection = 'told lost';
        }
      },
    },
  );
  let last = after;
  try {
    for await (const message of stream) {
      if (message.type === 'event') {
        last = message.lastEventId ?? last;
        yield message.data;
      } else if (last !== beforeAll) {
        note('events before the next one are gone: more were emitted than are kept');
      }
    }
  } catch (error) {
    if (signal.aborted) return;
    throw api.asCliError(error);
  }
  // It ended by itself: the emitter is gone, and reading it gives the error.
  if (!signal.aborted) await api.call('GET', path);
}
