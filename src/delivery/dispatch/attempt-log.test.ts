import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pino } from 'pino';
import { AttemptLog } from './attempt-log.ts';

test('a listener that fails all the time has one line a minute, which says how many were left out', () => {
  const lines: Record<string, unknown>[] = [];
  let nowMs = 0;
  const log = new AttemptLog({
    logger: pino({ base: null, timestamp: false }, { write: (line: string) => lines.push(JSON.parse(line)) }),
    nowMs: () => nowMs,
  });
  for (let n = 0; n < 1_000; n += 1) log.failed({ listener: 'wh_1', attempt: n });
  log.failed({ listener: 'wh_2', attempt: 1 });
  nowMs = 60_000;
  log.failed({ listener: 'wh_1', attempt: 1_000 });
  const shown = lines.map(({ listener, attempt, unlogged }) => [listener, attempt, unlogged]);
  assert.deepEqual(shown, [
    ['wh_1', 0, undefined],
    ['wh_2', 1, undefined],
    ['wh_1', 1_000, 999],
  ]);
});
