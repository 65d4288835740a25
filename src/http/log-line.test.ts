import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { StoredEvent } from '#events/event.ts';
import { logLine } from './log-line.ts';

const line = (channel: string, event: string) => {
  const { id: _id, ...rest } = logLine({ channel, event, ms: 7, seq: 0 } as StoredEvent);
  return rest;
};

test('a console line and an error are shown with their fields', () => {
  assert.deepEqual(line('$logs', '{"ts":5,"level":"warn","message":"careful"}'), {
    ts: 5,
    level: 'warn',
    message: 'careful',
  });
  const error = { name: 'RangeError', message: 'out', stack: 'at x', ts: '2026-01-01', code: 'E' };
  assert.deepEqual(line('$errors', JSON.stringify({ error, original_event: { a: 1 } })), {
    ts: 7,
    level: 'error',
    message: 'RangeError: out',
    error,
  });
});

test('whatever else a component emits on these channels is shown as it is', () => {
  for (const event of ['null', '7', '[]', '{}', '{"error":null}', '{"error":{"name":1}}', '{"message":{}}']) {
    assert.deepEqual(line('$logs', event), { ts: 7, level: 'log', message: event });
    assert.deepEqual(line('$errors', event), { ts: 7, level: 'error', message: event });
  }
  assert.equal(line('$logs', '"text"').message, 'text');
  assert.deepEqual(line('$logs', '{"ts":"soon","level":3,"message":"m"}'), {
    ts: 7,
    level: 'log',
    message: 'm',
  });
  assert.equal(line('$logs', '{"ts":1e400,"message":"m"}').ts, 7);
});

test('a line is cut where it would fill the page alone', () => {
  const long = 'x'.repeat(1_000_000);
  assert.ok(line('$logs', JSON.stringify({ message: long })).message.length < 30_000);
  assert.ok(
    JSON.stringify(line('$errors', JSON.stringify({ error: { name: long, message: long } }))).length <
      100_000,
  );
  assert.ok(line('$errors', JSON.stringify(long)).message.length < 30_000);
});
