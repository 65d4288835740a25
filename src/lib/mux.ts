import type { Duplex } from 'node:stream';
import { dataBytesMax, type Frame, FrameError, FrameParser, FrameType, frameHeader } from './mux-frame.ts';

/**
 * Many byte streams ("channels") over one duplex stream, the same code on both ends.
 *
 * Promises: bytes of a channel arrive in order and complete, or the channel ends with an error; a slow reader of one
 * channel stops only that channel; each side holds at most `windowBytes` of received data per channel. A peer that
 * breaks the protocol is reported once through `onViolation` and the session ends. A hostile peer is expected.
 *
 * Life of a channel: asked (OPEN) -> open (OPENED) -> half closed (END, each direction once) -> closed. ERROR and RESET
 * close it from any state. Ids are never reused and grow, odd ones from one side and even ones from the other.
 */

/** Received but not yet released cost per channel and direction. */
const windowBytes = 262_144;
/** Charged per data frame on top of its bytes: what a small buffer costs beside its content. */
const frameCost = 512;
/** An answering side stops reading requests while this much waits to be written. */
const writeBacklogMax = 1_048_576;
const messageCharactersMax = 1_000;

/** Why a channel ended early, in the form of a Node.js system error code. */
export interface MuxFault {
  code: string;
  message: string;
}

/** Callbacks of the owner of a channel. `closed` comes exactly once and last. */
export interface ChannelHandler {
  /** The peer accepted; only for channels that this side asked for. */
  opened?(answer: unknown): void;
  /** Bytes from the peer. Give `cost` back through `channel.release` when they are consumed. */
  data(chunk: Buffer, cost: number): void;
  /** The peer sends nothing more. */
  end(): void;
  /** `fault` is absent when both directions had ended. */
  closed(fault: MuxFault | undefined): void;
}

export interface MuxSessionOptions {
  /** Which half of the ids this side uses for channels it asks for; the other side takes the other half. */
  ids: 'odd' | 'even';
  /** Decides on a channel that the peer asks for, now or later through `accept` or `reject`. Absent: asking is a violation. */
  onOpen?: (channel: MuxChannel, request: unknown) => ChannelHandler;
  /** More simultaneous channels than this are refused with EMFILE. */
  channelsMax?: number;
  /** The peer broke the protocol; the session is over. Called at most once. */
  onViolation?: (reason: string) => void;
  /** The session is over, for whatever reason. Called once. */
  onClose?: () => void;
}

export class MuxSession {
  #socket: Duplex;
  #options: MuxSessionOptions;
  #channels = new Map<number, MuxChannel>();
  #parser = new FrameParser((frame) => this.#receive(frame));
  #ownIdLast: number;
  #peerIdLast: number;
  /** How much data the peer may still have in flight on channels that this side already closed. */
  #lateBytes = 0;
  #corked = false;
  #over = false;

