import type { Step } from '../step.ts';
import { conditions, isMet } from './conditions.ts';

/** `this` of the filters. */
export interface FilterAction {
  initialValue?: unknown;
  condition: string;
  secondValue?: unknown;
  caseSensitive?: boolean;
  messageOnContinue?: string;
  messageOnEnd?: string;
}

export const filterProps = {
  initialValue: {
    type: 'any',
    label: 'Value',
    description: 'The value that the condition is about, such as `{{steps.trigger.event.body.status}}`',
  },
  condition: {
    type: 'string',
    label: 'Condition',
    description:
      'Texts of numbers and JSON text of arrays and objects are read as such. For `TRUE` and `FALSE`, nothing, 0, empty text and the text `false` are false',
    options: Object.entries(conditions).map(([value, { label }]) => ({ label, value })),
  },
  secondValue: {
    type: 'any',
    label: 'Compared with',
    description:
      'What the value is compared with, such as `paid`. For conditions of arrays the array, and for conditions of objects the key. Conditions about one value do not use it',
    optional: true,
  },
  caseSensitive: {
    type: 'boolean',
    label: 'Match case',
    description: 'Whether `A` and `a` differ when texts are compared',
    default: false,
    optional: true,
  },
  messageOnContinue: {
    type: 'string',
    label: 'Message when it continues',
    description: 'What the step returns when the workflow continues',
    optional: true,
  },
  messageOnEnd: {
    type: 'string',
    label: 'Message when it ends',
    description: 'What the run shows as the reason when the workflow ends here',
    optional: true,
  },
} as const;

/** Evaluates the condition. The run continues, or ends after this step, without an error in both cases. */
export function runFilter(action: FilterAction, $: Step, continueWhen: boolean): string {
  const { condition, initialValue, secondValue, caseSensitive = false } = action;
  const met = isMet(condition, { initialValue, secondValue, caseSensitive });
  const outcome = `the condition ${condition} is ${met ? '' : 'not '}met`;
  if (met === continueWhen) {
    const reason = action.messageOnContinue || `Continued: ${outcome}`;
    $.export('$summary', reason);
    return reason;
  }
  const reason = action.messageOnEnd || `Ended: ${outcome}`;
  $.export('$summary', reason);
  $.flow.exit(reason);
  return reason;
}
