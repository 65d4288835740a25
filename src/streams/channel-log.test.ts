import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ChannelLog, type LogEntry, type LogReader } from './channel-log.ts';

const entry = (seq: number, bytes = 1): LogEntry => ({
  emitterId: 'dc_1',
  before: { ms: 1, seq: seq - 1 },
  place: { ms: 1, seq },
  message: Buffer.alloc(bytes),
});

test('entries go to readers, and are kept only while one of them is behind', () => {
  const log = new ChannelLog<LogReader>();
  const taken: number[] = [];
  const quick: LogReader = { take: (_entry, number) => taken.push(number) };
  const slow: LogReader = { take: () => log.fallBehind(slow) };
  log.join(quick);
  log.add(entry(1));
  assert.equal(log.entry(0), 'gone', 'no reader needs it');
  log.join(slow);
  for (const seq of [2, 3]) log.add(entry(seq));
  assert.deepEqual([log.entry(1), log.entry(2)], [entry(2), entry(3)]);
  assert.deepEqual([log.entry(3), log.next], [undefined, 3]);
  log.keepUp(slow);
  assert.deepEqual([log.entry(1), log.entry(2)], ['gone', 'gone']);
  log.add(entry(4));
  log.leave(slow);
  assert.deepEqual([log.entry(3), log.hasReaders], ['gone', true]);
  log.leave(quick);
  assert.deepEqual([taken, log.hasReaders], [[0, 1, 2, 3], false]);
});

test('what is kept for readers that are behind has a bound, in entries and in bytes', () => {
  const log = new ChannelLog<LogReader>();
  const slow: LogReader = { take: () => log.fallBehind(slow) };
  log.join(slow);
  for (let seq = 1; seq <= 10_001; seq += 1) log.add(entry(seq));
  assert.deepEqual([log.entry(0), log.entry(1)], ['gone', entry(2)]);
  for (let seq = 1; seq <= 9; seq += 1) log.add(entry(seq, 2 ** 20));
  assert.equal(log.entry(log.next - 9), 'gone');
  assert.notEqual(log.entry(log.next - 7), 'gone');
});
