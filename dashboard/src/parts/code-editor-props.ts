import type { CodeContext } from '~/editing/code-context.ts';
import type { CodeProblem } from '~/editing/code-problem.ts';

export interface CodeEditorProps {
  /** What the code is of, for those who do not see it: "Code of the step pay". */
  label: string;
  value: string;
  /** Absent: it is to be read only. */
  onChange?: (code: string) => void;
  problems?: readonly CodeProblem[];
  /** What can be completed in addition to the language. */
  context?: CodeContext;
}
