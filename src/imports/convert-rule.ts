import { isRecord } from '#components/validate-props.ts';
import { checkRule, type RuleInput, ruleConditions } from '#workflows/definitions/rule-input.ts';

/** Fields of an exported rule that describe it and do not affect its result. */
const ignored = /^(?:id|key|name|label|position|order|.+(?:_id|Id))$/;
const leftNames = ['value', 'first_value', 'firstValue', 'left', 'lhs', 'operand'];
const rightNames = ['second_value', 'secondValue', 'right', 'rhs', 'other', 'compare_to', 'compareTo'];
const conditionNames = ['condition', 'operator', 'operation', 'op', 'comparison', 'comparator'];
const caseNames = ['case_sensitive', 'caseSensitive'];
const listNames = ['conditions', 'rules', 'operands', 'items'];
const joinNames = ['operator', 'combinator', 'logic', 'type', 'join', 'mode'];

const symbols: Readonly<Record<string, string>> = {
  '=': 'EQUALS',
  '==': 'EQUALS',
  '===': 'EQUALS',
  '!=': 'NOT_EQUALS',
  '!==': 'NOT_EQUALS',
  '>': 'GREATER_THAN',
  '>=': 'GREATER_THAN_EQUALS',
  '<': 'LESS_THAN',
  '<=': 'LESS_THAN_EQUALS',
};
const synonyms: Readonly<Record<string, string>> = {
  EQ: 'EQUALS',
  EQUAL: 'EQUALS',
  IS: 'EQUALS',
  NE: 'NOT_EQUALS',
  NEQ: 'NOT_EQUALS',
  IS_NOT: 'NOT_EQUALS',
  DOES_NOT_EQUAL: 'NOT_EQUALS',
  STRING_EQUALS: 'TEXT_EQUALS',
  STRING_NOT_EQUALS: 'TEXT_NOT_EQUALS',
  NUMBER_EQUALS: 'EQUALS',
  NUMBER_NOT_EQUALS: 'NOT_EQUALS',
  GT: 'GREATER_THAN',
  GTE: 'GREATER_THAN_EQUALS',
  GREATER_THAN_OR_EQUAL: 'GREATER_THAN_EQUALS',
  GREATER_THAN_OR_EQUALS: 'GREATER_THAN_EQUALS',
  LT: 'LESS_THAN',
  LTE: 'LESS_THAN_EQUALS',
  LESS_THAN_OR_EQUAL: 'LESS_THAN_EQUALS',
  LESS_THAN_OR_EQUALS: 'LESS_THAN_EQUALS',
  DOES_NOT_CONTAIN: 'NOT_CONTAINS',
  DOES_NOT_START_WITH: 'NOT_STARTS_WITH',
  DOES_NOT_END_WITH: 'NOT_ENDS_WITH',
  IS_NOT_BLANK: 'NOT_BLANK',
  DOES_NOT_EXIST: 'NOT_EXISTS',
  IS_NOT_NULL: 'NOT_NULL',
  IS_TRUE: 'TRUE',
  IS_FALSE: 'FALSE',
};

/** Converts an exported rule to the rule of a block. Undefined when its meaning is uncertain. */
export function convertRule(value: unknown): RuleInput | undefined {
  const rule = convert(value);
  if (rule === undefined) return undefined;
  try {
    checkRule(rule, 'rule');
    return rule;
  } catch {
    return undefined;
  }
}

function convert(value: unknown): RuleInput | undefined {
  if (typeof value === 'boolean') return value;
  if (typeof value === 'string') return value.trim().startsWith('{{') ? value.trim() : undefined;
  if (Array.isArray(value)) return value.length === 1 ? convert(value[0]) : undefined;
  if (!isRecord(value)) return undefined;
  const given = Object.fromEntries(
    Object.entries(value).filter(
      ([name, one]) => one !== undefined && one !== null && !(ignored.test(name) && typeof one !== 'object'),
    ),
  );
  return listRule(given) ?? comparison(given);
}

/** `{ all: [] }`, or `{ operator: 'and', conditions: [] }`. */
function listRule(given: Record<string, unknown>): RuleInput | undefined {
  const names = Object.keys(given);
  const [name = ''] = names;
  if (names.length === 1) {
    if (/^(?:all|and)$/i.test(name)) return joinedRule('all', given[name]);
    if (/^(?:any|or)$/i.test(name)) return joinedRule('any', given[name]);
    if (/^(?:expression|expr|rule|condition)$/.test(name)) return convert(given[name]);
    if (name !== 'not') return undefined;
    const inner = convert(given.not);
    return inner === undefined ? undefined : { not: inner };
  }
  if (names.length !== 2) return undefined;
  const list = names.find((one) => listNames.includes(one) && Array.isArray(given[one]));
  const join = String(given[names.find((one) => one !== list && joinNames.includes(one)) ?? ''] ?? '');
  if (list === undefined || !/^(?:and|all|or|any)$/i.test(join)) return undefined;
  return joinedRule(/^(?:and|all)$/i.test(join) ? 'all' : 'any', given[list]);
}

function joinedRule(by: 'all' | 'any', list: unknown): RuleInput | undefined {
  if (!Array.isArray(list) || list.length === 0) return undefined;
  const rules = list.map(convert);
  if (!rules.every((rule) => rule !== undefined)) return undefined;
  return by === 'all' ? { all: rules } : { any: rules };
}

function comparison(given: Record<string, unknown>): RuleInput | undefined {
  const pick = (names: readonly string[]) => names.find((name) => Object.hasOwn(given, name));
  const [left, right, operator, cased] = [leftNames, rightNames, conditionNames, caseNames].map(pick);
  const used = [left, right, operator, cased].filter((name) => name !== undefined);
  if (operator === undefined || left === undefined || Object.keys(given).length !== used.length)
    return undefined;
  const second = right === undefined ? undefined : given[right];
  const condition = conditionOf(String(given[operator]), second);
  if (condition === undefined) return undefined;
  return {
    value: given[left],
    condition,
    ...(second === undefined ? {} : { second_value: second }),
    ...(cased === undefined ? {} : { case_sensitive: given[cased] as boolean }),
  };
}

/** Undefined when the operator is unknown, or when the values do not show whether it compares numbers or texts. */
function conditionOf(operator: string, second: unknown): string | undefined {
  const word = operator
    .replaceAll(/([a-z])([A-Z])/g, '$1_$2')
    .replaceAll(/[^A-Za-z]+/g, '_')
    .replaceAll(/^_|_$/g, '')
    .toUpperCase();
  const condition = symbols[operator.trim()] ?? synonyms[word] ?? word;
  if (!(ruleConditions as readonly string[]).includes(condition)) return undefined;
  if (condition !== 'EQUALS' && condition !== 'NOT_EQUALS') return condition;
  if (typeof second === 'boolean') return condition === 'EQUALS' ? 'BOOLEAN_EQUALS' : undefined;
  if (typeof second === 'number') return condition;
  if (typeof second !== 'string' || second.includes('{{')) return undefined;
  const isNumber = second.trim() !== '' && !Number.isNaN(Number(second));
  return isNumber ? condition : `TEXT_${condition}`;
}
