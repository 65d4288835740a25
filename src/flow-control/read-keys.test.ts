import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { plainPath } from './flow-control.ts';
import { hasCode, keysFrom, plainValues } from './read-keys.ts';

const customer = '{{steps.trigger.event.customer}}';
const keyOf = (event: unknown, key = customer) => {
  const flow = { concurrency: { limit: 1, key } };
  const keys = keysFrom(flow, plainValues(flow, JSON.stringify(event)), { bytes: 0, repeats: false });
  return [keys.concurrency, keys.warning];
};

describe('keys of events', () => {
  test('a path into the event is read without evaluating anything; all else is code', () => {
    const paths: [string, string[] | undefined][] = [
      ['{{steps.trigger.event.body.customer}}', ['body', 'customer']],
      ['{{ event.items[0]?.id }}', ['items', '0', 'id']],
      [`{{steps.trigger.event["a key"]['b']}}`, ['a key', 'b']],
      ['{{steps.trigger.event}}', []],
      ['{{steps.trigger.event.a()}}', undefined],
      ['{{steps.trigger.event.a + 1}}', undefined],
      ['{{steps.trigger.context.id}}', undefined],
      ['x{{steps.trigger.event.a}}', undefined],
      ['{{eventual.a}}', undefined],
      ['{{steps.trigger.event[a]}}', undefined],
    ];
    for (const [expression, path] of paths) assert.deepEqual(plainPath(expression), path, expression);
    assert.equal(hasCode({ concurrency: { limit: 1, key: customer } }), false);
    assert.equal(hasCode({ priority: '{{1 + 1}}' }), true);
  });

  test('texts, numbers and booleans are keys; anything else is the empty one, with a warning', () => {
    assert.deepEqual(keyOf({ customer: 'Zoë 🙂' }), ['Zoë 🙂', undefined]);
    assert.deepEqual(keyOf({ customer: 1 }), keyOf({ customer: '1' }));
    assert.deepEqual(keyOf({ customer: false }), ['false', undefined]);
    for (const value of [null, {}, [1], undefined]) {
      const [key, warning] = keyOf({ customer: value });
      assert.equal(key, '');
      assert.match(String(warning), /expected a text, number or boolean$/);
    }
  });

  test('only own members of values are read', () => {
    for (const member of ['constructor', '__proto__', 'toString', 'length'])
      assert.equal(keyOf({ customer: 'x' }, `{{steps.trigger.event.${member}.name}}`)[0], '');
    assert.equal(keyOf({ customer: 'abc' }, '{{steps.trigger.event.customer.length}}')[0], '');
    assert.equal(keyOf(JSON.parse('{"__proto__":"own"}'), '{{steps.trigger.event.__proto__}}')[0], 'own');
  });

  test('long texts, half characters and NUL become short keys that stay different', () => {
    const long = 'k'.repeat(100_000);
    const texts = [long, `${long}2`, '\ud800', '\ud801', 'a\0b', 'ab', '\ufffd'];
    const keys = texts.map((text) => String(keyOf({ customer: text })[0]));
    assert.equal(new Set(keys).size, texts.length);
    for (const key of keys) assert.ok(key.length <= 130 && key.isWellFormed() && !key.includes('\0'), key);
  });

  test('a priority is a number of at most ten minutes', () => {
    const flow = { priority: '{{steps.trigger.event.p}}' };
    const priorityOf = (p: unknown) =>
      keysFrom(flow, plainValues(flow, JSON.stringify({ p })), { bytes: 0, repeats: false });
    assert.equal(priorityOf(5.4).priority, 5);
    assert.equal(priorityOf('-7').priority, -7);
    assert.equal(priorityOf(1e9).priority, 600);
    for (const value of ['high', '', ' ', [], [5], {}, { toString: 1, valueOf: 1 }, true, null, undefined]) {
      const { priority, warning } = priorityOf(value);
      assert.equal(priority, undefined);
      assert.match(String(warning), /expected a number$/);
    }
  });

  test('a run that repeats another one is neither debounced nor put into a batch', () => {
    const flow = { debounce: { seconds: 1, max_wait_seconds: 1 }, concurrency: { limit: 1 } };
    assert.deepEqual(keysFrom(flow, new Map(), { bytes: 3, repeats: true }), {
      ...{ bytes: 3, concurrency: '', repeats: true },
    });
  });
});
