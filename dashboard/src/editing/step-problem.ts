import type { MillraceError } from '#sdk';

/** The service's error about one step of a deployment. */
export interface StepProblem {
  /** Such as `code`, `props.amount` or `namespace`. */
  field: string;
  error: MillraceError;
  /** The code that it is about. */
  code: string | null;
}
