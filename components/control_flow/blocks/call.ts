import type { Step } from '../../step.ts';

interface Call {
  workflow: string;
  event?: unknown;
}

export default {
  key: 'control_flow-call',
  name: 'Call a workflow',
  version: '0.0.1',
  description: 'Runs another workflow of the same owner, and returns what its last step returned',
  type: 'action',
  props: {
    workflow: { type: 'string', label: 'Workflow' },
    event: { type: 'any', label: 'Event', optional: true },
  },
  async run(this: Call, { $ }: { $: Step }) {
    const result = await $.flow.trigger(this.workflow, this.event ?? {});
    $.export('$summary', `Ran workflow ${this.workflow}`);
    return result;
  },
};
