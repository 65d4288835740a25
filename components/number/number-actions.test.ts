import assert from 'node:assert/strict';
import { testActions } from '../../test/support/test-actions.ts';

testActions(
  ['number'],
  [
    ['number-round', { input: 2.345, decimals: 2 }, 2.35],
    ['number-round', { input: '1.005', decimals: 2 }, 1.01],
    ['number-round', { input: -2.5 }, -3],
    ['number-round', { input: 2.5, mode: 'even' }, 2],
    ['number-round', { input: -0.4, mode: 'up' }, 0],
    ['number-round', { input: 7.9, mode: 'down' }, 7],
    ['number-round', { input: 'many' }, /^input: found "many", expected a number$/],
    [
      'number-round',
      { input: 1, mode: 'sideways' },
      /^mode: found "sideways", expected one of nearest, even, up, down$/,
    ],
    ['number-round', { input: 1, decimals: 99 }, /^decimals: found 99, expected an integer from 0 to 15$/],

    ['number-parse', { input: '€ 1.250,50', decimalMark: ',' }, 1250.5],
    ['number-parse', { input: 'USD 1,250.50' }, 1250.5],
    ['number-parse', { input: '-7 %' }, -0.07],
    ['number-parse', { input: 'none' }, /^input: found "none", expected a number with the decimal mark \.$/],

    [
      'number-generate-random',
      { min: 3, max: 5 },
      (value: unknown) => assert.ok([3, 4, 5].includes(value as number), String(value)),
    ],
    ['number-generate-random', { min: 7, max: 7 }, 7],
    ['number-generate-random', { min: 5, max: 3 }, /^max: found 3, expected an integer from 5/],
  ],
);
