import { type ActionRun, badInput, counted, listOf } from '../../action.ts';
import { compareValues, fieldOf, fieldProp } from '../field.ts';

export default {
  key: 'list-sort',
  name: 'Sort List',
  version: '0.0.1',
  description:
    'Sorts a list by a field of its items; items without the field come last. Example: orders by `total`, descending, begin with the largest',
  type: 'action',
  props: {
    items: { type: 'any', label: 'Items', description: 'List to sort' },
    field: fieldProp,
    direction: {
      type: 'string',
      label: 'Direction',
      description: 'Which items come first',
      optional: true,
      default: 'ascending',
      options: ['ascending', 'descending'],
    },
  },
  async run(this: { items: unknown; field?: string; direction?: string }, { $ }: ActionRun) {
    const { field, direction = 'ascending' } = this;
    if (direction !== 'ascending' && direction !== 'descending')
      throw badInput('direction', direction, 'ascending or descending');
    const items = listOf('items', this.items);
    const isMissing = (item: unknown) => (fieldOf(item, field) ?? null) === null;
    const [missing, present] = [items.filter(isMissing), items.filter((item) => !isMissing(item))];
    const sign = direction === 'ascending' ? 1 : -1;
    present.sort((a, b) => sign * compareValues(fieldOf(a, field), fieldOf(b, field)));
    $.export('$summary', `Sorted ${counted(items.length, 'item')}`);
    return [...present, ...missing];
  },
};
