import type { RunStepTable } from '#storage/tables/workflow-tables.ts';
import type { StepRetries } from '#workflows/definitions/workflow-definition.ts';

/** Retries of a failed step (specification of settings, `auto_retry`): 8 over about 10 hours, each twice as late. */
const retriesMax = 8;
const firstRetryMs = 141_000;

/** Pure: how long to wait after the `failures`-th failure of a step, in ms; undefined: there is no further retry. */
export function retryWaitMs(failures: number): number | undefined {
  return failures > retriesMax ? undefined : firstRetryMs * 2 ** (failures - 1);
}

/** Pure: the same for a step or block that has retries of its own. */
export function ownRetryWaitMs({ times, seconds }: StepRetries, failures: number): number | undefined {
  return failures > times ? undefined : seconds * 1000 * 2 ** (failures - 1);
}

/**
 * JSON of the exports of a try that is followed by another: what it exported itself, `$attempt`, and a `$summary` where
 * it has none.
 */
export function withAttempt(
  row: Pick<RunStepTable, 'exports' | 'error'>,
  attempt: { retryAtMs: number; resumeUrl: string; cancelUrl: string },
): string {
  const resumeTs = new Date(attempt.retryAtMs).toISOString();
  const error: unknown = row.error === null ? null : JSON.parse(row.error);
  const added = JSON.stringify({
    error,
    cancel_url: attempt.cancelUrl,
    rerun_url: attempt.resumeUrl,
    resume_ts: resumeTs,
  });
  const summary = JSON.stringify(`Failed, and will be tried again at ${resumeTs}`);
  const own = row.exports === '{}' ? '' : `,${row.exports.slice(1, -1)}`;
  // If a name appears twice, the last value counts.
  return `{"$summary":${summary}${own},"$attempt":${added}}`;
}
