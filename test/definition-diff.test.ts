import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  type Compared,
  type ComparedStep,
  compare,
  sentencesOf,
} from '../dashboard/src/editing/definition-diff.ts';
import { diffLines, hunksOf } from '../dashboard/src/editing/line-diff.ts';

/** `-a` for a removed line, `+a` for an added one. */
function marks(before: string, after: string): string[] {
  const signs = { same: ' ', removed: '-', added: '+' };
  return diffLines(before, after).map(({ kind, text }) => `${signs[kind]}${text}`);
}

test('the lines of two texts are marked as kept, removed and added', () => {
  assert.deepEqual(marks('a\nb\nc', 'a\nx\nc'), [' a', '-b', '+x', ' c']);
  assert.deepEqual(marks('a\nb', 'b\na'), ['-a', ' b', '+a']);
  assert.deepEqual(marks('a', 'a'), [' a']);
});

test('a difference gives back both texts, with as few changed lines as there can be', () => {
  const text = fc
    .array(fc.constantFrom('a', 'b', 'c', 'd'), { maxLength: 14 })
    .map((lines) => lines.join('\n'));
  fc.assert(
    fc.property(text, text, (before, after) => {
      const lines = diffLines(before, after);
      const of = (other: string) =>
        lines
          .filter(({ kind }) => kind !== other)
          .map((line) => line.text)
          .join('\n');
      assert.equal(of('added'), before);
      assert.equal(of('removed'), after);
      const kept = lines.filter(({ kind }) => kind === 'same').length;
      assert.equal(kept, longestCommon(before.split('\n'), after.split('\n')));
    }),
  );
});

/** By the textbook's table. */
function longestCommon(a: string[], b: string[]): number {
  let row = Array<number>(b.length + 1).fill(0);
  for (const one of a) {
    const next = [0];
    for (const [index, other] of b.entries())
      next.push(one === other ? (row[index] ?? 0) + 1 : Math.max(row[index + 1] ?? 0, next[index] ?? 0));
    row = next;
  }
  return row.at(-1) ?? 0;
}

test('texts that have nothing in common are one replaced by the other, however long', () => {
  const many = (word: string) => Array.from({ length: 4_000 }, (_, index) => `${word} ${index}`).join('\n');
  const lines = diffLines(many('old'), many('new'));
  assert.equal(lines.length, 8_000);
  assert.ok(lines.slice(0, 4_000).every(({ kind }) => kind === 'removed'));
});

test('of lines that did not change only some around the others are shown', () => {
  const before = Array.from({ length: 20 }, (_, index) => `${index}`);
  const shown = hunksOf(diffLines(before.join('\n'), before.with(10, 'x').join('\n')), 2);
  assert.deepEqual(
    shown.map((line) => line?.text),
    [undefined, '8', '9', '10', 'x', '11', '12', undefined],
  );
});

const step = (namespace: string, more: Partial<ComparedStep> = {}): ComparedStep => ({
  namespace,
  disabled: false,
  note: '',
  made: 'custom code',
  code: 'run',
  props: {},
  ...more,
});
const definition = (...steps: ComparedStep[]): Compared => ({ steps, settings: { memory_mb: 256 } });

test('definitions differ by step: added, removed, moved, changed', () => {
  const told = (before: Compared, after: Compared) => sentencesOf(compare(before, after));
  const [a, b, c] = [step('a'), step('b'), step('c')];
  assert.deepEqual(told(definition(a, b, c), definition(a, b, c)), []);
  assert.deepEqual(told(definition(a, b), definition(b)), ['Step a is gone.']);
  assert.deepEqual(told(definition(b), definition(a, b)), ['Step a is new.'], 'b did not move');
  assert.deepEqual(told(definition(a, b, c), definition(c, a, b)), [
    'Step c changed: moved from place 3 to 1.',
  ]);
  assert.deepEqual(told(definition(a), definition(step('a', { note: 'why' }))), ['Step a changed: note.']);
  assert.deepEqual(
    told(
      definition(step('a', { props: { x: { p: 1, q: 2 }, y: 1 } }), b),
      definition(step('a', { props: { y: 2, x: { q: 2, p: 1 } }, disabled: true, code: 'other' }), b),
    ),
    ['Step a changed: code, props, now disabled.'],
  );
  assert.deepEqual(told({ steps: [], settings: { a: 1 } }, { steps: [], settings: { b: 2 } }), [
    'Setting a: 1 became nothing.',
    'Setting b: nothing became 2.',
  ]);
});
