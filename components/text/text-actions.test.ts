import { testActions } from '../../test/support/test-actions.ts';

const data = { name: 'Ada <b>', items: ['Tea', 'Cup'], customer: { city: 'Bern "CH"' } };

testActions(
  ['text'],
  [
    ['text-truncate', { input: 'Hello dear world', length: 11 }, 'Hello dear…'],
    ['text-truncate', { input: 'Hello dear world', length: 13 }, 'Hello dear…'],
    ['text-truncate', { input: 'Hello dear', length: 8, keepWords: false, ending: '...' }, 'Hello...'],
    ['text-truncate', { input: '👩‍👩‍👧👩‍👩‍👧👩‍👩‍👧', length: 2 }, '👩‍👩‍👧…'],
    ['text-truncate', { input: 'short', length: 5 }, 'short'],
    ['text-truncate', { input: 'x', length: 0 }, /^length: found 0, expected an integer of at least 1$/],

    [
      'text-render-template',
      { template: 'Hello [[name]]![[#items]] [[.]][[/items]][[^none]] no[[/none]] [[customer.city]]', data },
      'Hello Ada <b>! Tea Cup no Bern "CH"',
    ],
    [
      'text-render-template',
      { template: '<p>[[name]] [[&name]]</p>', data, escape: 'html' },
      '<p>Ada &lt;b&gt; Ada <b></p>',
    ],
    [
      'text-render-template',
      { template: '{"c": "<% customer.city %>"}', data, escape: 'json', delimiters: 'percent' },
      '{"c": "Bern \\"CH\\""}',
    ],
    [
      'text-render-template',
      { template: '{{["{", "{name}", "}[[name]]"].join("")}}', data: '{"name": "x"}', delimiters: 'braces' },
      'x[[name]]',
    ],
    ['text-render-template', { template: '[[#items]]', data }, /^template: Unclosed section "items"/],
    [
      'text-render-template',
      { template: '', data, escape: 'sql' },
      /^escape: found "sql", expected one of none, html, json$/,
    ],
  ],
);
