import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { jsonObjectText, jsonText } from './frame-fields.ts';
import { ProtocolError } from './protocol.ts';

const nested = (levels: number) => '['.repeat(levels) + ']'.repeat(levels);

describe('the text of a value from a process', () => {
  test('has at most 2,000 levels where it is long, because brackets alone take long to parse', () => {
    const long = 'x'.repeat(40_000);
    assert.equal(jsonText(`["${long}",${nested(1999)}]`).length, 40_000 + 2 * 1999 + 5);
    assert.throws(() => jsonText(`["${long}",${nested(2000)}]`), ProtocolError);
    assert.throws(() => jsonText(nested(200_000)), /more than 2000 levels/);
    assert.throws(() => jsonObjectText(`{"a":${nested(200_000)}}`), /more than 2000 levels/);
  });

  test('is JSON', () => {
    assert.throws(() => jsonText('{'), ProtocolError);
    assert.throws(() => jsonObjectText('[]'), ProtocolError);
    assert.equal(jsonObjectText('{"a":1}'), '{"a":1}');
  });
});
