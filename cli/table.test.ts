import assert from 'node:assert/strict';
import { test } from 'node:test';
import { tableLines } from './table.ts';
import { widthOf } from './visible-text.ts';

const columns = [{ title: 'ID', isWhole: true }, { title: 'NAME' }, { title: 'NOTE' }];

test('cells stand below their titles, without spaces at the end of lines', () => {
  assert.deepEqual(
    tableLines(
      columns,
      [
        ['a1', 'first', ''],
        ['b22', 'x', 'y'],
      ],
      80,
    ),
    ['ID   NAME   NOTE', 'a1   first', 'b22  x      y'],
  );
});

test('long cells are cut to the width, ids never, whatever the cells hold', () => {
  const rows = [
    ['dc_0123456789ab', 'n'.repeat(10_000), '日本'.repeat(50)],
    ['dc_0123456789ab', '\u001b]0;title\u0007\u202e', 'two\nlines'],
  ];
  for (const width of [120, 80, 60, 40]) {
    const lines = tableLines(columns, rows, width);
    assert.equal(lines.length, 3);
    for (const line of lines) assert.ok(widthOf(line) <= width, `${widthOf(line)} > ${width}: ${line}`);
    assert.match(lines[1] ?? '', /^dc_0123456789ab {2}n+…/);
  }
});

test('where there is no room for all columns the last ones are left out', () => {
  const lines = tableLines(columns, [['dc_0123456789ab', 'some name', 'some note']], 30);
  assert.match(lines[0] ?? '', /^ID +NAME$/);
});

test('without a terminal nothing is cut', () => {
  const long = 'n'.repeat(10_000);
  assert.ok(tableLines(columns, [['a', long, 'b']], Number.POSITIVE_INFINITY)[1]?.includes(long));
});
