import type { Store } from '#storage/store.ts';

/** A store that takes so many records of runs and then none, as if the node were killed there. */
export function dyingStore(
  store: Store,
  recordsMax: number,
): { store: Store; isDead: Promise<void>; settled: () => Promise<void> } {
  const dead = Promise.withResolvers<void>();
  const taken: Promise<unknown>[] = [];
  const submit: Store['writes']['submit'] = (write, item) => {
    if (write.name !== 'record-runs') return store.writes.submit(write, item);
    if (taken.length < recordsMax) {
      const submitted = store.writes.submit(write, item);
      taken.push(submitted);
      return submitted;
    }
    dead.resolve();
    return new Promise(() => {});
  };
  const writes = new Proxy(store.writes, {
    get: (of, name) => {
      if (name === 'submit') return submit;
      if (name === 'submitLazily') return () => new Promise(() => {});
      const value: unknown = Reflect.get(of, name);
      return typeof value === 'function' ? value.bind(of) : value;
    },
  });
  return {
    store: { ...store, writes },
    isDead: dead.promise,
    /** What it has taken is stored. */
    settled: async () => void (await Promise.allSettled(taken)),
  };
}
