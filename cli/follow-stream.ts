import { setTimeout as pause } from 'node:timers/promises';
import { type Api, type ApiObject, isObject } from './api.ts';
import { CliError } from './exit-codes.ts';
import type { StreamMessage } from './stream-messages.ts';

/** Between attempts to get back to a service that went away. */
const retryMs = { first: 500, most: 15_000 };

/** An id that every event comes after. */
const beforeAll = '0-0';

export interface Followed {
  /** Of the stream, such as /v1/sources/dc_…/sse. */
  path: string;
  /** Channel; undefined: the default one. */
  eventName?: string | undefined;
  /** Ends the stream, as if it had ended by itself. */
  signal: AbortSignal;
  /** What happened to the connection, for the person. */
  note: (text: string) => void;
  /**
   * When the stream stands for the first time: from here on nothing is missed. Answers the id of the last event before, so that
   * nothing is missed either when the connection breaks before the first event; undefined: there was none.
   */
  onOpen: () => Promise<string | undefined>;
}

/**
 * Events as they are emitted, each once, in order, until the signal. A connection that breaks is made again, from the last event
 * on; a stream whose emitter is gone ends with the error that the service answers.
 */
export async function* followStream(api: Api, followed: Followed): AsyncGenerator<ApiObject> {
  let lastEventId: string | undefined;
  let isFirst = true;
  let isTold = false;
  let waitMs = retryMs.first;
  while (!followed.signal.aborted) {
    let messages: AsyncGenerator<StreamMessage>;
    try {
      messages = await api.stream(followed.path, {
        query: { event_name: followed.eventName },
        lastEventId,
        signal: followed.signal,
      });
    } catch (error) {
      if (followed.signal.aborted) return;
      const isTemporary =
        error instanceof CliError && (error.reason === 'unreachable' || error.reason === 'busy');
      if (isFirst || !isTemporary) throw error;
      if (!isTold) followed.note(`${(error as Error).message}; trying again`);
      isTold = true;
      await pause(waitMs, undefined, { signal: followed.signal }).catch(() => undefined);
      waitMs = Math.min(retryMs.most, waitMs * 2);
      continue;
    }
    waitMs = retryMs.first;
    if (isFirst) lastEventId = (await followed.onOpen()) ?? beforeAll;
    else followed.note('connected again');
    isFirst = false;
    isTold = false;
    try {
      for await (const message of messages) {
        if (message.type === 'gap' && lastEventId !== beforeAll)
          followed.note('events before the next one are gone: more were emitted than are kept');
        if (message.type === 'end') followed.note(`the service ends the stream: ${message.data}`);
        if (message.type !== 'message') continue;
        const event: unknown = JSON.parse(message.data);
        if (!isObject(event)) continue;
        lastEventId = message.id ?? lastEventId;
        yield event;
      }
    } catch {
      // Cut off; asking again tells whether the service or the emitter is gone.
    }
    if (!followed.signal.aborted) {
      followed.note('the stream has ended; connecting again');
      await pause(waitMs, undefined, { signal: followed.signal }).catch(() => undefined);
    }
  }
}

/** `<ms>-<sequence>`: whether the first came later. */
export function isLater(a: unknown, b: unknown): boolean {
  const [msA = 0, sequenceA = 0] = String(a).split('-').map(Number);
  const [msB = 0, sequenceB = 0] = String(b).split('-').map(Number);
  return msA === msB ? sequenceA > sequenceB : msA > msB;
}
