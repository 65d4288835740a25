import { countText } from '#lib/units.ts';
import type { LiveRun } from './live-run.ts';
import { payloadError, type StepError } from './run-step.ts';

/** Records of one run. */
const recordsMax = 100_000;
/** Exports and logs of one run, those included that no other step sees. A node that continues the run reads the exports. */
const recordedBytesMax = 24 * 1024 * 1024;

export const quotaUsedUp: StepError = {
  code: 'Quota Exceeded',
  msg: 'the daily quota of the owner is used up; it is reset at 00:00 UTC',
  stack: '',
};

/** The error of a run that has too many records: maps in maps could have billions. */
export function tooMuch({ records, recordedBytes }: LiveRun): StepError | undefined {
  if (records >= recordsMax)
    return {
      ...{ code: 'Function Payload Limit Exceeded', stack: '' },
      msg: `a run may have ${countText(recordsMax)} records of steps, those for each item of its maps included`,
    };
  return recordedBytes > recordedBytesMax
    ? { ...payloadError('those of all branches and items', recordedBytes, recordedBytesMax), stack: '' }
    : undefined;
}
