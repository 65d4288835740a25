import type { Step } from '../../step.ts';
import { type FilterAction, filterProps, runFilter } from '../filter-action.ts';

export default {
  key: 'filter-end-based-on-condition',
  name: 'End when a condition holds',
  version: '0.0.1',
  description:
    'Filters runs: when the condition holds the run ends here, without an error, and when it does not the next steps run. Example: end if `{{steps.trigger.event.body.items}}` is null or undefined',
  type: 'action',
  props: filterProps,
  async run(this: FilterAction, { $ }: { $: Step }) {
    return runFilter(this, $, false);
  },
};
