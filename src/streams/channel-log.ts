import type { EventId } from '#events/event-id.ts';

/** What all readers of a channel get, in this order. */
export interface LogEntry {
  emitterId: string;
  /** The place of its emitter before and with this entry; a gap moves nothing. */
  before: EventId;
  place: EventId;
  message: Buffer;
}

export interface LogReader {
  /** One that cannot take it now falls behind, and reads the log from this number on. */
  take(entry: LogEntry, number: number): void;
}

/** Kept while a reader is behind, once for all of them; who falls further behind has the store. */
const backlogEntriesMax = 10_000;
const backlogBytesMax = 8 * 1024 * 1024;

/** Hands entries to readers, and keeps them for those that are behind. */
export class ChannelLog<R extends LogReader> {
  readonly #readers = new Set<R>();
  readonly #behind = new Set<R>();
  readonly #backlog: LogEntry[] = [];
  #backlogBytes = 0;
  #next = 0;

  /** The number of the entry that comes next. */
  get next(): number {
    return this.#next;
  }

  get readers(): Iterable<R> {
    return this.#readers;
  }

  get hasReaders(): boolean {
    return this.#readers.size > 0;
  }

  join(reader: R): void {
    this.#readers.add(reader);
  }

  leave(reader: R): void {
    this.#readers.delete(reader);
    this.keepUp(reader);
  }

  add(entry: LogEntry): void {
    const number = this.#next;
    this.#next += 1;
    this.#backlog.push(entry);
    this.#backlogBytes += entry.message.length;
    for (const reader of this.#readers) reader.take(entry, number);
    if (this.#behind.size === 0) this.#forget(this.#backlog.length);
    while (this.#backlog.length > backlogEntriesMax || this.#backlogBytes > backlogBytesMax) this.#forget(1);
  }

  /** Undefined when there is none yet; `'gone'` when the reader is too far behind. */
  entry(number: number): LogEntry | 'gone' | undefined {
    const oldest = this.#next - this.#backlog.length;
    return number < oldest ? 'gone' : this.#backlog[number - oldest];
  }

  /** From now on, entries are kept for this reader. */
  fallBehind(reader: R): void {
    this.#behind.add(reader);
  }

  keepUp(reader: R): void {
    this.#behind.delete(reader);
    if (this.#behind.size === 0) this.#forget(this.#backlog.length);
  }

  #forget(entries: number): void {
    for (const { message } of this.#backlog.splice(0, entries)) this.#backlogBytes -= message.length;
  }
}
