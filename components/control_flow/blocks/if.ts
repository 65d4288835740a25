import type { ActionRun } from '../../action.ts';
import { isRuleMet, type Rule } from '../rule.ts';

interface If {
  branches: readonly { slug: string; if?: Rule }[];
}

export default {
  key: 'control_flow-if',
  name: 'If',
  version: '0.0.1',
  description: 'Names the first branch whose rule is met. A branch without a rule is taken when no other is',
  type: 'action',
  props: { branches: { type: 'any', label: 'Branches', lazy: true } },
  run(this: If, { $ }: ActionRun) {
    const taken = this.branches.find((branch) => branch.if === undefined || isRuleMet(branch.if));
    $.export('branch', taken?.slug ?? null);
    $.export('$summary', taken === undefined ? 'No branch is taken' : `Branch ${taken.slug}`);
  },
};
