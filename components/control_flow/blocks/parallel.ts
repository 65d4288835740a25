import type { ActionRun } from '../../action.ts';
import { isRuleMet, type Rule } from '../rule.ts';

interface Parallel {
  branches: readonly { slug: string; if?: Rule }[];
}

export default {
  key: 'control_flow-parallel',
  name: 'Parallel',
  version: '0.0.1',
  description: 'Names every branch whose rule is met. A branch without a rule is always taken',
  type: 'action',
  props: { branches: { type: 'any', label: 'Branches', lazy: true } },
  run(this: Parallel, { $ }: ActionRun) {
    const taken = this.branches.filter((branch) => branch.if === undefined || isRuleMet(branch.if));
    const slugs = taken.map(({ slug }) => slug);
    $.export('branches', slugs);
    $.export('$summary', slugs.length === 0 ? 'No branch is taken' : `Branches ${slugs.join(', ')}`);
  },
};
