/** A rule as the API takes it: an expression, a condition, or rules of rules. */
export type Rule =
  | string
  | boolean
  | { all: Rule[] }
  | { any: Rule[] }
  | { not: Rule }
  | { value?: unknown; condition: string; second_value?: unknown; case_sensitive?: boolean };

export type RuleKind = 'condition' | 'expression' | 'all' | 'any' | 'not';

/** Each condition as it is called in the form, as the action that continues on a condition calls it. */
export const conditionLabels: Readonly<Record<string, string>> = {
  CONTAINS: 'Text: contains',
  NOT_CONTAINS: 'Text: does not contain',
  TEXT_EQUALS: 'Text: equals',
  TEXT_NOT_EQUALS: 'Text: does not equal',
  STARTS_WITH: 'Text: starts with',
  NOT_STARTS_WITH: 'Text: does not start with',
  ENDS_WITH: 'Text: ends with',
  NOT_ENDS_WITH: 'Text: does not end with',
  IS_BLANK: 'Text: is blank',
  NOT_BLANK: 'Text: is not blank',
  EQUALS: 'Number: =',
  NOT_EQUALS: 'Number: ≠',
  GREATER_THAN: 'Number: >',
  GREATER_THAN_EQUALS: 'Number: ≥',
  LESS_THAN: 'Number: <',
  LESS_THAN_EQUALS: 'Number: ≤',
  TRUE: 'Boolean: is true',
  FALSE: 'Boolean: is false',
  BOOLEAN_EQUALS: 'Boolean: equals',
  EXISTS: 'Exists (is not undefined)',
  NOT_EXISTS: 'Does not exist',
  IS_NULL: 'Is null or undefined',
  NOT_NULL: 'Is not null or undefined',
  IS_STRING: 'Type: is text',
  NOT_STRING: 'Type: is not text',
  IS_NUMBER: 'Type: is a number',
  NOT_NUMBER: 'Type: is not a number',
  IS_BOOLEAN: 'Type: is a boolean',
  NOT_BOOLEAN: 'Type: is not a boolean',
  IN_ARRAY: 'Array: contains the value',
  NOT_IN_ARRAY: 'Array: does not contain the value',
  KEY_EXISTS: 'Object: has the key',
  KEY_NOT_EXISTS: 'Object: does not have the key',
};

const textConditions = /^(?:NOT_)?(?:CONTAINS|STARTS_WITH|ENDS_WITH)$|^TEXT_(?:NOT_)?EQUALS$/;
const alone = /^(?:TRUE|FALSE|EXISTS|NOT_EXISTS|(?:IS|NOT)_(?:BLANK|NULL|STRING|NUMBER|BOOLEAN))$/;

/** True when a condition compares with a second value. */
export function takesSecond(condition: string): boolean {
  return !alone.test(condition);
}

/** True when capital letters may count. */
export function takesCase(condition: string): boolean {
  return textConditions.test(condition);
}

const oneExpression = /^\s*\{\{[\s\S]*\}\}\s*$/;

/** A rule of an answer as it is edited: the service keeps an expression as a condition, the value of which is true. */
export function ruleDraft(rule: unknown): Rule {
  const given = rule as Rule;
  if (typeof given !== 'object' || given === null) return given;
  if ('all' in given) return { all: given.all.map(ruleDraft) };
  if ('any' in given) return { any: given.any.map(ruleDraft) };
  if ('not' in given) return { not: ruleDraft(given.not) };
  const { value, condition, second_value, case_sensitive } = given;
  const isExpression = condition === 'TRUE' && second_value === undefined && case_sensitive === undefined;
  return isExpression && typeof value === 'string' && oneExpression.test(value) ? value : given;
}

export function ruleKind(rule: Rule): RuleKind {
  if (typeof rule === 'string') return 'expression';
  if (typeof rule === 'boolean') return 'condition';
  if ('all' in rule) return 'all';
  if ('any' in rule) return 'any';
  return 'not' in rule ? 'not' : 'condition';
}

/** A rule in words, for those who read it. */
export function ruleText(rule: unknown): string {
  const given = ruleDraft(rule);
  if (typeof given !== 'object' || given === null) return String(given);
  if ('all' in given) return `all of: ${given.all.map(ruleText).join('; ')}`;
  if ('any' in given) return `any of: ${given.any.map(ruleText).join('; ')}`;
  if ('not' in given) return `not: ${ruleText(given.not)}`;
  const { value, condition, second_value } = given;
  const label = (conditionLabels[condition] ?? condition).replace(/^(?:Text|Number|Boolean): /, '');
  const first = value === undefined ? 'nothing' : valueText(value);
  return takesSecond(condition)
    ? `${first} ${label.toLowerCase()} ${second_value === undefined ? 'nothing' : valueText(second_value)}`
    : `${first} ${label.toLowerCase()}`;
}

/** Text that reads as itself stands as it is, everything else as JSON. */
export function valueText(value: unknown): string {
  if (value === undefined) return '';
  if (typeof value === 'string' && readValue(value) === value) return value;
  return JSON.stringify(value) ?? '';
}

/** What was typed: numbers, true, false, null, lists, objects and quoted text are JSON, everything else is text. */
export function readValue(text: string): unknown {
  if (text.trim() === '') return text === '' ? undefined : text;
  if (text.includes('{{') && !/^\s*(?:["[]|\{(?!\{))/.test(text)) return text;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}
