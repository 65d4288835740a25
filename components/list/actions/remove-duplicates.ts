import { type ActionRun, counted, listOf } from '../../action.ts';
import { fieldOf, fieldProp, keyOf } from '../field.ts';

export default {
  key: 'list-remove-duplicates',
  name: 'Remove Duplicates from List',
  version: '0.0.1',
  description:
    'Keeps the first of the items that are equal, or that have an equal field. Example: `["a", "b", "a"]` becomes `["a", "b"]`',
  type: 'action',
  props: {
    items: { type: 'any', label: 'Items', description: 'List with duplicates' },
    field: fieldProp,
  },
  async run(this: { items: unknown; field?: string }, { $ }: ActionRun) {
    const items = listOf('items', this.items);
    const byKey = new Map<string, unknown>();
    for (const item of items) {
      const value = fieldOf(item, this.field);
      const key = `${typeof value} ${keyOf(value)}`;
      if (!byKey.has(key)) byKey.set(key, item);
    }
    $.export('$summary', `Removed ${counted(items.length - byKey.size, 'duplicate')}`);
    return [...byKey.values()];
  },
};
