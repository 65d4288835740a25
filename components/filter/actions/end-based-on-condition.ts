import type { Step } from '../../step.ts';
import { type FilterAction, filterProps, runFilter } from '../filter-action.ts';

export default {
  key: 'filter-end-based-on-condition',
  name: 'End if a condition is met',
  version: '0.0.1',
  description:
    'Ends the run if a condition is met, and continues the workflow otherwise. Example: end if `{{steps.trigger.event.body.items}}` is null or undefined',
  type: 'action',
  props: filterProps,
  async run(this: FilterAction, { $ }: { $: Step }) {
    return runFilter(this, $, false);
  },
};
