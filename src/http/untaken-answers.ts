import type { ServerResponse } from 'node:http';
import { UnavailableError } from '#lib/errors.ts';
import { machineMemoryBytes } from '#lib/machine-memory.ts';
import { bytesText } from '#lib/units.ts';

/** Bytes of answers to one caller that may wait to be taken. */
const bytesPerCallerMax = 64 * 1024 * 1024;
/** Answers of the API wait before they are made; what was made in spite of that is refused only beyond this. */
export const pacedBytesMax = 4 * bytesPerCallerMax;
/** All together may wait for so much of the memory; beyond that, those who have more than this waiting get nothing large. */
const memoryPart = 1 / 8;
const alwaysBytes = 8 * 1024 * 1024;
/** Smaller answers are not counted: their number is bounded by that of the connections. */
export const countedBytes = 64 * 1024;
/**
 * A connection that read nothing of its answer for so long is closed, or took it more slowly than this: what is written at once counts as
 * taken when all of it was.
 */
const stuckMs = 60_000;
const slowestBytesPerMs = 32;
/** So often it is looked whether something was taken. */
const lookEveryMs = 5_000;
const lookForRoomEveryMs = 50;

/** A large answer that is made, sent and taken. */
export interface UntakenAnswer {
  /** Resolves when so much more of it may be made. Undefined: it may be at once. */
  turn(bytes: number): Promise<void> | undefined;
  /** So many bytes are given to the connection. */
  sends(bytes: number): void;
}

class Answer implements UntakenAnswer {
  readonly who: string;
  readonly response: ServerResponse;
  readonly #room: RoomOf;
  readonly #onLarge: (answer: Answer) => void;
  granted = 0;
  sent = 0;
  isCounted = false;
  /** Bytes that the connection had taken when that was last more than before, and when that was. */
  progress = { taken: 0, atMs: 0 };

  constructor(
    who: string,
    response: ServerResponse,
    { room, onLarge }: { room: RoomOf; onLarge: (answer: Answer) => void },
  ) {
    this.who = who;
    this.response = response;
    this.#room = room;
    this.#onLarge = onLarge;
  }

  get untaken(): number {
    return Math.max(0, this.granted - this.sent) + this.response.writableLength;
  }

  turn(bytes: number): Promise<void> | undefined {
    this.#count(bytes);
    return this.#room(this, bytes);
  }

  sends(bytes: number): void {
    this.sent += bytes;
    this.#count(this.sent);
  }

  #count(bytes: number): void {
    if (this.isCounted || bytes < countedBytes) return;
    this.isCounted = true;
    this.#onLarge(this);
  }
}

type RoomOf = (answer: Answer, bytes: number) => Promise<void> | undefined;

interface Waiting {
  answer: Answer;
  bytes: number;
  begin: () => void;
}

/**
 * Bounds what is kept in memory of answers that are not taken: three hundred connections that asked for pages of 33 MB and read nothing held
 * 8 GB, for as long as they liked.
 */
export class UntakenAnswers {
  readonly #nowMs: () => number;
  readonly #allMax: number;
  readonly #answers = new Map<string, Set<Answer>>();
  readonly #waiting = new Set<Waiting>();
  readonly #look: NodeJS.Timeout;
  #lookForRoom: NodeJS.Timeout | undefined;

  constructor({
    nowMs = () => performance.now(),
    memoryBytes = machineMemoryBytes(),
    lookMs = lookEveryMs,
  }: { nowMs?: () => number; memoryBytes?: number; lookMs?: number } = {}) {
    this.#nowMs = nowMs;
    this.#allMax = memoryBytes * memoryPart;
    this.#look = setInterval(() => this.#closeStuck(), lookMs).unref();
  }

  /** For an answer that is counted from when it is large until it was sent, or its connection is closed. `who`: its caller. */
  begin(who: string, response: ServerResponse): UntakenAnswer {
    return new Answer(who, response, {
      room: (answer, bytes) => this.#roomFor(answer, bytes),
      onLarge: (answer) => this.#count(answer),
    });
  }

  /** Throws UnavailableError `overloaded` when an answer of so many bytes, which is made already, has no room. */
  requireRoom(who: string, bytes: number, bytesMax = bytesPerCallerMax): void {
    if (bytes < countedBytes || this.#hasRoom(who, bytes, bytesMax)) return;
    const found = bytesText(this.bytesOf(who));
    throw new UnavailableError(
      'overloaded',
      `${found} of answers wait to be taken by those who asked for them: read them, or close their connections`,
    );
  }

  /** Bytes of the answers of a caller that are made, or about to be, and not taken. */
  bytesOf(who: string): number {
    let bytes = 0;
    for (const answer of this.#answers.get(who) ?? []) bytes += answer.untaken;
    return bytes;
  }

  /** Nothing waits from now on. */
  close(): void {
    clearInterval(this.#look);
    clearTimeout(this.#lookForRoom);
    for (const waiting of this.#waiting) waiting.begin();
    this.#waiting.clear();
  }

  #count(answer: Answer): void {
    const { who, response, progress } = answer;
    // Its caller has gone, which is not told twice.
    if (response.closed || response.destroyed) return;
    progress.atMs = this.#nowMs();
    const ofCaller = this.#answers.get(who) ?? new Set();
    this.#answers.set(who, ofCaller.add(answer));
    response.once('close', () => {
      ofCaller.delete(answer);
      if (ofCaller.size === 0 && this.#answers.get(who) === ofCaller) this.#answers.delete(who);
      this.#beginWaiting();
    });
  }

  #hasRoom(who: string, bytes: number, bytesMax = bytesPerCallerMax): boolean {
    const own = this.bytesOf(who);
    if (own === 0) return true;
    if (own + bytes > bytesMax) return false;
    return own + bytes <= alwaysBytes || this.#bytesOfAll() + bytes <= this.#allMax;
  }

  #bytesOfAll(): number {
    let bytes = 0;
    for (const who of this.#answers.keys()) bytes += this.bytesOf(who);
    return bytes;
  }

  #roomFor(answer: Answer, bytes: number): Promise<void> | undefined {
    if (this.#hasRoom(answer.who, bytes)) {
      answer.granted += bytes;
      return undefined;
    }
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.add({ answer, bytes, begin: resolve });
    this.#lookAgain();
    return promise;
  }

  #lookAgain(): void {
    this.#lookForRoom ??= setTimeout(() => {
      this.#lookForRoom = undefined;
      this.#beginWaiting();
      if (this.#waiting.size > 0) this.#lookAgain();
    }, lookForRoomEveryMs).unref();
  }

  /** In the order in which they came; those of a caller without room keep none of the others waiting. */
  #beginWaiting(): void {
    const full = new Set<string>();
    for (const waiting of this.#waiting) {
      const { answer, bytes, begin } = waiting;
      const isGone = answer.response.destroyed;
      if (!isGone && (full.has(answer.who) || !this.#hasRoom(answer.who, bytes))) {
        full.add(answer.who);
        continue;
      }
      this.#waiting.delete(waiting);
      if (!isGone) answer.granted += bytes;
      begin();
    }
  }

  #closeStuck(): void {
    const nowMs = this.#nowMs();
    for (const answers of this.#answers.values()) {
      for (const { response, progress } of answers) {
        const { socket } = response;
        const taken = socket === null ? 0 : socket.bytesWritten - socket.writableLength;
        if (response.writableLength === 0 || taken > progress.taken) {
          progress.taken = taken;
          progress.atMs = nowMs;
        } else if (nowMs - progress.atMs >= stuckMs + response.writableLength / slowestBytesPerMs)
          response.destroy();
      }
    }
  }
}
