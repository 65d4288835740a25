import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TestClock } from '../../test/support/test-clock.ts';
import type { StoredEvent } from './event.ts';
import { EventRates } from './event-rates.ts';

const minuteMs = 60_000;

function event(channel: string, emitterId = 'dc_one', ownerId = 'u_ann'): StoredEvent {
  return { channel, emitter_id: emitterId, owner_id: ownerId } as StoredEvent;
}

test('events and errors are counted by minute and owner, what was printed is not', () => {
  const clock = new TestClock(1_800_000_000_000);
  const rates = new EventRates(clock);
  rates.count([event(''), event('custom'), event('$logs'), event('$errors'), event('', 'dc_two', 'u_bob')]);
  clock.step(minuteMs);
  rates.count([event('')]);
  const minutes = rates.minutes('u_ann');
  assert.equal(minutes.length, 60);
  assert.deepEqual(minutes.slice(-2), [
    { atMs: 1_800_000_000_000, events: 2, errors: 1 },
    { atMs: 1_800_000_060_000, events: 1, errors: 0 },
  ]);
  assert.equal(rates.minutes('u_bob').at(-2)?.events, 1);
  assert.ok(rates.minutes('u_nobody').every(({ events, errors }) => events + errors === 0));
});

test('after an hour a minute is forgotten, and so is an emitter that failed in it', () => {
  const clock = new TestClock();
  const rates = new EventRates(clock);
  rates.count([event('$errors', 'dc_old')]);
  clock.step(30 * minuteMs);
  rates.count([event('$errors', 'dc_new'), event('$errors', 'dc_new')]);
  assert.deepEqual(
    rates.failing('u_ann').map(({ emitterId, errors }) => [emitterId, errors]),
    [
      ['dc_new', 2],
      ['dc_old', 1],
    ],
  );
  clock.step(31 * minuteMs);
  assert.deepEqual(
    rates.failing('u_ann').map(({ emitterId }) => emitterId),
    ['dc_new'],
  );
  assert.equal(
    rates.minutes('u_ann').reduce((sum, { errors }) => sum + errors, 0),
    2,
  );
});

test('a bounded number of owners and failing emitters is remembered, those that were quiet longest go', () => {
  const rates = new EventRates(new TestClock());
  for (let n = 0; n < 10_001; n += 1) rates.count([event('', 'dc_one', `u_${n}`)]);
  const total = (ownerId: string) => rates.minutes(ownerId).reduce((sum, { events }) => sum + events, 0);
  assert.deepEqual([total('u_0'), total('u_1'), total('u_10000')], [0, 1, 1]);
  for (let n = 0; n < 60; n += 1) rates.count([event('$errors', `dc_${n}`)]);
  const failing = rates.failing('u_ann').map(({ emitterId }) => emitterId);
  assert.deepEqual([failing.length, failing[0], failing.at(-1)], [50, 'dc_59', 'dc_10']);
});
