import { badInput, counted, numberOf } from '../../action.ts';
import type { Step } from '../../step.ts';

const secondsMax = 365 * 24 * 3600;

export default {
  key: 'control_flow-delay',
  name: 'Delay',
  version: '0.0.1',
  description: 'Waits before the next step. Returns URLs that end the wait early or cancel the run',
  type: 'action',
  props: { seconds: { type: 'any', label: 'Seconds' } },
  run(this: { seconds: unknown }, { $ }: { $: Step }) {
    const seconds = numberOf('seconds', this.seconds);
    if (seconds < 0 || seconds > secondsMax)
      throw badInput('seconds', this.seconds, `from 0 to ${secondsMax}, which is a year`);
    $.export('$summary', `Waits ${counted(seconds, 'second')}`);
    return $.flow.delay(Math.max(1, Math.round(seconds * 1000)));
  },
};
