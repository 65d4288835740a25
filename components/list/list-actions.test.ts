import { testActions } from '../../test/support/test-actions.ts';

const orders = [
  { id: 1, total: 30, customer: { country: 'DE' }, tags: ['new'] },
  { id: 2, total: 7.5, customer: { country: 'CH' } },
  { id: 3, total: 120, customer: { country: 'DE' } },
  { id: 4, customer: {} },
];
const ids = (list: unknown) => (list as { id: number }[]).map(({ id }) => id).join();
const keeps = (wanted: string) => (list: unknown) => {
  if (ids(list) !== wanted) throw new Error(`kept ${ids(list)}, expected ${wanted}`);
};

testActions(
  ['list'],
  [
    ['list-split-into-batches', { items: [1, 2, 3], size: 2 }, [[1, 2], [3]]],
    ['list-split-into-batches', { items: '[]' }, []],
    [
      'list-split-into-batches',
      { items: [1], size: 0 },
      /^size: found 0, expected an integer of at least 1$/,
    ],
    ['list-split-into-batches', { items: { a: 1 }, size: 1 }, /^items: found an object, expected a list$/],

    ['list-sort', { items: [10, 9, null, 2] }, [2, 9, 10, null]],
    ['list-sort', { items: ['b10', 'B2', 'a'], direction: 'descending' }, ['b10', 'B2', 'a']],
    ['list-sort', { items: orders, field: 'total', direction: 'descending' }, keeps('3,1,2,4')],
    [
      'list-sort',
      { items: [], direction: 'up' },
      /^direction: found "up", expected ascending or descending$/,
    ],

    [
      'list-remove-duplicates',
      { items: ['a', 1, 'b', 'a', '1', { x: 1 }, { x: 1 }] },
      ['a', 1, 'b', '1', { x: 1 }],
    ],
    ['list-remove-duplicates', { items: orders, field: 'customer.country' }, keeps('1,2,4')],

    ['list-filter', { items: orders, field: 'total', operator: 'greater_than', value: '8' }, keeps('1,3')],
    ['list-filter', { items: orders, field: 'total', operator: 'at_most', value: 30 }, keeps('1,2')],
    [
      'list-filter',
      { items: orders, field: 'customer.country', operator: 'equals', value: 'DE' },
      keeps('1,3'),
    ],
    [
      'list-filter',
      { items: orders, field: 'customer.country', operator: 'not_equals', value: 'DE' },
      keeps('2,4'),
    ],
    ['list-filter', { items: orders, field: 'customer.country', operator: 'is_empty' }, keeps('4')],
    ['list-filter', { items: orders, field: 'tags', operator: 'contains', value: 'new' }, keeps('1')],
    ['list-filter', { items: orders, field: 'constructor', operator: 'is_not_empty' }, []],
    ['list-filter', { items: ['Tea pot', 'cup'], operator: 'starts_with', value: 'tea' }, ['Tea pot']],
    ['list-filter', { items: ['Tea pot', 'cup'], operator: 'not_contains', value: 'POT' }, ['cup']],
    [
      'list-filter',
      { items: ['2026-01-09', '2026-02-01'], operator: 'less_than', value: '2026-01-31' },
      ['2026-01-09'],
    ],
    ['list-filter', { items: [], operator: 'like' }, /^operator: found "like", expected one of equals, /],

    ['list-aggregate', { items: orders, operation: 'count' }, 4],
    ['list-aggregate', { items: [0.1, '0.2'], operation: 'sum' }, 0.3],
    ['list-aggregate', { items: orders, operation: 'average', field: 'total' }, 52.5],
    ['list-aggregate', { items: orders, operation: 'max', field: 'total' }, 120],
    ['list-aggregate', { items: [], operation: 'min' }, null],
    [
      'list-aggregate',
      { items: orders, operation: 'sum', field: 'total', groupBy: 'customer.country' },
      [
        { group: 'DE', count: 2, value: 150 },
        { group: 'CH', count: 1, value: 7.5 },
        { group: null, count: 1, value: 0 },
      ],
    ],
    ['list-aggregate', { items: ['many'], operation: 'sum' }, /^items: found "many", expected a number$/],
    [
      'list-aggregate',
      { items: [], operation: 'median' },
      /^operation: found "median", expected one of count, sum/,
    ],
  ],
);