  constructor(socket: Duplex, options: MuxSessionOptions) {
    this.#socket = socket;
    this.#options = options;
    this.#ownIdLast = options.ids === 'odd' ? -1 : 0;
    this.#peerIdLast = options.ids === 'odd' ? 0 : -1;
    socket.on('data', (chunk: Buffer) => this.#read(chunk));
    socket.on('error', () => this.close());
    socket.on('end', () => this.close());
    socket.on('close', () => this.close());
    socket.on('drain', () => {
      if (!this.#over) socket.resume();
    });
  }

  get channels(): number {
    return this.#channels.size;
  }

  get closed(): boolean {
    return this.#over;
  }

  /** Asks the peer for a channel. Write only after `handler.opened`. On a closed session `handler.closed` follows. */
  open(request: object, handler: ChannelHandler): MuxChannel {
    this.#ownIdLast += 2;
    const channel = new MuxChannel(this, this.#ownIdLast, { asked: true });
    channel.handler = handler;
    if (this.#over) {
      process.nextTick(() => channel.finish(sessionFault));
      return channel;
    }
    this.#channels.set(channel.id, channel);
    this.send(FrameType.open, channel.id, jsonPayload(request));
    return channel;
  }

  /** Ends every channel and destroys the socket. Harmless when called again. */
  close(): void {
    if (this.#over) return;
    this.#over = true;
    const channels = [...this.#channels.values()];
    this.#channels.clear();
    this.#socket.destroy();
    for (const channel of channels) channel.finish(sessionFault);
    this.#options.onClose?.();
  }

  /** For channels only. `done` runs when the bytes have left, or never when the session ends. */
  send(type: number, id: number, payload?: Buffer, done?: () => void): void {
    if (this.#over) return;
    if (!this.#corked) {
      this.#corked = true;
      this.#socket.cork();
      process.nextTick(() => {
        this.#corked = false;
        this.#socket.uncork();
      });
    }
    const header = frameHeader(type, id, payload?.length ?? 0);
    const written = done === undefined ? undefined : (error?: Error | null) => error ?? done();
    if (payload === undefined || payload.length === 0) {
      this.#socket.write(header, written);
    } else {
      this.#socket.write(header);
      this.#socket.write(payload, written);
    }
    // Only the answering side holds back: were both to do it, each could wait for the other for ever.
    if (this.#options.onOpen !== undefined && this.#socket.writableLength > writeBacklogMax)
      this.#socket.pause();
  }

  /** For channels only. */
  forget(channel: MuxChannel, lateBytes: number): void {
    if (this.#channels.delete(channel.id)) this.#lateBytes += lateBytes;
  }

  #read(chunk: Buffer): void {
    if (this.#over) return;
    try {
      this.#parser.push(chunk);
    } catch (error) {
      if (!(error instanceof FrameError)) throw error;
      if (this.#over) return;
      this.close();
      this.#options.onViolation?.(error.message);
    }
  }

  #receive(frame: Frame): void {
    // Frames behind the one that ended the session are dropped with it.
    if (this.#over) return;
    if (frame.type === FrameType.open) {
      this.#receiveOpen(frame);
      return;
    }
    const channel = this.#channels.get(frame.id);
    if (channel !== undefined) {
      channel.receive(frame);
      return;
    }
    const own = (frame.id & 1) === (this.#options.ids === 'odd' ? 1 : 0);
    if (frame.id > (own ? this.#ownIdLast : this.#peerIdLast)) {
      throw new FrameError(`frame for channel ${frame.id}, which was never opened`);
    }
    // The peer may not know yet that the channel is closed; more data than it had credit for is no accident.
    if (frame.type === FrameType.data) {
      this.#lateBytes -= dataCost(frame.payload);
      if (this.#lateBytes < 0)
        throw new FrameError('data for a closed channel, beyond what could be in flight');
    }
  }

  #receiveOpen(frame: Frame): void {
    const { onOpen, channelsMax } = this.#options;
    if (onOpen === undefined) throw new FrameError('this side takes no requests for channels');
    if ((frame.id & 1) === (this.#options.ids === 'odd' ? 1 : 0) || frame.id <= this.#peerIdLast) {
      throw new FrameError(`channel id ${frame.id} is used already or belongs to the other side`);
    }
    this.#peerIdLast = frame.id;
    const request = parseJson(frame.payload);
    if (channelsMax !== undefined && this.#channels.size >= channelsMax) {
      const message = `too many open connections, at most ${channelsMax} are allowed`;
      this.send(FrameType.error, frame.id, faultPayload({ code: 'EMFILE', message }));
      return;
    }
    const channel = new MuxChannel(this, frame.id, { asked: false });
    this.#channels.set(frame.id, channel);
    channel.handler = onOpen(channel, request);
  }
}

type ChannelState = 'asked' | 'deciding' | 'open' | 'closed';

interface QueuedWrite {
  chunk: Buffer;
  done: (fault: MuxFault | undefined) => void;
}

export class MuxChannel {
  readonly id: number;
  /** Set by the session. */
  handler: ChannelHandler | undefined;
  #session: MuxSession;
  #state: ChannelState;
  #queue: QueuedWrite[] = [];
  #credit = 0;
  #granted = 0;
  #released = 0;
  #endAsked = false;
  #endSent = false;
  #endReceived = false;

  constructor(session: MuxSession, id: number, { asked }: { asked: boolean }) {
    this.#session = session;
    this.id = id;
    this.#state = asked ? 'asked' : 'deciding';
  }

  get closed(): boolean {
    return this.#state === 'closed';
  }

  /** Accepts a channel that the peer asked for. */
  accept(answer: object): void {
    if (this.#state !== 'deciding') return;
    this.#session.send(FrameType.opened, this.id, jsonPayload(answer));
    this.#becomeOpen();
  }

  /** Ends the channel now and sends the peer the reason; also used to refuse a channel. Own `closed` follows with the same fault. */
  fail(fault: MuxFault): void {
    if (this.#state === 'closed') return;
    this.#session.send(FrameType.error, this.id, faultPayload(fault));
    this.#leave(fault);
  }

  /** Ends the channel now, both directions. */
  reset(): void {
    if (this.#state === 'closed') return;
    this.#session.send(FrameType.reset, this.id);
    this.#leave(resetFault);
  }

  /**
   * Sends bytes as the peer's window allows. `done` runs when they have left this process, or with a fault when they
   * never will; the caller waits for it, so that the queue stays as short as the caller wants.
   */
  write(chunk: Buffer, done: (fault: MuxFault | undefined) => void): void {
    if (this.#state === 'closed' || this.#endAsked) {
      process.nextTick(done, resetFault);
      return;
    }
    if (chunk.length === 0) {
      process.nextTick(done, undefined);
      return;
    }
    this.#queue.push({ chunk, done });
    this.#flush();
  }

  /** No more writes from this side; what is queued still leaves. */
  end(): void {
    if (this.#state === 'closed' || this.#endAsked) return;
    this.#endAsked = true;
    this.#flush();
  }

  /** The owner consumed received data: the peer may send as much again. */
  release(cost: number): void {
    if (this.#state !== 'open' || cost === 0) return;
    this.#released += cost;
    // Not for every frame: a quarter of the window at a time keeps the sender going with few frames.
    if (this.#released < windowBytes / 4 || this.#endReceived) return;
    const payload = Buffer.allocUnsafe(4);
    payload.writeUInt32BE(this.#released);
    this.#granted += this.#released;
    this.#released = 0;
    this.#session.send(FrameType.window, this.id, payload);
  }

  /** For the session only. */
  receive(frame: Frame): void {
    switch (frame.type) {
      case FrameType.opened: {
        if (this.#state !== 'asked') throw new FrameError('answer to a channel that was not asked for');
        const answer = parseJson(frame.payload);
        this.#becomeOpen();
        this.handler?.opened?.(answer);
        return;
      }
      case FrameType.data:
        this.#receiveData(frame.payload);
        return;
      case FrameType.end:
        this.#requireOpen('END');
        this.#endReceived = true;
        this.handler?.end();
        this.#leaveWhenDone();
        return;
      case FrameType.window:
        this.#receiveWindow(frame.payload);
        return;
      case FrameType.error:
        this.#endReceived = true;
        this.#leave(parseFault(frame.payload));
        return;
      case FrameType.reset:
        this.#endReceived = true;
        this.#leave(resetFault);
        return;
    }
  }

  /** For the session only: the channel has ended and nothing more is sent. */
  finish(fault: MuxFault | undefined): void {
    if (this.#state === 'closed') return;
    this.#state = 'closed';
    const queue = this.#queue;
    this.#queue = [];
    for (const { done } of queue) done(fault ?? resetFault);
    this.handler?.closed(fault);
  }

  #becomeOpen(): void {
    this.#state = 'open';
    this.#credit = windowBytes;
    this.#granted = windowBytes;
  }

  #requireOpen(what: string): void {
    if (this.#state !== 'open') throw new FrameError(`${what} on a channel that is not open`);
    if (this.#endReceived) throw new FrameError(`${what} after END`);
  }

  #receiveData(payload: Buffer): void {
    this.#requireOpen('DATA');
    const cost = dataCost(payload);
    if (cost > this.#granted) throw new FrameError('data beyond the window');
    this.#granted -= cost;
    if (payload.length === 0) this.release(cost);
    else this.handler?.data(payload, cost);
  }

  #receiveWindow(payload: Buffer): void {
    if (this.#state !== 'open') throw new FrameError('WINDOW on a channel that is not open');
    if (payload.length !== 4) throw new FrameError(`WINDOW of ${payload.length} bytes, expected 4`);
    this.#credit += payload.readUInt32BE(0);
    if (this.#credit > windowBytes) throw new FrameError('more window returned than was used');
    this.#flush();
  }

  #flush(): void {
    if (this.#state !== 'open') return;
    for (let next = this.#queue[0]; next !== undefined; next = this.#queue[0]) {
      const room = Math.min(this.#credit - frameCost, dataBytesMax);
      if (room <= 0) return;
      const { chunk, done } = next;
      const part = chunk.length <= room ? chunk : chunk.subarray(0, room);
      this.#credit -= part.length + frameCost;
      if (part.length === chunk.length) {
        this.#queue.shift();
        this.#session.send(FrameType.data, this.id, part, () => done(undefined));
      } else {
        next.chunk = chunk.subarray(part.length);
        this.#session.send(FrameType.data, this.id, part);
      }
    }
    if (this.#endAsked && !this.#endSent) {
      this.#endSent = true;
      this.#session.send(FrameType.end, this.id);
      this.#leaveWhenDone();
    }
  }

  #leaveWhenDone(): void {
    if (this.#endSent && this.#endReceived) this.#leave(undefined);
  }

  #leave(fault: MuxFault | undefined): void {
    if (this.#state === 'closed') return;
    // Left before the answer came: the peer may have said yes meanwhile, and be using a whole window.
    const granted = this.#state === 'asked' ? windowBytes : this.#granted;
    this.#session.forget(this, this.#endReceived ? 0 : granted);
    this.finish(fault);
  }
}

const sessionFault: MuxFault = { code: 'ECONNRESET', message: 'the connection to the outside was closed' };
const resetFault: MuxFault = { code: 'ECONNRESET', message: 'the connection was reset' };

function dataCost(payload: Buffer): number {
  return payload.length + frameCost;
}

function jsonPayload(value: object): Buffer {
  return Buffer.from(JSON.stringify(value));
}

function faultPayload(fault: MuxFault): Buffer {
  return jsonPayload({ code: fault.code, message: fault.message.slice(0, messageCharactersMax) });
}

function parseJson(payload: Buffer): unknown {
  try {
    return JSON.parse(payload.toString()) as unknown;
  } catch {
    throw new FrameError('control frame without valid JSON');
  }
}

function parseFault(payload: Buffer): MuxFault {
  const value = parseJson(payload);
  if (typeof value === 'object' && value !== null && 'code' in value && 'message' in value) {
    return { code: String(value.code), message: String(value.message) };
  }
  throw new FrameError('ERROR frame without code and message');
}
