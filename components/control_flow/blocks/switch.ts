import type { ActionRun } from '../../action.ts';
import { isCase } from '../rule.ts';

interface Switch {
  value?: unknown;
  branches: readonly { slug: string; case?: unknown }[];
}

export default {
  key: 'control_flow-switch',
  name: 'Switch',
  version: '0.0.1',
  description:
    'Names the first branch whose case is the value. A branch without a case is taken when no other is',
  type: 'action',
  props: {
    value: { type: 'any', label: 'Value', optional: true },
    branches: { type: 'any', label: 'Branches', lazy: true },
  },
  run(this: Switch, { $ }: ActionRun) {
    const taken = this.branches.find((branch) => !('case' in branch) || isCase(this.value, branch.case));
    $.export('branch', taken?.slug ?? null);
    $.export('$summary', taken === undefined ? 'No branch is taken' : `Branch ${taken.slug}`);
  },
};
