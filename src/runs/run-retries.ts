/** Retries of a failed step (specification of settings, `auto_retry`): 8 over about 10 hours, each twice as late. */
const retriesMax = 8;
const firstRetryMs = 141_000;

/** Pure: how long to wait after the `failures`-th failure of a step, in ms; undefined: there is no further retry. */
export function retryWaitMs(failures: number): number | undefined {
  return failures > retriesMax ? undefined : firstRetryMs * 2 ** (failures - 1);
}
