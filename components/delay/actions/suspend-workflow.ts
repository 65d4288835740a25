import type { Step } from '../../step.ts';
import { type DurationAction, durationMs, durationUnit } from '../delay-duration.ts';

export default {
  key: 'delay-suspend-workflow',
  name: 'Wait for a request',
  version: '0.0.1',
  description:
    'Waits for a request to its resume URL, and cancels the run if none comes in time. The next steps read the request as `$resume_data` of this step. A caller who waits for a response is answered before. Example: 24 `Hours` for an approval',
  type: 'action',
  props: {
    delayDurationValue: {
      type: 'integer',
      label: 'Longest wait',
      description: 'How many units to wait for the request, such as 24',
      default: 24,
      optional: true,
    },
    delayDurationUnit: { ...durationUnit, default: 'Hours', optional: true },
  },
  async run(this: DurationAction, { $ }: { $: Step }) {
    const { delayDurationValue = 24, delayDurationUnit = 'Hours' } = this;
    const urls = $.flow.suspend(durationMs({ delayDurationValue, delayDurationUnit }));
    $.export(
      '$summary',
      `Waits for a request to its resume URL, for ${delayDurationValue} ${delayDurationUnit.toLowerCase()} at most`,
    );
    return urls;
  },
};
