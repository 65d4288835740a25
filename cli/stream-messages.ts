export interface StreamMessage {
  /** `message`, or `gap` when events before the next one are gone. */
  type: string;
  id: string | undefined;
  data: string;
}

/** Ten times the largest event; a line that never ends must not fill the memory. */
const messageCharactersMax = 64 * 1024 * 1024;

/** Server-sent events of a response body, in order. Ends when the stream does; comments are left out. */
export async function* readMessages(body: ReadableStream<Uint8Array>): AsyncGenerator<StreamMessage> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of body) {
    rest += decoder.decode(chunk, { stream: true });
    if (rest.length > messageCharactersMax) throw new Error('a message of the stream is too large');
    const parts = rest.split(/\r?\n\r?\n/);
    rest = parts.pop() ?? '';
    for (const part of parts) {
      const message = messageIn(part);
      if (message !== undefined) yield message;
    }
  }
}

function messageIn(part: string): StreamMessage | undefined {
  const data: string[] = [];
  let type = 'message';
  let id: string | undefined;
  for (const line of part.split(/\r?\n/)) {
    const [, field, value = ''] = /^([^:]+)(?:: ?(.*))?$/s.exec(line) ?? [];
    if (field === 'data') data.push(value);
    else if (field === 'event') type = value;
    else if (field === 'id') id = value;
  }
  return data.length === 0 ? undefined : { type, id, data: data.join('\n') };
}
