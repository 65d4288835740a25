import type { Step } from '../../step.ts';
import { type FilterAction, filterProps, runFilter } from '../filter-action.ts';

export default {
  key: 'filter-continue-based-on-condition',
  name: 'Continue when a condition holds',
  version: '0.0.1',
  description:
    'Filters runs: when the condition holds the next steps run, and when it does not the run ends here, without an error. Example: continue if `{{steps.trigger.event.body.status}}` equals `paid`',
  type: 'action',
  props: filterProps,
  async run(this: FilterAction, { $ }: { $: Step }) {
    return runFilter(this, $, true);
  },
};
