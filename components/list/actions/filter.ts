import { type ActionRun, badInput, counted, listOf } from '../../action.ts';
import { compareValues, fieldOf, fieldProp, keyOf } from '../field.ts';

const lower = (value: unknown) => keyOf(value).toLowerCase();
const isEmpty = (value: unknown) =>
  value === undefined || value === null || value === '' || (Array.isArray(value) && value.length === 0);
/** Numbers in texts count as numbers, as forms give them. */
const isEqual = (found: unknown, value: unknown) => keyOf(found) === keyOf(value);
const isOrdered = (found: unknown, value: unknown, fits: (order: number) => boolean) => {
  if (isEmpty(found)) return false;
  const wanted = typeof found === 'number' && typeof value === 'string' ? Number(value) : value;
  return fits(compareValues(found, wanted));
};
const includes = (found: unknown, value: unknown) =>
  Array.isArray(found)
    ? found.some((one) => isEqual(one, value))
    : !isEmpty(found) && lower(found).includes(lower(value));

const operators: Record<string, { label: string; holds: (found: unknown, value: unknown) => boolean }> = {
  equals: { label: 'Equals', holds: isEqual },
  not_equals: { label: 'Does not equal', holds: (found, value) => !isEqual(found, value) },
  contains: { label: 'Contains, in any case of letters', holds: includes },
  not_contains: { label: 'Does not contain', holds: (found, value) => !includes(found, value) },
  starts_with: {
    label: 'Starts with',
    holds: (found, value) => !isEmpty(found) && lower(found).startsWith(lower(value)),
  },
  ends_with: {
    label: 'Ends with',
    holds: (found, value) => !isEmpty(found) && lower(found).endsWith(lower(value)),
  },
  greater_than: {
    label: 'Is greater than',
    holds: (found, value) => isOrdered(found, value, (order) => order > 0),
  },
  at_least: { label: 'Is at least', holds: (found, value) => isOrdered(found, value, (order) => order >= 0) },
  less_than: {
    label: 'Is less than',
    holds: (found, value) => isOrdered(found, value, (order) => order < 0),
  },
  at_most: { label: 'Is at most', holds: (found, value) => isOrdered(found, value, (order) => order <= 0) },
  is_empty: { label: 'Is missing or empty', holds: isEmpty },
  is_not_empty: { label: 'Is not empty', holds: (found) => !isEmpty(found) },
};

export default {
  key: 'list-filter',
  name: 'Filter List',
  version: '0.0.1',
  description:
    'Keeps the items of a list that meet a condition. Example: the field `total`, `greater_than` and `100` keep large orders',
  type: 'action',
  props: {
    items: { type: 'any', label: 'Items', description: 'List to filter' },
    field: fieldProp,
    operator: {
      type: 'string',
      label: 'Condition',
      description: 'What has to be true of the field',
      options: Object.entries(operators).map(([value, { label }]) => ({ label, value })),
    },
    value: {
      type: 'any',
      label: 'Value',
      description: 'Value to compare with; not for `is_empty` and `is_not_empty`',
      optional: true,
    },
  },
  async run(this: { items: unknown; field?: string; operator: string; value?: unknown }, { $ }: ActionRun) {
    const operator = Object.hasOwn(operators, this.operator) ? operators[this.operator] : undefined;
    if (operator === undefined)
      throw badInput('operator', this.operator, `one of ${Object.keys(operators).join(', ')}`);
    const items = listOf('items', this.items);
    const kept = items.filter((item) => operator.holds(fieldOf(item, this.field), this.value));
    $.export('$summary', `Kept ${kept.length} of ${counted(items.length, 'item')}`);
    return kept;
  },
};
