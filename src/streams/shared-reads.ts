/**
 * Reads of the store that many readers need at the same moment, done once: a notification of another process makes each
 * reader of an emitter ask for the same events. A read that has begun is not joined, since it may have begun before what
 * the newcomer was notified of.
 */
export class SharedReads {
  readonly #toBegin = new Map<string, Promise<unknown>>();

  /** `key` has to name everything that `work` reads. */
  read<T>(key: string, work: () => Promise<T>): Promise<T> {
    const known = this.#toBegin.get(key) as Promise<T> | undefined;
    if (known !== undefined) return known;
    const result = new Promise<void>((resolve) => setImmediate(resolve)).then(() => {
      this.#toBegin.delete(key);
      return work();
    });
    this.#toBegin.set(key, result);
    return result;
  }
}
