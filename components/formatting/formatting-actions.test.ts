import { testActions } from '../../test/support/test-actions.ts';

const html =
  '<html><head><title>T</title><style>p{}</style></head><body><h1>News</h1><p>A &amp; <b>B</b> <a href="https://example.com/x">here</a></p><ul><li>one</li><li>two</li></ul><script>alert(1)</script></body></html>';
const long = `${'a'.repeat(60_000)} ${'1'.repeat(60_000)} `;

testActions(
  ['formatting'],
  [
    ['formatting-trim-whitespace', { input: '\t hello \n' }, 'hello'],
    ['formatting-trim-whitespace', { input: 7 }, '7'],
    ['formatting-trim-whitespace', { input: { a: 1 } }, /^input: found an object, expected a text$/],

    ['formatting-transform-case', { input: 'ada lovelace', operation: 'Capitalize' }, 'Ada Lovelace'],
    [
      'formatting-transform-case',
      { input: 'THE END of the day', operation: 'Titlecase' },
      'The End of the Day',
    ],
    ['formatting-transform-case', { input: 'child', operation: 'Pluralize' }, 'children'],
    ['formatting-transform-case', { input: 'straße', operation: 'Uppercase' }, 'STRASSE'],
    ['formatting-transform-case', { input: 'ÀB', operation: 'Lowercase' }, 'àb'],
    ['formatting-transform-case', { input: '"HELLO You"', operation: 'Sentencecase' }, '"Hello you"'],
    ['formatting-transform-case', { input: 'Order id-2', operation: 'Camelcase' }, 'orderId2'],
    ['formatting-transform-case', { input: 'orderId of you', operation: 'Snakecase' }, 'order_id_of_you'],
    ['formatting-transform-case', { input: 'Hello, World!', operation: 'Kebabcase' }, 'hello-world'],
    [
      'formatting-transform-case',
      { input: 'x', operation: 'constructor' },
      /^operation: found "constructor", expected one of Capitalize, /,
    ],

    ['formatting-replace-text', { input: 'a.b.c', findText: '.', replaceText: '$&' }, 'a$&b$&c'],
    [
      'formatting-replace-text',
      { input: 'room 12, 7', findText: '/(\\d+)/', replaceText: '#$1' },
      'room #12, #7',
    ],
    ['formatting-replace-text', { input: 'Colour COLOR', findText: '/colou?r/gi' }, ' '],
    ['formatting-replace-text', { input: 'abc', findText: '' }, 'abc'],
    [
      'formatting-replace-text',
      { input: 'abc', findText: '/(/' },
      /^findText: found no regular expression \(.*Unterminated group/,
    ],

    ['formatting-split-text', { input: 'a,b,c', separator: ',' }, ['a', 'b', 'c']],
    ['formatting-split-text', { input: 'a,b,c', separator: ',', segmentIndex: 999 }, ['a', 'b', 'c']],
    ['formatting-split-text', { input: 'a,b,c', separator: ',', segmentIndex: -999 }, 'a'],
    ['formatting-split-text', { input: 'a,b,c', separator: ',', segmentIndex: 1 }, 'b'],
    ['formatting-split-text', { input: 'a; b,c', separator: '/[,;] ?/', segmentIndex: -2 }, 'b'],
    ['formatting-split-text', { input: 'a', separator: ',', segmentIndex: 5 }, null],
    [
      'formatting-split-text',
      { input: 'a', separator: ',', segmentIndex: 'x' },
      /^segmentIndex: found "x", expected an integer$/,
    ],

    [
      'formatting-extract-by-regular-expression',
      { input: '3 items, 12 Items', regExpString: '/(?<n>\\d+) (items)/i' },
      [
        {
          match: '3 items',
          groups: ['3', 'items'],
          namedGroups: { n: '3' },
          startPosition: 0,
          endPosition: 7,
        },
        {
          match: '12 Items',
          groups: ['12', 'Items'],
          namedGroups: { n: '12' },
          startPosition: 9,
          endPosition: 17,
        },
      ],
    ],
    ['formatting-extract-by-regular-expression', { input: 'none', regExpString: '\\d' }, []],
    [
      'formatting-extract-by-regular-expression',
      { input: 'x', regExpString: '[' },
      /^regExpString: found no regular expression/,
    ],

    [
      'formatting-extract-email-address',
      { input: 'Ada <ada.l+x@mail.example.com>, b@c.de' },
      'ada.l+x@mail.example.com',
    ],
    ['formatting-extract-email-address', { input: 'a@b.de, c@d.org.', all: true }, ['a@b.de', 'c@d.org']],
    ['formatting-extract-email-address', { input: `${long}@` }, null],
    [
      'formatting-extract-url',
      { input: 'see (https://example.com/a?b=1#c).' },
      'https://example.com/a?b=1#c',
    ],
    [
      'formatting-extract-url',
      { input: 'http://a.de <https://b.de>', all: true },
      ['http://a.de', 'https://b.de'],
    ],
    ['formatting-extract-url', { input: long }, null],
    ['formatting-extract-number', { input: 'Total: -1,250.50 EUR of 3' }, '-1,250.50'],
    ['formatting-extract-number', { input: 'A1 has 2.5 and 3.', all: true }, ['1', '2.5', '3']],
    ['formatting-extract-phone-number', { input: 'call (123) 456-7890 now' }, '(123) 456-7890'],
    ['formatting-extract-phone-number', { input: 'in 2026: +49 30 901820' }, '+49 30 901820'],
    [
      'formatting-extract-phone-number',
      { input: 'on 12-34, 123-456-7890', format: '(?:\\(\\d{3}\\)\\s?|\\d{3}-)\\d{3}-\\d{4}' },
      '123-456-7890',
    ],
    ['formatting-extract-phone-number', { input: 'x', format: '(' }, /^format: found no regular expression/],
    ['formatting-extract-phone-number', { input: long, all: true }, []],

    ['formatting-url-encode', { input: 'a b&ü\ud800' }, 'a%20b%26%C3%BC%EF%BF%BD'],
    ['formatting-url-decode', { input: 'a%20b%26%C3%BC' }, 'a b&ü'],
    [
      'formatting-url-decode',
      { input: '100%' },
      /^input: found "100%", expected a text in which each % begins/,
    ],
    ['formatting-set-default-value', { input: ' ', defaultValue: 'friend' }, 'friend'],
    ['formatting-set-default-value', { defaultValue: 'friend' }, 'friend'],
    ['formatting-set-default-value', { input: 'undefined', defaultValue: 7 }, 7],
    ['formatting-set-default-value', { input: 0, defaultValue: 7 }, 0],

    [
      'formatting-convert-markdown-to-html',
      { input: '**hi**\n\n| a |\n|---|\n| b |' },
      '<p><strong>hi</strong></p>\n<table>\n<thead>\n<tr>\n<th>a</th>\n</tr>\n</thead>\n<tbody><tr>\n<td>b</td>\n</tr>\n</tbody></table>',
    ],
    [
      'formatting-convert-html-to-markdown',
      { input: html },
      '# News\n\nA & **B** [here](https://example.com/x)\n\n-   one\n-   two',
    ],
    ['formatting-convert-html-to-text', { input: html }, 'News\n\nA & B here\n\n-   one\n-   two'],
    ['formatting-convert-html-to-text', { input: 'a * b_c <br>2' }, 'a * b_c\n2'],
    ['formatting-convert-html-to-text', { input: '' }, ''],

    ['formatting-format-number', { input: '1234567.80', toFormat: ',.' }, '1,234,567.80'],
    [
      'formatting-format-number',
      { input: '-1.234.567,8', inputDecimalMark: ',', toFormat: ' .' },
      '-1 234 567.8',
    ],
    ['formatting-format-number', { input: 0.0000001, toFormat: '.,' }, '0,0000001'],
    [
      'formatting-format-number',
      { input: '12345678901234567890', toFormat: '.,' },
      '12.345.678.901.234.567.890',
    ],
    [
      'formatting-format-number',
      { input: 'twelve', toFormat: '.,' },
      /^input: found "twelve", expected a number with the decimal mark \.$/,
    ],
    [
      'formatting-format-number',
      { input: '1', toFormat: ',' },
      /^toFormat: found ",", expected two characters/,
    ],
    ['formatting-format-currency', { input: '1250.5', currency: 'USD' }, '$1,250.50'],
    [
      'formatting-format-currency',
      { input: '-1,250.555', currency: 'eur', currencyFormat: '#,##0.00 ¤¤' },
      '-1,250.56 EUR',
    ],
    [
      'formatting-format-currency',
      { input: 1000, currency: 'JPY', currencyFormat: '¤###0.00 ¤¤¤' },
      '¥1000.00 Japanese Yen',
    ],
    ['formatting-format-currency', { input: '-0.001', currency: 'USD' }, '$0.00'],
    [
      'formatting-format-currency',
      { input: '1', currency: 'dollars' },
      /^currency: found "dollars", expected an ISO 4217 code/,
    ],
    [
      'formatting-format-currency',
      { input: '', currency: 'USD' },
      /^input: found nothing, expected a number/,
    ],

    [
      'formatting-date-time-format',
      { inputDate: '2026-01-22T23:04:05Z', outputFormat: 'MMM DD YYYY' },
      'Jan 22 2026',
    ],
    [
      'formatting-date-time-format',
      { inputDate: '2026-01-22T23:04:05Z', timezone: 'Asia/Tokyo', outputFormat: 'YYYY-MM-DDTHH:mm:ssZ' },
      '2026-01-23T08:04:05+09:00',
    ],
    [
      'formatting-date-time-format',
      { inputDate: '2026-07-01 10:00', timezone: 'Europe/Berlin', outputFormat: 'Unix time (seconds)' },
      1_782_892_800,
    ],
    [
      'formatting-date-time-format',
      { inputDate: '1137971045', outputFormat: 'ddd MMM DD HH:mm:ss Z YYYY' },
      'Sun Jan 22 23:04:05 +00:00 2006',
    ],
    [
      'formatting-date-time-format',
      { inputDate: 1_137_971_045_000, outputFormat: 'dddd, [the] D.M.YY h:mm a' },
      'Sunday, the 22.1.06 11:04 pm',
    ],
    [
      'formatting-date-time-format',
      { inputDate: '22/01/06', inputFormat: 'DD/MM/YY', outputFormat: '{yyyy}-{MM}-{dd} {Weekday}' },
      '2006-01-22 Sunday',
    ],
    [
      'formatting-date-time-format',
      {
        inputDate: 'January 22 2006 23:04:05',
        inputFormat: 'MMMM DD YYYY HH:mm:ss',
        outputFormat: 'Unix time (milliseconds)',
      },
      1_137_971_045_000,
    ],
    [
      'formatting-date-time-format',
      {
        inputDate: '22.1.2006 1:30 PM +0200',
        inputFormat: 'D.M.YYYY h:mm A ZZ',
        outputFormat: 'YYYY-MM-DD HH:mm:ss Z',
      },
      '2006-01-22 11:30:00 +00:00',
    ],
    [
      'formatting-date-time-format',
      { inputDate: 'Thu, 22 Jan 2026 10:00:00 GMT', outputFormat: 'YYYY-MM-DD HH' },
      '2026-01-22 10',
    ],
    [
      'formatting-date-time-format',
      { inputDate: '31-02-2026', inputFormat: 'DD-MM-YYYY', outputFormat: 'DD' },
      /^inputDate: found "31-02-2026", expected a date in the format DD-MM-YYYY$/,
    ],
    [
      'formatting-date-time-format',
      { inputDate: 'soon', outputFormat: 'DD' },
      /^inputDate: found "soon", expected a date such as/,
    ],
    [
      'formatting-date-time-format',
      { inputDate: '2026-01-01', timezone: 'Mars', outputFormat: 'DD' },
      /^timezone: found "Mars", expected the name of a time zone/,
    ],
    [
      'formatting-date-time-format',
      { inputDate: '2026-01-01', outputFormat: '{year}' },
      /^format: found "\{year\}", expected one of \{yyyy\}/,
    ],
    [
      'formatting-date-time-format',
      { inputDate: '10:00', inputFormat: 'HH:mm', outputFormat: 'DD' },
      /^inputFormat: found HH:mm, expected a format with a year$/,
    ],

    [
      'formatting-add-subtract-time',
      { inputDate: '2026-01-31', operation: 'Add', duration: '1d', outputFormat: 'YYYY-MM-DD' },
      '2026-02-01',
    ],
    [
      'formatting-add-subtract-time',
      { inputDate: '31-01-2026', inputFormat: 'DD-MM-YYYY', operation: 'Add', duration: '1 month' },
      '28-02-2026',
    ],
    [
      'formatting-add-subtract-time',
      { inputDate: '2026-01-22T00:00:00Z', operation: 'Subtract', duration: '1w 12h, 30 minutes' },
      '2026-01-14T11:30:00+00:00',
    ],
    [
      'formatting-add-subtract-time',
      { inputDate: '2026-03-28 12:00', timezone: 'Europe/Berlin', operation: 'Add', duration: 'P1D' },
      '2026-03-29T12:00:00+02:00',
    ],
    [
      'formatting-add-subtract-time',
      { inputDate: '2026-01-22', operation: 'Add', duration: '1 fortnight' },
      /^duration: found "1 fortnight", expected a duration such as 1d 12h/,
    ],
    [
      'formatting-add-subtract-time',
      { inputDate: '2026-01-22', operation: 'Add', duration: '' },
      /^duration: found nothing, expected/,
    ],
    [
      'formatting-add-subtract-time',
      { inputDate: '2026-01-22', operation: 'Plus', duration: '1d' },
      /^operation: found "Plus", expected Add or Subtract$/,
    ],

    [
      'formatting-compare-dates',
      { inputDate: '2026-01-24T01:00:05', endDate: '2026-01-22' },
      {
        datesSwapped: true,
        result: '2 days, 1 hour, 5 seconds',
        totalDays: 176_405 / 86_400,
        totalHours: 176_405 / 3600,
        totalMinutes: 176_405 / 60,
        totalSeconds: 176_405,
      },
    ],
    [
      'formatting-compare-dates',
      { inputDate: '22/01/2026', endDate: '22/01/2026', inputFormat: 'DD/MM/YYYY' },
      { datesSwapped: false, result: 'equal', totalDays: 0, totalHours: 0, totalMinutes: 0, totalSeconds: 0 },
    ],
    ['formatting-compare-dates', { inputDate: '2026-01-22', endDate: 'later' }, /^endDate: found "later"/],

    ['formatting-parse-json', { input: '{"id": [7, null]}' }, { id: [7, null] }],
    ['formatting-parse-json', { input: { id: 7 } }, { id: 7 }],
    ['formatting-parse-json', { input: '{"id": ' }, /^input: found no JSON \(/],
    ['formatting-convert-json-to-string', { input: { id: 7 } }, '{"id":7}'],
    ['formatting-convert-json-to-string', { input: '[1, 2]', indent: 2 }, '[\n  1,\n  2\n]'],
  ],
);
