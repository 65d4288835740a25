import type { ConfiguredProps } from '#components/validate-props.ts';
import type { BlockKind, OnError } from './block-definition.ts';
import type { RuleInput } from './rule-input.ts';
import type { StepRetries } from './workflow-definition.ts';

/** A step as a request (or a template) gives it; with `block`, one of the blocks of control flow. */
export interface StepInput extends BlockInput {
  namespace: string;
  props?: ConfiguredProps;
  /** Source text of a code cell. */
  code?: string;
  /** Registry or saved component: key, `key@version`, sc_ id or URL. */
  component?: string;
  disabled?: boolean;
  /** For people: what the step is for. */
  note?: string;
  timeout_seconds?: number;
  retries?: StepRetries;
}

/** A branch as a request (or a template) gives it. */
export interface BranchInput {
  slug?: string;
  /** if, parallel: absent in the branch that is taken when no other is, or always. */
  if?: RuleInput;
  /** switch: absent in the branch that is taken when no other is. */
  case?: unknown;
  steps?: StepInput[];
}

/** The fields of a step that is a block. Which of them a kind has: `fieldsOf`. */
export interface BlockInput {
  block?: BlockKind;
  /** if, switch, parallel. */
  branches?: BranchInput[];
  /** map: a list, or an expression that gives one. */
  items?: unknown;
  concurrency?: number;
  /** map: what runs for each item. */
  steps?: StepInput[];
  /** switch: what the cases are compared with. */
  value?: unknown;
  /** filter. */
  if?: RuleInput;
  otherwise?: 'end' | 'leave';
  /** filter, end: the reason of a run that ends here. */
  reason?: string;
  /** delay: a number, or an expression that gives one. */
  seconds?: unknown;
  /** call: the id of a workflow, and `steps.trigger.event` of its run. */
  workflow?: string;
  event?: unknown;
  on_error?: OnError;
  /** What runs after a failure, with `on_error: "branch"`. */
  error_steps?: StepInput[];
}
