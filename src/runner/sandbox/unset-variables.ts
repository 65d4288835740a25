/** Called with the name of each environment variable that is read and not set. */
type OnUnset = (name: string) => void;

let observer: OnUnset | undefined;

/** Calls `onUnset` for each unset variable that `work` reads before it returns. */
export function observeUnset<T>(onUnset: OnUnset, work: () => T): T {
  const before = observer;
  observer = onUnset;
  try {
    return work();
  } finally {
    observer = before;
  }
}

/** Modules of Node read variables of such names themselves, as when a process is to be started. */
const ofNode = /^NODE_/;

export function reportUnset(name: string): void {
  if (!ofNode.test(name)) observer?.(name);
}
