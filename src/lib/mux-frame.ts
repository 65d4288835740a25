/**
 * The bytes of the multiplexer (`mux.ts`): a header of 9 bytes (u32 payload length, u8 type, u32 channel id, big
 * endian) and a payload. The parser is strict and holds at most one frame.
 */

export const FrameType = {
  /** JSON request: asks the peer for a new channel. */
  open: 1,
  /** JSON answer: the channel is usable. */
  opened: 2,
  /** JSON `{code, message}`: the channel is refused, or ends at once for this reason. */
  error: 3,
  data: 4,
  /** No more data from this side; the other direction stays open. */
  end: 5,
  /** The channel ends at once, without a reason. */
  reset: 6,
  /** u32: the peer may send this much more. */
  window: 7,
} as const;

export const headerBytes = 9;
/** Larger frames would let one channel delay the others. */
export const dataBytesMax = 65_536;
/** A host name is at most 253 characters, and messages are cut to fit. */
const controlBytesMax = 4_096;

export interface Frame {
  type: number;
  id: number;
  payload: Buffer;
}

/** The bytes of a frame did not follow the protocol; the text says which rule. */
export class FrameError extends Error {
  override name = 'FrameError';
}

export function frameHeader(type: number, id: number, payloadBytes: number): Buffer {
  const header = Buffer.allocUnsafe(headerBytes);
  header.writeUInt32BE(payloadBytes, 0);
  header[4] = type;
  header.writeUInt32BE(id, 5);
  return header;
}

/** Cuts a byte stream into frames. `push` throws `FrameError` at the first violation and must not be called again. */
export class FrameParser {
  #onFrame: (frame: Frame) => void;
  #header = Buffer.alloc(headerBytes);
  #headerFill = 0;
  #payload: Buffer | undefined;
  #payloadFill = 0;

  constructor(onFrame: (frame: Frame) => void) {
    this.#onFrame = onFrame;
  }

  push(chunk: Buffer): void {
    let at = 0;
    while (at < chunk.length) {
      if (this.#headerFill < headerBytes) {
        const taken = chunk.copy(this.#header, this.#headerFill, at);
        this.#headerFill += taken;
        at += taken;
        if (this.#headerFill < headerBytes) return;
        this.#checkHeader();
      }
      at = this.#takePayload(chunk, at);
    }
  }

  #checkHeader(): void {
    const length = this.#header.readUInt32BE(0);
    const type = this.#header[4];
    if (type === undefined || type < FrameType.open || type > FrameType.window) {
      throw new FrameError(`unknown frame type ${type}`);
    }
    const lengthMax = type === FrameType.data ? dataBytesMax : controlBytesMax;
    if (length > lengthMax)
      throw new FrameError(`frame of ${length} bytes, at most ${lengthMax} are allowed`);
    if (length === 0) this.#emit(Buffer.alloc(0));
  }

  #takePayload(chunk: Buffer, start: number): number {
    if (this.#headerFill < headerBytes) return start;
    const length = this.#header.readUInt32BE(0);
    if (this.#payload === undefined && chunk.length - start >= length) {
      const end = start + length;
      this.#emit(ownBytes(chunk, start, end));
      return end;
    }
    // Partial frames are gathered, never handed on in pieces: pieces of one byte would each cost an object that
    // the window does not account for.
    this.#payload ??= Buffer.allocUnsafeSlow(length);
    const taken = chunk.copy(this.#payload, this.#payloadFill, start);
    this.#payloadFill += taken;
    if (this.#payloadFill === length) this.#emit(this.#payload);
    return start + taken;
  }

  #emit(payload: Buffer): void {
    this.#payload = undefined;
    this.#payloadFill = 0;
    this.#headerFill = 0;
    this.#onFrame({ type: this.#header[4] ?? 0, id: this.#header.readUInt32BE(5), payload });
  }
}

/** Copies small pieces of a large chunk, so that one waiting byte does not keep 64 KB alive. */
function ownBytes(chunk: Buffer, start: number, end: number): Buffer {
  const piece = chunk.subarray(start, end);
  if (piece.length * 2 >= chunk.buffer.byteLength) return piece;
  const copy = Buffer.allocUnsafeSlow(piece.length);
  piece.copy(copy);
  return copy;
}
