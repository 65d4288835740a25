/** A job is quarantined when there was evidence so often that it is at fault. */
export const blamesMax = 3;

const firstDelayMs = 1_000;
const delayMaxMs = 60_000;

/**
 * Pure: how long to wait after an attempt that is not counted (the store, or a free process, was away), in ms. It
 * grows with the age of the job: what keeps failing for an hour does not run user code again each second.
 */
export function uncountedDelayMs(ageMs: number, random: () => number): number {
  const base = Math.min(Math.max(firstDelayMs, ageMs / 4), delayMaxMs);
  return Math.round(base * (1 + random() * 0.25));
}

/**
 * Pure: how long to wait before attempt `attempt` + 1, in ms. Exponential with a floor that the engine enforces
 * (retries within one second have multiplied side effects elsewhere) and up to 25 % jitter.
 */
export function retryDelayMs(attempt: number, random: () => number): number {
  const base = Math.min(firstDelayMs * 4 ** Math.max(0, attempt - 1), delayMaxMs);
  return Math.round(base * (1 + random() * 0.25));
}
