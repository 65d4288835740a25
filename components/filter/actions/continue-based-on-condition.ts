import type { Step } from '../../step.ts';
import { type FilterAction, filterProps, runFilter } from '../filter-action.ts';

export default {
  key: 'filter-continue-based-on-condition',
  name: 'Continue if a condition is met',
  version: '0.0.1',
  description:
    'Continues the workflow only if a condition is met, and ends the run otherwise. Example: continue if `{{steps.trigger.event.body.status}}` equals `paid`',
  type: 'action',
  props: filterProps,
  async run(this: FilterAction, { $ }: { $: Step }) {
    return runFilter(this, $, true);
  },
};
