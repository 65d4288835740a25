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

const firstBytes = 64 * 1024;

/** The bytes of a mail while they arrive. It grows by doubling, and is emptied when the mail is refused. */
export class MailBuffer {
  /** Why nothing is kept; undefined if there is no problem. */
  refused: 'too_large' | 'no_room' | undefined;
  /** Bytes of the mail so far, kept or not. */
  length = 0;
  readonly #memory: MailMemory;
  readonly #bytesMax: number;
  #bytes = new Uint8Array(0);

  constructor(options: { memory: MailMemory; bytesMax: number }) {
    this.#memory = options.memory;
    this.#bytesMax = options.bytesMax;
  }

  append(chunk: Uint8Array): void {
    const at = this.length;
    this.length += chunk.length;
    if (this.refused !== undefined) return;
    if (this.length > this.#bytesMax) this.#refuse('too_large');
    else if (this.#reserve(this.length)) this.#bytes.set(chunk, at);
  }

  /** The mail; its memory stays counted until `release`. */
  finish(): ArrayBuffer {
    return this.#bytes.buffer.transfer(this.length);
  }

  /** Called once, whatever became of the mail. */
  release(): void {
    this.#memory.giveBack(this.#reserved);
    this.#reserved = 0;
    this.#bytes = new Uint8Array(0);
  }

  #reserved = 0;

  #reserve(bytes: number): boolean {
    if (bytes <= this.#bytes.length) return true;
    const size = Math.min(this.#bytesMax, Math.max(firstBytes, this.#bytes.length * 2, bytes));
    if (!this.#memory.take(size - this.#reserved)) {
      this.#refuse('no_room');
      return false;
    }
    this.#reserved = size;
    this.#bytes = new Uint8Array(this.#bytes.buffer.transfer(size));
    return true;
  }

  #refuse(reason: 'too_large' | 'no_room'): void {
    this.refused = reason;
    this.release();
  }
}
