import { ApiError, send } from './client.ts';

export interface StreamMessage {
  event: string;
  id: string | undefined;
  data: unknown;
}

export type StreamState = 'connecting' | 'live' | 'waiting';

/** Between two tries, growing up to the last of them. */
const retryMs = [1_000, 2_000, 5_000, 10_000];
/** One message of a stream; what is longer is no message of ours. */
const messageCharactersMax = 20_000_000;

/**
 * Reads server-sent events until `signal` is aborted, and comes back with Last-Event-ID when the connection is lost.
 * `EventSource` cannot send the header without which the cookie of a session does not count. Ends with an ApiError when
 * the service refuses (`onRefused`), which no new try would change.
 */
export async function readStream(
  path: string,
  options: {
    signal: AbortSignal;
    onMessage: (message: StreamMessage) => void;
    onState: (state: StreamState) => void;
    onRefused: (error: ApiError) => void;
  },
): Promise<void> {
  const { signal, onMessage, onState, onRefused } = options;
  let lastId: string | undefined;
  let failures = 0;
  while (!signal.aborted) {
    onState('connecting');
    try {
      const response = await send('GET', path, {
        signal,
        headers: {
          accept: 'text/event-stream',
          ...(lastId === undefined ? {} : { 'last-event-id': lastId }),
        },
      });
      onState('live');
      failures = 0;
      for await (const message of messagesOf(response)) {
        if (message.id !== undefined) lastId = message.id;
        onMessage(message);
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof ApiError && error.status >= 400 && error.status < 500 && error.status !== 429) {
        onRefused(error);
        return;
      }
    }
    if (signal.aborted) return;
    onState('waiting');
    await wait(retryMs[Math.min(failures, retryMs.length - 1)] ?? 1_000, signal);
    failures += 1;
  }
}

async function* messagesOf(response: Response): AsyncGenerator<StreamMessage> {
  if (response.body === null) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += value;
    if (rest.length > messageCharactersMax) throw new Error('a message of the stream has no end');
    const parts = rest.split('\n\n');
    rest = parts.pop() ?? '';
    for (const part of parts) {
      const message = parse(part);
      if (message !== undefined) yield message;
    }
  }
}

function parse(part: string): StreamMessage | undefined {
  let event = 'message';
  let id: string | undefined;
  let data: string | undefined;
  for (const line of part.split('\n')) {
    if (line.startsWith('event: ')) event = line.slice(7);
    else if (line.startsWith('id: ')) id = line.slice(4);
    else if (line.startsWith('data: '))
      data = data === undefined ? line.slice(6) : `${data}\n${line.slice(6)}`;
  }
  if (data === undefined) return undefined;
  return { event, id, data: JSON.parse(data) as unknown };
}

function wait(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
