import assert from 'node:assert/strict';
import { test } from 'node:test';
import { JsonText, writeJson } from './write-json.ts';

test('JSON text stands in the output as it is, at any place and as often as it is met', () => {
  const text = new JsonText('{"n":  1e3}');
  assert.equal(
    writeJson({ a: text, list: [text, 'x', new JsonText('null')], not: undefined }),
    '{"a":{"n":  1e3},"list":[{"n":  1e3},"x",null]}',
  );
  assert.equal(writeJson(new JsonText('[]')), '[]');
});

test('values without JSON text are written as JSON.stringify writes them', () => {
  for (const value of [null, 'a "quoted" text', { date: new Date(0), list: [1, [2]] }, []])
    assert.equal(writeJson(value), JSON.stringify(value));
  assert.equal(writeJson(undefined), undefined);
});

test('what looks like the marker of another text stays text', () => {
  const [marker] = JSON.parse(JSON.stringify([new JsonText('1')])) as [string];
  assert.equal(writeJson({ a: marker }), JSON.stringify({ a: marker }), 'nothing was met');
});

test('a write that throws leaves nothing to the next one', () => {
  const broken = {
    toJSON() {
      throw new Error('broken');
    },
  };
  assert.throws(() => writeJson([new JsonText('1'), broken]), /broken/);
  assert.equal(writeJson([new JsonText('2')]), '[2]');
});
