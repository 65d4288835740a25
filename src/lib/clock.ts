/** Time enters as an argument, so that tests can step it (also backwards). */
export interface Clock {
  /** Epoch milliseconds. */
  now(): number;
}

export const systemClock: Clock = { now: () => Date.now() };

/** Epoch seconds, the unit of integer timestamps in the API. */
export function epochSeconds(ms: number): number {
  return Math.floor(ms / 1000);
}
