/** Stops the current work when one of *our* promises is broken; never used for a caller's or the world's faults. */
export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new Error(`assertion failed: ${message}`);
}

/** Returns `value` when it is there; its absence is our bug, and `what` says what was missing. */
export function must<T>(value: T | null | undefined, what: string): T {
  if (value === null || value === undefined) throw new Error(`assertion failed: ${what} is missing`);
  return value;
}

/** Marks the case a union does not have, so that adding one is a type error here. */
export function unreachable(value: never): never {
  throw new Error(`assertion failed: unexpected case ${JSON.stringify(value)}`);
}
