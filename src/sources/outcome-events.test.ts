import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CallOutcome, EmittedEvent } from '#runner/call-outcome.ts';
import { makeRedactor } from '#vault/redact.ts';
import { eventsOfOutcome } from './outcome-events.ts';

const options = {
  redact: makeRedactor(['sk-1234567890', 'pw-abcdefghij', '1234567890123']),
  originalEvent: undefined,
  nowMs: 5,
};

const outcome = (
  emits: EmittedEvent[],
  error?: CallOutcome['error'],
  logs: CallOutcome['logs'] = [],
): CallOutcome => ({
  status: error === undefined ? 'finished' : 'threw',
  emits,
  dbSets: {},
  logs,
  logsDropped: 0,
  durationMs: 1,
  ...(error === undefined ? {} : { error }),
});

test('no secret is left in anything a component emits: ids, channels, summaries, logs, names of errors', () => {
  const events = eventsOfOutcome(
    outcome(
      [
        {
          event: '"sk-1234567890"',
          id: 'a?key=sk-1234567890',
          name: 'of sk-1234567890',
          summary: 'sk-1234567890',
        },
        { event: '1', id: '1234567890123', idIsNumber: true, name: '' },
      ],
      {
        name: 'Error-sk-1234567890',
        message: 'sk-1234567890',
        stack: 'sk-1234567890',
        code: 'sk-1234567890',
      },
      [{ ts: 1, level: 'log', message: 'the key is sk-1234567890' }],
    ),
    options,
  );
  const text = JSON.stringify(events);
  assert.equal(/sk-1234567890|1234567890123/.test(text), false, text);
  assert.deepEqual(
    [events[0]?.id, events[0]?.channel, events[0]?.summary],
    ['a?key=[redacted]', 'of [redacted]', '[redacted]'],
  );
  assert.equal(events.at(-1)?.summary, 'Error-[redacted]: [redacted]');
  const log = events.find(({ channel }) => channel === '$logs');
  assert.equal(JSON.parse(log?.event ?? '{}').message, 'the key is [redacted]');
});

test('ids that look the same without their secrets stay different ones, and each stays the same', () => {
  const hashes = (...ids: string[]) =>
    eventsOfOutcome(outcome(ids.map((id) => ({ event: '1', name: '', id }))), options).map(
      ({ idHash }) => idHash,
    );
  const [first, second, again] = hashes('sk-1234567890', 'pw-abcdefghij', 'sk-1234567890');
  assert.ok(first !== undefined && second !== undefined && first !== second);
  assert.equal(again, first);
  assert.deepEqual(hashes('plain'), [undefined]);
});
