/** Where the memory of all mails that are being received, parsed and stored is counted. */
export class MailMemory {
  readonly #bytesMax: number;
  #bytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** False: there is no room for that many more bytes. */
  take(bytes: number): boolean {
    if (this.#bytes + bytes > this.#bytesMax) return false;
    this.#bytes += bytes;
    return true;
  }

  giveBack(bytes: number): void {
    this.#bytes -= bytes;
  }
}

/** Bytes of a block, and of the first one: most mails are small. */
const blockBytes = 1024 * 1024;
const firstBytes = 64 * 1024;

/**
 * The bytes of a mail while they arrive, and nothing when the mail is refused. They are in blocks: one buffer that grows to 30 MB is
 * copied again and again by the loop that serves everyone, for tens of milliseconds each time.
 */
export class MailBuffer {
  /** Why nothing is kept; undefined if there is no problem. */
  refused: 'too_large' | 'no_room' | undefined;
  /** Bytes of the mail so far, kept or not. */
  length = 0;
  readonly #memory: MailMemory;
  readonly #bytesMax: number;
  #blocks: Uint8Array<ArrayBuffer>[] = [];
  /** Bytes in the last block. */
  #filled = 0;
  #reserved = 0;

  constructor(options: { memory: MailMemory; bytesMax: number }) {
    this.#memory = options.memory;
    this.#bytesMax = options.bytesMax;
  }

  append(chunk: Uint8Array): void {
    this.length += chunk.length;
    if (this.refused !== undefined) return;
    if (this.length > this.#bytesMax) {
      this.#refuse('too_large');
      return;
    }
    for (let at = 0; at < chunk.length; ) {
      let block = this.#blocks.at(-1);
      if (block === undefined || this.#filled === block.length) {
        block = this.#addBlock();
        if (block === undefined) return;
      }
      const part = chunk.subarray(at, at + block.length - this.#filled);
      block.set(part, this.#filled);
      this.#filled += part.length;
      at += part.length;
    }
  }

  /** The mail, in parts; its memory stays counted until `release`. */
  finish(): ArrayBuffer[] {
    const last = this.#blocks.pop();
    const parts = this.#blocks.map(({ buffer }) => buffer);
    this.#blocks = [];
    if (last !== undefined) parts.push(last.buffer.slice(0, this.#filled));
    return parts;
  }

  /** Called once, whatever became of the mail. */
  release(): void {
    this.#memory.giveBack(this.#reserved);
    this.#reserved = 0;
    this.#blocks = [];
  }

  #addBlock(): Uint8Array<ArrayBuffer> | undefined {
    const bytes = this.#blocks.length === 0 ? firstBytes : blockBytes;
    if (!this.#memory.take(bytes)) {
      this.#refuse('no_room');
      return undefined;
    }
    this.#reserved += bytes;
    const block = new Uint8Array(new ArrayBuffer(bytes));
    this.#blocks.push(block);
    this.#filled = 0;
    return block;
  }

  #refuse(reason: 'too_large' | 'no_room'): void {
    this.refused = reason;
    this.release();
  }
}
