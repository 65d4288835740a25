import { type ActionRun, badInput, counted, listOf } from '../../action.ts';

export default {
  key: 'list-split-into-batches',
  name: 'Split List into Batches',
  version: '0.0.1',
  description:
    'Splits a list into lists of a size at most, for services that take a number of items at once. Example: `[1, 2, 3]` with the size 2 becomes `[[1, 2], [3]]`',
  type: 'action',
  props: {
    items: { type: 'any', label: 'Items', description: 'List to split' },
    size: { type: 'integer', label: 'Size', description: 'Items of a batch at most', min: 1, default: 100 },
  },
  async run(this: { items: unknown; size: number }, { $ }: ActionRun) {
    const { size } = this;
    const items = listOf('items', this.items);
    if (!Number.isInteger(size) || size < 1) throw badInput('size', size, 'an integer of at least 1');
    const batches = [];
    for (let at = 0; at < items.length; at += size) batches.push(items.slice(at, at + size));
    $.export('$summary', `Split ${counted(items.length, 'item')} into ${batches.length}`);
    return batches;
  },
};
