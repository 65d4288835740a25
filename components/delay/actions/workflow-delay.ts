import type { Step } from '../../step.ts';
import { type DurationAction, durationMs, durationUnit } from '../delay-duration.ts';

export default {
  key: 'delay-workflow-delay',
  name: 'Wait for a duration',
  version: '0.0.1',
  description:
    'Waits for a duration, up to a year, before the next step. Returns URLs that end the wait early or cancel the run. A caller who waits for a response is answered before. Example: 3 `Days` before a reminder is sent',
  type: 'action',
  props: {
    delayDurationValue: {
      type: 'integer',
      label: 'Duration',
      description: 'How many units to wait, such as 15',
    },
    delayDurationUnit: durationUnit,
  },
  async run(this: DurationAction, { $ }: { $: Step }) {
    const urls = $.flow.delay(durationMs(this));
    $.export('$summary', `Waits for ${this.delayDurationValue} ${this.delayDurationUnit?.toLowerCase()}`);
    return urls;
  },
};
