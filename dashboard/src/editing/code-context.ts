/** What code can reach where it runs, as far as the page knows it. */
export interface CodeContext {
  kind: 'step' | 'source';
  /** `steps`: the trigger and the steps before it. */
  steps: readonly KnownStep[];
}

export interface KnownStep {
  /** `trigger`, or the namespace of a step. */
  namespace: string;
  /** What it had in the last run that is known; undefined: none is. */
  sample: unknown;
}

export const nothingBefore: readonly KnownStep[] = [];
