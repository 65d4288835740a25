import { isRecord } from '#components/validate-props.ts';
import { invalidAt, quoted, refuseUnknownFields } from './at-parameter.ts';
import { isSingleExpression } from './check-expressions.ts';

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
    if (isSingleExpression(rule.trim())) return;
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
  checkOperands(rule as unknown as Operands, at);
}

interface Operands {
  condition: (typeof ruleConditions)[number];
  value?: unknown;
  second_value?: unknown;
}

const ofNumbers: readonly string[] = [
  'EQUALS',
  'NOT_EQUALS',
  'GREATER_THAN',
  'GREATER_THAN_EQUALS',
  'LESS_THAN',
  'LESS_THAN_EQUALS',
];
/** Conditions that compare with a text that is not empty. */
const ofParts: readonly string[] = [
  'CONTAINS',
  'NOT_CONTAINS',
  'STARTS_WITH',
  'NOT_STARTS_WITH',
  'ENDS_WITH',
  'NOT_ENDS_WITH',
];

/** Refuses values that no event could make comparable: each evaluation would be an error. */
function checkOperands({ condition, value, second_value: second }: Operands, at: string): void {
  if (ofNumbers.includes(condition))
    for (const [field, one] of [
      ['value', value],
      ['second_value', second],
    ] as const)
      if (!mayBeNumber(one))
        throw invalidAt(`${at}.${field}`, `expected a number for ${condition}, found ${foundIn(one)}`);
  if (ofParts.includes(condition) && (second === undefined || second === null || second === ''))
    throw invalidAt(`${at}.second_value`, `expected text for ${condition}, found ${foundIn(second)}`);
  if (/^(?:NOT_)?IN_ARRAY$/.test(condition) && !mayBe('[', value) && !mayBe('[', second))
    throw invalidAt(`${at}.second_value`, `expected a list for ${condition}, found ${foundIn(second)}`);
  if (/^KEY_(?:NOT_)?EXISTS$/.test(condition) && !mayBe('{', value) && !mayBe('{', second))
    throw invalidAt(`${at}.value`, `expected an object for ${condition}, found ${foundIn(value)}`);
}

function mayBeNumber(value: unknown): boolean {
  if (typeof value === 'string')
    return hasExpression(value) || (value.trim() !== '' && !Number.isNaN(Number(value)));
  return typeof value === 'number' && !Number.isNaN(value);
}

/** True for an object or list, JSON text of one (by its first character), and an expression. */
function mayBe(opening: '[' | '{', value: unknown): boolean {
  if (typeof value === 'string') return hasExpression(value) || value.trimStart().startsWith(opening);
  return typeof value === 'object' && value !== null && (opening === '{' || Array.isArray(value));
}

function hasExpression(text: string): boolean {
  return text.includes('{{');
}

function foundIn(value: unknown): string {
  return value === undefined ? 'nothing' : quoted(value);
}

/** A checked rule as the component of the block reads it: objects only, so that the value of an expression is never taken for a rule. */
export function ruleProp(rule: RuleInput): RuleObject {
  // With spaces around it, the value would become text.
  if (typeof rule !== 'object')
    return { value: typeof rule === 'string' ? rule.trim() : rule, condition: 'TRUE' };
  if ('all' in rule) return { all: rule.all.map(ruleProp) };
  if ('any' in rule) return { any: rule.any.map(ruleProp) };
  if ('not' in rule) return { not: ruleProp(rule.not) };
  return rule;
}
