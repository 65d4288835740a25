import assert from 'node:assert/strict';
import { testActions } from '../../test/support/test-actions.ts';

const bomb = `<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e0 "boom">${Array.from(
  { length: 9 },
  (_, at) => `<!ENTITY e${at + 1} "${`&e${at};`.repeat(10)}">`,
).join('')}]><x>&e9;</x>`;

testActions(
  ['xml'],
  [
    [
      'xml-parse',
      {
        input:
          '<?xml version="1.0"?><order id="7"><item>Tea &amp; more</item><n>007</n><![CDATA[<b>]]></order>',
      },
      { order: { '@id': '7', item: 'Tea & more', n: '007', '#text': '<b>' } },
    ],
    [
      'xml-parse',
      { input: '<o a="1"><i>2</i></o>', lists: ['i'], attributes: false, convertTypes: true },
      { o: { i: [2] } },
    ],
    ['xml-parse', { input: '<a><b></a>' }, /^input: found no XML \(.*line 1, column \d+\)$/],
    ['xml-parse', { input: ' ' }, /^input: found no XML \(it is empty/],
    [
      'xml-parse',
      { input: '<!DOCTYPE x [<!ENTITY f SYSTEM "file:///etc/passwd">]><x>&f;</x>' },
      /^input: found XML that is refused \(External entities/,
    ],
    [
      'xml-parse',
      { input: bomb },
      (value: { x: string }) => assert.ok(value.x.length < 1000, 'entities are not expanded without bound'),
    ],

    [
      'xml-create',
      { input: { order: { '@id': 7, item: ['Tea & more', 'Cup'], paid: true } } },
      '<?xml version="1.0" encoding="UTF-8"?>\n<order id="7"><item>Tea &amp; more</item><item>Cup</item><paid>true</paid></order>',
    ],
    ['xml-create', { input: '{"a": {"b": 1}}', declaration: false, indent: true }, '<a>\n  <b>1</b>\n</a>\n'],
    [
      'xml-create',
      { input: { a: 1, b: 2 } },
      /^input: found 2 names, expected one, that of the root element$/,
    ],
  ],
);
