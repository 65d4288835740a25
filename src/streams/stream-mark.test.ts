import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RecentPlaces, StreamMark } from './stream-mark.ts';

const nowMs = 1_800_000_000_000;

test('a mark says the same after it was text, in characters that a header may have', () => {
  const mark = new StreamMark(0, [
    ['dc_AbC123', { ms: nowMs, seq: 0 }],
    ['p_x', { ms: 999_999_999_999_999, seq: 999_999_999_999_999 }],
  ]);
  const text = String(mark);
  assert.match(text, /^[\w:,]+$/);
  const parsed = StreamMark.parse(text, 'id');
  assert.equal(String(parsed), text);
  assert.deepEqual(parsed.after('dc_AbC123'), { ms: nowMs, seq: 0 });
  assert.equal(parsed.after('dc_other').ms, 0);
  for (const broken of [
    '',
    'w',
    '1-1',
    'w0,',
    'w0,dc_1',
    'w0,dc_1:1',
    'w0,dc_1:1:1:1',
    'w0,dc_1:1:-1',
    'w0,é:1:1',
  ])
    assert.throws(() => StreamMark.parse(broken, 'id'), { code: 'invalid_event_id' }, broken);
  const many = Array.from({ length: 51 }, (_, n) => `dc_${n}:1:1`);
  assert.throws(() => StreamMark.parse(`w0,${many}`, 'id'), { code: 'invalid_event_id' });
});

test('a mark is exact while few emitters have emitted, whatever the clocks say', () => {
  const places = new RecentPlaces();
  places.load([
    { id: 'dc_1', ms: nowMs + 1_000_000, seq: 3 },
    { id: 'dc_idle', ms: 0, seq: 0 },
  ]);
  places.set('dc_2', { ms: nowMs, seq: 0 });
  const mark = places.mark(nowMs);
  assert.deepEqual(mark.after('dc_1'), { ms: nowMs + 1_000_000, seq: 3 });
  assert.equal(mark.after('dc_idle').ms, 0, 'all of it was missed');
});

test('of many emitters those that emitted last are exact, and the others share what is surely past', () => {
  const places = new RecentPlaces();
  const ids = Array.from({ length: 60 }, (_, n) => `dc_${n}`);
  places.load(ids.map((id, n) => ({ id, ms: nowMs - 1_000_000 + n, seq: 0 })));
  places.set('dc_0', { ms: nowMs, seq: 5 });
  const mark = places.mark(nowMs);
  assert.deepEqual(mark.after('dc_0'), { ms: nowMs, seq: 5 });
  assert.equal(mark.lastSent('dc_5'), undefined);
  assert.equal(mark.after('dc_5').ms, nowMs - 1_000_000 + 10, 'the newest that is not named');
  assert.ok(String(mark).length < 2_000);
  for (const id of ids) places.set(id, { ms: nowMs, seq: 9 });
  assert.equal(places.mark(nowMs).after('dc_0').ms, nowMs - 60_000, 'at least a minute is sent again');
});
