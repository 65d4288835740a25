import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { cut, visible, visibleJson, visibleLines, widthOf } from './visible-text.ts';

const controls = /[\p{Cc}\p{Bidi_Control}]/u;

test('what a terminal would obey is shown instead', () => {
  assert.equal(visible('a\u001b[2Jb'), 'a\\x1b[2Jb');
  assert.equal(visible('\u009b31m'), '\\x9b31m');
  assert.equal(visible('gnp\u202efdp.exe'), 'gnp\\u202efdp.exe');
  assert.equal(visible('line\nnext\ttab\rback'), 'line\\nnext\\ttab\\rback');
  assert.equal(visible('zero\u200bwidth'), 'zero\\u200bwidth');
  assert.equal(visible('half \ud800'), 'half \\ud800');
  assert.equal(visible('Grüße, 日本, שלום 👍🏽'), 'Grüße, 日本, שלום 👍🏽');
});

test('lines stay lines, and nothing else does', () => {
  assert.equal(visibleLines('a\r\nb\tc\rd\u0007'), 'a\nb\tc\\rd\\x07');
});

test('no text gets a control or a mark of direction through', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      assert.doesNotMatch(visible(text), controls);
      assert.doesNotMatch(visibleLines(text).replaceAll(/[\n\t]/g, ''), controls);
    }),
  );
});

test('JSON stays the same JSON, without controls and marks', () => {
  fc.assert(
    fc.property(fc.jsonValue({ stringUnit: 'binary' }), (value) => {
      const text = visibleJson(value, 0);
      assert.deepEqual(JSON.parse(text), JSON.parse(JSON.stringify(value)));
      assert.doesNotMatch(text, controls);
    }),
  );
});

test('a text is cut to the columns that it may take, wide characters counted as two', () => {
  assert.equal(cut('abcdef', 4), 'abc…');
  assert.equal(cut('abcd', 4), 'abcd');
  assert.equal(widthOf(cut('日本日本日本', 5)), 5);
  assert.equal(widthOf(cut('x'.repeat(10_000), 40)), 40);
});
