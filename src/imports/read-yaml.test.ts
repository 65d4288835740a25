import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readYaml } from './read-yaml.ts';

const lines = (count: number, line: (at: number) => string) =>
  Array.from({ length: count }, (_, at) => line(at)).join('\n');

test('a key that stands twice in a mapping is refused, at any depth', () => {
  assert.throws(() => readYaml('a: 1\nb: 2\na: 3\n'), { message: 'Map keys must be unique' });
  assert.throws(() => readYaml('a:\n- b: {c: 1, "c": 2}\n'), { message: 'Map keys must be unique' });
  assert.deepEqual(readYaml('a: {b: 1}\nb: {b: 1}\n'), { a: { b: 1 }, b: { b: 1 } });
});

test('anchors and aliases are bounded', () => {
  assert.deepEqual(readYaml('a: &one [1]\nb: *one\n'), { a: [1], b: [1] });
  assert.throws(() => readYaml(lines(501, (at) => `- &a${at} x`)), { message: /more than 500 anchors/ });
  assert.throws(() => readYaml(`- &a x\n${lines(501, () => '- *a')}`), { message: /more than 500 aliases/ });
});
