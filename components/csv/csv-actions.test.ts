import { testActions } from '../../test/support/test-actions.ts';

testActions(
  ['csv'],
  [
    [
      'csv-parse',
      { input: '\ufeffid,name\r\n7,"Ada ""A"" L,\nx"\r\n\r\n8\r\n' },
      [{ id: '7', name: 'Ada "A" L,\nx' }, { id: '8' }],
    ],
    ['csv-parse', { input: 'a;b\n1;true', convertTypes: true }, [{ a: 1, b: true }]],
    [
      'csv-parse',
      { input: 'a\tb\n1\t', delimiter: '\\t', header: false },
      [
        ['a', 'b'],
        ['1', ''],
      ],
    ],
    ['csv-parse', { input: 'a\n1' }, [{ a: '1' }]],
    ['csv-parse', { input: '' }, []],
    ['csv-parse', { input: 'a,b\n"1,2' }, /^input: Quoted field unterminated in row 2$/],
    ['csv-parse', { input: 'a,b\n1,2,3' }, /^input: Too many fields.* in row 2$/],
    [
      'csv-parse',
      { input: 'a', delimiter: 'xx' },
      /^delimiter: found "xx", expected one character other than a quote/,
    ],

    [
      'csv-create',
      {
        input: [
          { id: 7, name: 'Ada, "A"' },
          { id: 8, tags: ['x'], none: null },
        ],
      },
      'id,name,tags,none\r\n7,"Ada, ""A""",,\r\n8,,"[""x""]",',
    ],
    ['csv-create', { input: '[{"a":1,"b":2}]', columns: ['b'], delimiter: ';', header: false }, '2'],
    [
      'csv-create',
      {
        input: [
          [1, 2],
          [3, 4],
        ],
      },
      '1,2\r\n3,4',
    ],
    ['csv-create', { input: [{ a: '=1+1' }], escapeFormulas: true }, `a\r\n"'=1+1"`],
    ['csv-create', { input: [7] }, /^input: found 7, expected an object or a list in each place$/],
    ['csv-create', { input: 'text' }, /^input: found "text", expected a list$/],
  ],
);
