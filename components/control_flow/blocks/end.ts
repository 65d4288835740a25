import type { Step } from '../../step.ts';

export default {
  key: 'control_flow-end',
  name: 'End',
  version: '0.0.1',
  description: 'Ends the run, without an error',
  type: 'action',
  props: { reason: { type: 'string', label: 'Reason', optional: true } },
  run(this: { reason?: string }, { $ }: { $: Step }) {
    const reason = this.reason || 'a step ended the workflow';
    $.export('$summary', `Ended: ${reason}`);
    $.flow.exit(reason);
  },
};
