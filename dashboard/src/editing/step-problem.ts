import type { MillraceError } from '#sdk';

/** What the service said of one step when it was deployed. */
export interface StepProblem {
  /** Such as `code`, `props.amount` or `namespace`. */
  field: string;
  error: MillraceError;
  /** The code that it is about. */
  code: string | null;
}
