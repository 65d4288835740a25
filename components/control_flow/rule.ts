import { isDeepStrictEqual } from 'node:util';
import { type conditions, isMet } from '../filter/conditions.ts';

/** A condition of a branch or filter. Rules of rules are met as `all`, `any` and `not` say. */
export type Rule =
  | { all: readonly Rule[] }
  | { any: readonly Rule[] }
  | { not: Rule }
  | {
      value?: unknown;
      condition: keyof typeof conditions;
      second_value?: unknown;
      case_sensitive?: boolean;
    };

/** True when the rule is met. Values are read one after the other, and none that the result does not depend on. */
export function isRuleMet(rule: Rule): boolean {
  if ('all' in rule) return rule.all.every(isRuleMet);
  if ('any' in rule) return rule.any.some(isRuleMet);
  if ('not' in rule) return !isRuleMet(rule.not);
  return isMet(rule.condition, {
    initialValue: rule.value,
    secondValue: rule.second_value,
    caseSensitive: rule.case_sensitive === true,
  });
}

/** True when the value is that of a case: numbers and texts are the same where they read the same. */
export function isCase(value: unknown, wanted: unknown): boolean {
  const isScalar = (one: unknown) => typeof one !== 'object' && one !== undefined;
  return isScalar(value) && isScalar(wanted)
    ? String(value) === String(wanted)
    : isDeepStrictEqual(value, wanted);
}
