import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Cron } from 'croner';
import fc from 'fast-check';
import { checkSchedule, nextOccurrence, occurrencesBetween, type Schedule } from './next-occurrence.ts';

const at = (iso: string) => Date.parse(iso);

/** The first `count` occurrences after a moment, as ISO texts in UTC. */
function series(schedule: Schedule, afterIso: string, count: number): string[] {
  const found: string[] = [];
  let ms = at(afterIso);
  while (found.length < count) {
    const next = nextOccurrence(schedule, ms, ms);
    assert.ok(next !== undefined);
    found.push(new Date(next).toISOString());
    ms = next;
  }
  return found;
}

const refused = (schedule: unknown) => {
  let message = '';
  assert.throws(
    () => checkSchedule(schedule as Schedule, 'configured_props.timer'),
    (error: Error & { code?: string; details?: { parameter?: string } }) => {
      message = error.message;
      return error.code === 'invalid_schedule' && error.details?.parameter === 'configured_props.timer';
    },
  );
  return message;
};

describe('an interval', () => {
  test('is at least 15 seconds, an integer, and at most a year', () => {
    checkSchedule({ intervalSeconds: 15 }, 't');
    checkSchedule({ intervalSeconds: 366 * 86_400 }, 't');
    assert.match(refused({ intervalSeconds: 14 }), /at least 15 seconds, found 14/);
    for (const wrong of [0, -15, 15.5, Number.NaN, '60', null, 1e12]) refused({ intervalSeconds: wrong });
  });

  test('stays on the grid laid through its plan: what is late moves nothing that follows', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 15, max: 100_000 }),
        fc.integer({ min: 0, max: 2_000_000_000_000 }),
        fc.integer({ min: -1_000_000_000, max: 1_000_000_000 }),
        (intervalSeconds, plannedMs, lateByMs) => {
          const afterMs = plannedMs + lateByMs;
          const intervalMs = intervalSeconds * 1000;
          const next = nextOccurrence({ intervalSeconds }, plannedMs, afterMs) ?? Number.NaN;
          assert.equal((next - plannedMs) % intervalMs, 0);
          assert.ok(next > afterMs);
          if (lateByMs >= 0) {
            assert.ok(next - afterMs <= intervalMs);
            const missed = occurrencesBetween({ intervalSeconds }, plannedMs, afterMs);
            assert.equal(
              next,
              plannedMs + (missed + 1) * intervalMs,
              'what is missed and what is next leave no hole',
            );
          }
        },
      ),
    );
  });
});

