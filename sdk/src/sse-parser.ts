/** One message of a stream of server-sent events. */
export interface SseMessage {
  /** `message` where the stream names none. */
  readonly event: string;
  readonly data: string;
  /** Undefined: the message is no place to resume from. */
  readonly id: string | undefined;
}

/** Maximum of one message; an event of the service has 6 MB at most. */
const messageCharactersMax = 32 * 1024 * 1024;

/**
 * Reads the text of a stream of server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html), in pieces
 * that end anywhere. `id` is that of the message itself, not the last one seen. Throws RangeError for a message that has no
 * end within 32 million characters.
 */
export class SseParser {
  #rest = '';
  /** What was looked at already: the rest of a large message is not searched again with each piece. */
  #searched = 0;
  #isStart = true;
  #data: string[] = [];
  #dataLength = 0;
  #event = '';
  #id: string | undefined;

  /** The messages that are complete with this piece. */
  push(piece: string): SseMessage[] {
    let text = this.#rest + piece;
    if (this.#isStart && text !== '') {
      this.#isStart = false;
      if (text.startsWith('\ufeff')) text = text.slice(1);
    }
    const messages: SseMessage[] = [];
    let from = 0;
    const lineEnd = /\r\n|\n|\r/g;
    lineEnd.lastIndex = this.#searched;
    for (let match = lineEnd.exec(text); match !== null; match = lineEnd.exec(text)) {
      // A carriage return at the end of the piece may be half of a line end.
      if (match[0] === '\r' && match.index === text.length - 1) break;
      const message = this.#line(text.slice(from, match.index));
      if (message !== undefined) messages.push(message);
      from = lineEnd.lastIndex;
    }
    this.#rest = text.slice(from);
    this.#searched = Math.max(0, this.#rest.length - 1);
    if (this.#rest.length + this.#dataLength > messageCharactersMax)
      throw new RangeError(`a message of the stream has more than ${messageCharactersMax} characters`);
    return messages;
  }

  #line(line: string): SseMessage | undefined {
    if (line === '') return this.#dispatch();
    const colon = line.indexOf(':');
    if (colon === 0) return undefined;
    const field = colon === -1 ? line : line.slice(0, colon);
    const value = colon === -1 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1);
    if (field === 'data') {
      this.#data.push(value);
      this.#dataLength += value.length;
    } else if (field === 'event') this.#event = value;
    else if (field === 'id' && !value.includes('\u0000')) this.#id = value;
    return undefined;
  }

  #dispatch(): SseMessage | undefined {
    const message =
      this.#data.length === 0
        ? undefined
        : { event: this.#event || 'message', data: this.#data.join('\n'), id: this.#id };
    this.#data = [];
    this.#dataLength = 0;
    this.#event = '';
    this.#id = undefined;
    return message;
  }
}
