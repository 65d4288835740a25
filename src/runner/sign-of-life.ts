import { Deferred } from '#lib/deferred.ts';
import type { RunnerTimer } from './runner-timer.ts';

/** Tells whether a process is responsive. Its frames show that; without frames it is asked. */
export class SignOfLife {
  readonly #timer: RunnerTimer;
  readonly #ask: () => void;
  #heardAtMs = Number.NEGATIVE_INFINITY;
  #asked: Deferred<boolean> | undefined;
  #isMissing = false;

  /** `ask` makes the process send a frame as soon as its code lets it. */
  constructor(timer: RunnerTimer, ask: () => void) {
    this.#timer = timer;
    this.#ask = ask;
  }

  /** Called when a frame has come. */
  heard(): void {
    this.#heardAtMs = this.#timer.nowMs();
    this.#isMissing = false;
    this.#asked?.resolve(true);
  }

  /** Called when the process has ended. */
  end(): void {
    this.#asked?.resolve(false);
  }

  /** Milliseconds since the last frame. */
  get quietForMs(): number {
    return this.#timer.nowMs() - this.#heardAtMs;
  }

  /** True when the process was asked, did not answer in time, and has sent no frame since. */
  get isMissing(): boolean {
    return this.#isMissing;
  }

  /** Resolves to true when a sign comes within so many ms. Callers that wait at the same time share the answer of the first. */
  comesWithin(ms: number): Promise<boolean> {
    this.#asked ??= this.#begin(ms);
    return this.#asked.promise;
  }

  #begin(ms: number): Deferred<boolean> {
    const asked = new Deferred<boolean>();
    let isOver = false;
    const stop = this.#timer.after(ms, () => {
      // A sign that came while the service itself was busy has not been read yet; it is before this.
      setImmediate(() => {
        if (isOver) return;
        this.#isMissing = true;
        asked.resolve(false);
      });
    });
    void asked.promise.then(() => {
      isOver = true;
      stop();
      this.#asked = undefined;
    });
    this.#ask();
    return asked;
  }
}