describe('a cron expression', () => {
  test('needs a form that is understood, an IANA time zone, and at least 15 seconds between two ticks', () => {
    for (const cron of ['0 9 * * 1-5', '*/5 * * * *', '@daily', '*/15 * * * * *', '0 0 29 2 *'])
      checkSchedule({ cron, timezone: 'UTC' }, 't');
    checkSchedule({ cron: '0 9 * * *', timezone: 'America/New_York' }, 't');
    assert.match(refused({ cron: 'every day', timezone: 'UTC' }), /cron must be a cron expression/);
    assert.match(refused({ cron: '61 * * * *', timezone: 'UTC' }), /cron must be a cron expression/);
    assert.match(refused({ cron: '0 9 * * *', timezone: 'Mars/Olympus' }), /IANA time zone/);
    assert.match(refused({ cron: '0 0 30 2 *', timezone: 'UTC' }), /never fires/);
    const long = `${'0,'.repeat(10_000)}0 * * * *`;
    assert.match(refused({ cron: long, timezone: 'UTC' }), /at most 1000 characters, found 20009$/);
    assert.match(refused({ cron: '* * * * * *', timezone: 'UTC' }), /more often than every 15 seconds/);
    for (const wrong of [{}, 5, null]) {
      refused({ cron: wrong, timezone: 'UTC' });
      refused({ cron: '0 9 * * *', timezone: wrong });
    }
  });

  test('that fires too often in only some minutes is refused whenever it is checked', () => {
    assert.match(refused({ cron: '0,58 * * * * *', timezone: 'UTC' }), /more often/);
    assert.match(refused({ cron: '0-3 0 * * * *', timezone: 'UTC' }), /more often/);
  });

  test('is found as by its reader alone, however many were asked for, and however late the tick is', () => {
    const schedules = ['* * * * *', '*/7 3-5 * * 1', '0 0 29 2 *', '15 30 2 * * *', '0 9 1 1 *'].flatMap(
      (cron) => ['UTC', 'Europe/Berlin', 'America/New_York'].map((timezone) => ({ cron, timezone })),
    );
    fc.assert(
      fc.property(
        fc.constantFrom(...schedules),
        fc.integer({ min: 1_700_000_000, max: 1_900_000_000 }),
        fc.constantFrom(0, 1, 900, 61_000, 86_400_000, 40 * 86_400_000),
        (schedule, seconds, lateByMs) => {
          const plannedMs = seconds * 1000;
          const afterMs = plannedMs + lateByMs;
          const alone = new Cron(schedule.cron, { timezone: schedule.timezone, paused: true });
          const expected = alone.nextRun(new Date(afterMs))?.getTime();
          assert.equal(nextOccurrence(schedule, plannedMs, afterMs), expected);
          assert.equal(nextOccurrence(schedule, plannedMs, afterMs), expected, 'asked again');
        },
      ),
      { numRuns: 500 },
    );
  });

  test('is in the local time of its zone, summer and winter', () => {
    const nine = { cron: '0 9 * * *', timezone: 'Europe/Berlin' };
    assert.deepEqual(series(nine, '2026-03-28T00:00:00Z', 2), [
      '2026-03-28T08:00:00.000Z',
      '2026-03-29T07:00:00.000Z',
    ]);
    assert.deepEqual(series(nine, '2026-10-24T00:00:00Z', 2), [
      '2026-10-24T07:00:00.000Z',
      '2026-10-25T08:00:00.000Z',
    ]);
  });

  for (const { timezone, spring, springSkip, autumn, autumnFirst } of [
    {
      timezone: 'Europe/Berlin',
      spring: '2026-03-28T12:00:00Z', // 02:00 -> 03:00 on the 29th, at 01:00 UTC
      springSkip: '2026-03-29T01:00:00.000Z',
      autumn: '2026-10-24T12:00:00Z', // 03:00 -> 02:00 on the 25th, at 01:00 UTC
      autumnFirst: '2026-10-25T00:30:00.000Z',
    },
    {
      timezone: 'America/New_York',
      spring: '2026-03-07T12:00:00Z', // 02:00 -> 03:00 on the 8th, at 07:00 UTC
      springSkip: '2026-03-08T07:00:00.000Z',
      autumn: '2026-10-31T12:00:00Z', // 02:00 -> 01:00 on 1 November, at 06:00 UTC
      autumnFirst: '2026-11-01T05:30:00.000Z',
    },
  ]) {
    const repeatedHour = timezone === 'Europe/Berlin' ? 2 : 1;

    test(`in ${timezone}, fires once in the night that skips its hour, at the next valid minute`, () => {
      const [first, second] = series({ cron: '30 2 * * *', timezone }, spring, 2);
      assert.equal(first, springSkip);
      assert.ok(at(second ?? '') - at(springSkip) > 20 * 3_600_000, `only once: ${second}`);
    });

    test(`in ${timezone}, fires once in the night that repeats its hour`, () => {
      const [first, second] = series({ cron: `30 ${repeatedHour} * * *`, timezone }, autumn, 2);
      assert.equal(first, autumnFirst);
      assert.equal(at(second ?? '') - at(first ?? ''), 25 * 3_600_000);
    });

    test(`in ${timezone}, an interval ignores both nights`, () => {
      for (const night of [spring, autumn]) {
        const times = series({ intervalSeconds: 3600 }, night, 24);
        assert.equal(at(times[23] ?? '') - at(times[0] ?? ''), 23 * 3_600_000);
      }
    });
  }

  test('a schedule that fires every half hour continues through both nights', () => {
    const halfHours = { cron: '*/30 * * * *', timezone: 'Europe/Berlin' };
    for (const night of ['2026-03-29T00:00:00Z', '2026-10-24T23:00:00Z']) {
      const times = series(halfHours, night, 8).map(at);
      assert.deepEqual(
        times.map((ms) => (ms - at(night)) / 1_800_000),
        [1, 2, 3, 4, 5, 6, 7, 8],
      );
    }
  });

  test('always goes forward, and what is counted is what fires', () => {
    const zones = ['UTC', 'Europe/Berlin', 'America/New_York', 'Australia/Lord_Howe', 'Asia/Kolkata'];
    fc.assert(
      fc.property(
        fc.constantFrom('*/7 * * * *', '30 2 * * *', '15 1,2,3 * * *', '0 0 1 * *', '@hourly'),
        fc.constantFrom(...zones),
        fc.integer({ min: at('2025-01-01T00:00:00Z'), max: at('2028-01-01T00:00:00Z') }),
        (cron, timezone, plannedMs) => {
          const schedule = { cron, timezone };
          const times: number[] = [];
          let ms = plannedMs;
          for (let n = 0; n < 5; n += 1) {
            const next = nextOccurrence(schedule, ms, ms) ?? Number.NaN;
            assert.ok(next > ms);
            times.push(next);
            ms = next;
          }
          assert.equal(occurrencesBetween(schedule, plannedMs, ms), 5);
          assert.equal(occurrencesBetween(schedule, plannedMs, ms, 3), 3);
        },
      ),
      { numRuns: 100 },
    );
  });
});
