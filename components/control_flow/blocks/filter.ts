import type { Step } from '../../step.ts';
import { isRuleMet, type Rule } from '../rule.ts';

interface Filter {
  rule: { if: Rule };
  otherwise?: 'end' | 'leave';
  reason?: string;
}

export default {
  key: 'control_flow-filter',
  name: 'Filter',
  version: '0.0.1',
  description: 'Continues when its rule is met; otherwise ends the run, or leaves the block around it',
  type: 'action',
  props: {
    rule: { type: 'any', label: 'Rule', lazy: true },
    otherwise: { type: 'string', label: 'Otherwise', options: ['end', 'leave'], optional: true },
    reason: { type: 'string', label: 'Reason', optional: true },
  },
  run(this: Filter, { $ }: { $: Step }) {
    const passes = isRuleMet(this.rule.if);
    const leaves = this.otherwise === 'leave';
    $.export('passed', passes);
    $.export('$summary', passes ? 'Passed' : leaves ? 'Left the block' : 'Ended the run');
    if (!passes && !leaves) $.flow.exit(this.reason || 'the rule of a filter is not met');
  },
};
