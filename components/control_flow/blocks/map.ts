import { type ActionRun, badInput, counted, listOf } from '../../action.ts';

const itemsMax = 10_000;

export default {
  key: 'control_flow-map',
  name: 'Map',
  version: '0.0.1',
  description: 'Lists the items for each of which the steps of the block run',
  type: 'action',
  props: { items: { type: 'any', label: 'Items' } },
  run(this: { items: unknown }, { $ }: ActionRun) {
    const items = listOf('items', this.items);
    if (items.length > itemsMax)
      throw badInput('items', counted(items.length, 'item'), `at most ${counted(itemsMax, 'item')}`);
    // JSON has no undefined, and an item must keep its place.
    $.export(
      'items',
      items.map((item) => item ?? null),
    );
    $.export('$summary', counted(items.length, 'item'));
  },
};
