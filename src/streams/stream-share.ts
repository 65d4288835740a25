import type { ActiveOwners } from '#lib/active-owners.ts';
import { BytePace } from '#lib/byte-pace.ts';

/**
 * Bytes a second to all readers of what one owner has, while other owners have calls. Four hundred readers that read nothing took gigabytes
 * a second into the buffers of the kernel: others waited for seconds (bench `floods`).
 */
const bytesPerSecond = 20_000_000;
/** What is written at once before anything waits. */
const bytesAtOnce = 4_000_000;
/** What a message costs beside its bytes, as bytes. */
const messageBytes = 512;
/** What a reader that waits is going to write when its turn comes. */
const turnBytes = 64 * 1024;
/** What is kept for all readers of one owner that have not taken it, and for one reader at most and at least. */
const keptBytesMax = 64 * 1024 * 1024;
const keptPerReaderMax = 1024 * 1024;
const keptPerReaderMin = 64 * 1024;

/** What the readers of each owner get of what this process can write. */
export class StreamShares {
  readonly #pace: BytePace;
  /** Streams by owner of what is streamed. */
  readonly #open = new Map<string, number>();

  /** Without `owners`, nothing waits for others. `onDelayed` is called for each wait of a reader for its turn. */
  constructor({
    owners,
    onDelayed = () => {},
  }: {
    owners?: ActiveOwners | undefined;
    onDelayed?: ((ownerId: string) => void) | undefined;
  } = {}) {
    this.#pace = new BytePace({
      perSecond: bytesPerSecond,
      atOnce: bytesAtOnce,
      isFree: () => owners?.areSeveral !== true,
      onWait: onDelayed,
    });
  }

  /** For a new reader of what an owner has. */
  enter(ownerId: string): StreamShare {
    this.#open.set(ownerId, this.#openOf(ownerId) + 1);
    return new StreamShare({
      pace: this.#pace,
      ownerId,
      openOf: (owner) => this.#openOf(owner),
      onLeave: () => {
        const left = this.#openOf(ownerId) - 1;
        if (left > 0) this.#open.set(ownerId, left);
        else this.#open.delete(ownerId);
      },
    });
  }

  /** Nothing waits from now on. */
  close(): void {
    this.#pace.close();
  }

  #openOf(ownerId: string): number {
    return this.#open.get(ownerId) ?? 0;
  }
}

/** What one reader may take of the share of its owner. */
export class StreamShare {
  readonly #pace: BytePace;
  readonly #ownerId: string;
  readonly #openOf: (ownerId: string) => number;
  /** Called once when the reader is gone. */
  readonly leave: () => void;
  /** Counted when a turn began, and not written yet. */
  #reserved = 0;

  constructor(options: {
    pace: BytePace;
    ownerId: string;
    openOf: (ownerId: string) => number;
    onLeave: () => void;
  }) {
    this.#pace = options.pace;
    this.#ownerId = options.ownerId;
    this.#openOf = options.openOf;
    this.leave = options.onLeave;
  }

  /** Bytes that may be kept for the reader before it has taken them, and one message. */
  get keptBytesMax(): number {
    const part = keptBytesMax / Math.max(1, this.#openOf(this.#ownerId));
    return Math.max(keptPerReaderMin, Math.min(keptPerReaderMax, part));
  }

  /** True while the reader has to wait for its turn. */
  get isUsedUp(): boolean {
    return this.#reserved <= 0 && this.#pace.owes(this.#ownerId);
  }

  /** Resolves when the reader may take more. Readers of one owner take turns. */
  async turn(hasEnded: () => boolean): Promise<void> {
    await this.#pace.turn(this.#ownerId, () => {
      if (hasEnded()) return 0;
      this.#reserved = turnBytes;
      return turnBytes;
    });
  }

  /** Counts a message. */
  wrote(bytes: number): void {
    const cost = bytes + messageBytes;
    const unexpected = Math.max(0, cost - this.#reserved);
    this.#reserved = Math.max(0, this.#reserved - cost);
    if (unexpected > 0) this.#pace.owe(this.#ownerId, unexpected);
  }
}
