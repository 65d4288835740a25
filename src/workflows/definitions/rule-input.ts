import { isRecord } from '#components/validate-props.ts';
import { invalidAt, quoted, refuseUnknownFields } from './at-parameter.ts';

/** A rule as a request gives it. A text is an expression: the rule is met when its value counts as true. */
export type RuleInput = boolean | string | RuleObject;

export type RuleObject =
  | { all: RuleInput[] }
  | { any: RuleInput[] }
  | { not: RuleInput }
  | { value?: unknown; condition: string; second_value?: unknown; case_sensitive?: boolean };

/** The conditions of the action `filter-continue-based-on-condition` (components/filter/conditions.ts). */
export const ruleConditions = [
  'CONTAINS',
  'NOT_CONTAINS',
  'TEXT_EQUALS',
  'TEXT_NOT_EQUALS',
  'STARTS_WITH',
  'NOT_STARTS_WITH',
  'ENDS_WITH',
  'NOT_ENDS_WITH',
  'IS_BLANK',
  'NOT_BLANK',
  'EQUALS',
  'NOT_EQUALS',
  'GREATER_THAN',
  'GREATER_THAN_EQUALS',
  'LESS_THAN',
  'LESS_THAN_EQUALS',
  'TRUE',
  'FALSE',
  'BOOLEAN_EQUALS',
  'EXISTS',
  'NOT_EXISTS',
  'IS_NULL',
  'NOT_NULL',
  'IS_STRING',
  'NOT_STRING',
  'IS_NUMBER',
  'NOT_NUMBER',
  'IS_BOOLEAN',
  'NOT_BOOLEAN',
  'IN_ARRAY',
  'NOT_IN_ARRAY',
  'KEY_EXISTS',
  'KEY_NOT_EXISTS',
] as const;

const ruleDepthMax = 10;
const rulesMax = 100;

/** Throws what is wrong with a rule, naming its place in the request. */
export function checkRule(rule: unknown, at: string, depth = 0): void {
  if (rule === undefined)
    throw invalidAt(at, 'required: an expression, or { value, condition }', 'missing_parameter');
  if (depth > ruleDepthMax) throw invalidAt(at, `rules may be ${ruleDepthMax} deep in one another`);
  if (typeof rule === 'boolean') return;
  if (typeof rule === 'string') {
    if (/^\s*\{\{[\s\S]*\}\}\s*$/.test(rule)) return;
    throw invalidAt(at, `a text must be one expression, {{…}}, found ${quoted(rule)}`);
  }
  if (!isRecord(rule))
    throw invalidAt(at, `expected an expression, or { value, condition }, found ${quoted(rule)}`);
  for (const [name, isList] of [
    ['all', true],
    ['any', true],
    ['not', false],
  ] as const) {
    if (!(name in rule)) continue;
    refuseUnknownFields(rule, [name], at);
    if (!isList) {
      checkRule(rule.not, `${at}.not`, depth + 1);
      return;
    }
    const rules = rule[name];
    if (!Array.isArray(rules) || rules.length > rulesMax)
      throw invalidAt(
        `${at}.${name}`,
        `expected a list of at most ${rulesMax} rules, found ${quoted(rules)}`,
      );
    for (const [index, one] of rules.entries()) checkRule(one, `${at}.${name}[${index}]`, depth + 1);
    return;
  }
  refuseUnknownFields(rule, ['value', 'condition', 'second_value', 'case_sensitive'], at);
  if (!(ruleConditions as readonly unknown[]).includes(rule.condition))
    throw invalidAt(
      `${at}.condition`,
      `expected one of ${ruleConditions.join(', ')}, found ${quoted(rule.condition)}`,
    );
  if (rule.case_sensitive !== undefined && typeof rule.case_sensitive !== 'boolean')
    throw invalidAt(`${at}.case_sensitive`, `expected true or false, found ${quoted(rule.case_sensitive)}`);
}

/** A checked rule as the component of the block reads it: objects only, so that the value of an expression is never taken for a rule. */
export function ruleProp(rule: RuleInput): RuleObject {
  if (typeof rule !== 'object') return { value: rule, condition: 'TRUE' };
  if ('all' in rule) return { all: rule.all.map(ruleProp) };
  if ('any' in rule) return { any: rule.any.map(ruleProp) };
  if ('not' in rule) return { not: ruleProp(rule.not) };
  return rule;
}
