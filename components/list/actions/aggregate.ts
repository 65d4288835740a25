import { type ActionRun, badInput, counted, listOf, numberOf } from '../../action.ts';
import { fieldOf, keyOf } from '../field.ts';

const operations: Record<string, { label: string; of: (numbers: number[]) => number | null }> = {
  count: { label: 'Count of items', of: ({ length }) => length },
  sum: { label: 'Sum', of: sum },
  average: {
    label: 'Average',
    of: (numbers) => (numbers.length === 0 ? null : sum(numbers) / numbers.length),
  },
  min: {
    label: 'Smallest',
    of: (numbers) => numbers.reduce<number | null>((a, b) => (a === null || b < a ? b : a), null),
  },
  max: {
    label: 'Largest',
    of: (numbers) => numbers.reduce<number | null>((a, b) => (a === null || b > a ? b : a), null),
  },
};

export default {
  key: 'list-aggregate',
  name: 'Aggregate List',
  version: '0.0.1',
  description:
    'Counts the items of a list, or adds a field of them, for all or for each group. Example: the `sum` of `total` grouped by `country` gives one sum for each country',
  type: 'action',
  props: {
    items: { type: 'any', label: 'Items', description: 'List to aggregate' },
    operation: {
      type: 'string',
      label: 'Operation',
      description: 'What to compute',
      options: Object.entries(operations).map(([value, { label }]) => ({ label, value })),
    },
    field: {
      type: 'string',
      label: 'Field',
      description: 'Field with the number, such as `order.total`; items without it are left out',
      optional: true,
    },
    groupBy: {
      type: 'string',
      label: 'Group by',
      description: 'Field whose values make groups; the result is then a list of groups',
      optional: true,
    },
  },
  async run(this: { items: unknown; operation: string; field?: string; groupBy?: string }, { $ }: ActionRun) {
    const { field, groupBy } = this;
    const operation = Object.hasOwn(operations, this.operation) ? operations[this.operation] : undefined;
    if (operation === undefined)
      throw badInput('operation', this.operation, `one of ${Object.keys(operations).join(', ')}`);
    const items = listOf('items', this.items);
    const compute = (of: unknown[]) =>
      operation.of(this.operation === 'count' ? of.map(() => 1) : numbersOf(of, field));
    if (groupBy === undefined || groupBy === '') {
      const result = compute(items);
      $.export('$summary', `The ${this.operation} of ${counted(items.length, 'item')} is ${result}`);
      return result;
    }
    const groups = Map.groupBy(items, (item) => keyOf(fieldOf(item, groupBy) ?? null));
    $.export('$summary', `Aggregated ${counted(items.length, 'item')} in ${counted(groups.size, 'group')}`);
    return [...groups.values()].map((of) => ({
      group: fieldOf(of[0], groupBy) ?? null,
      count: of.length,
      value: compute(of),
    }));
  },
};

function numbersOf(items: unknown[], field: string | undefined): number[] {
  return items
    .map((item) => fieldOf(item, field))
    .filter((value) => value !== undefined && value !== null && value !== '')
    .map((value) => numberOf(field ?? 'items', value));
}

/** Sums of decimals as they are written: 0.1 and 0.2 make 0.3. */
function sum(numbers: number[]): number {
  return Number(numbers.reduce((a, b) => a + b, 0).toPrecision(15));
}
