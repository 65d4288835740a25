import { setImmediate, setTimeout } from 'node:timers/promises';

const partMsMax = 2;
/** As long as a part: half of the loop's time stays for others, however much of such work is under way. */
const restMs = 2;

/** The end of the last rest. */
let lastRest: Promise<unknown> = Promise.resolve();

/**
 * For long work that is done in parts: what others wait for is done between two parts. However much such work is under way, only one part
 * of it is done at a time, with a rest after it.
 */
export class Pauses {
  #begunMs = performance.now();

  /** To be awaited between two parts. It rests if the parts since the last pause have taken 2 ms or more. */
  pause(): Promise<void> | undefined {
    return performance.now() - this.#begunMs < partMsMax ? undefined : this.#rest();
  }

  async #rest(): Promise<void> {
    lastRest = lastRest.then(async () => {
      await setTimeout(restMs);
      // Timers that are due together would run without a look at what has come.
      await setImmediate();
    });
    await lastRest;
    this.#begunMs = performance.now();
  }
}
