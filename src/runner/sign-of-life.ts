import { Deferred } from '#lib/deferred.ts';
import type { RunnerTimer } from './runner-timer.ts';

/** Whether a process answers: frames of its work tell it, and where none come it is asked. */
export class SignOfLife {
  readonly #timer: RunnerTimer;
  readonly #ask: () => void;
  #heardAtMs = Number.NEGATIVE_INFINITY;
  #asked: Deferred<boolean> | undefined;
  #isMissing = false;

  /** `ask` makes the process send a frame, as soon as its code lets it. */
  constructor(timer: RunnerTimer, ask: () => void) {
    this.#timer = timer;
    this.#ask = ask;
  }

  /** A frame came. */
  heard(): void {
    this.#heardAtMs = this.#timer.nowMs();
    this.#isMissing = false;
    this.#asked?.resolve(true);
  }

  /** The process is gone. */
  end(): void {
    this.#asked?.resolve(false);
  }

  /** Milliseconds since the last frame. */
  get quietForMs(): number {
    return this.#timer.nowMs() - this.#heardAtMs;
  }

  /** It was asked, and has not answered in time or since. */
  get isMissing(): boolean {
    return this.#isMissing;
  }

  /** Resolves to whether it comes within so many ms. All who wait at a time get the answer of the first. */
  comesWithin(ms: number): Promise<boolean> {
    this.#asked ??= this.#begin(ms);
    return this.#asked.promise;
  }

  #begin(ms: number): Deferred<boolean> {
    const asked = new Deferred<boolean>();
    const stop = this.#timer.after(ms, () => {
      this.#isMissing = true;
      asked.resolve(false);
    });
    void asked.promise.then(() => {
      stop();
      this.#asked = undefined;
    });
    this.#ask();
    return asked;
  }
}
