import { Cron } from 'croner';
import { CallerError } from '#lib/errors.ts';

/** When a timer fires. Intervals know no calendar; cron is in the local time of its zone. */
export type Schedule = { intervalSeconds: number } | { cron: string; timezone: string };

/** A source runs at most this often (specification, section 8). */
const intervalSecondsMin = 15;
/** A year and a day; longer waits are a mistake. */
const intervalSecondsMax = 366 * 86_400;

const cronCharactersMax = 1_000;

/** Throws `invalid_schedule` that names `parameter` and says what was expected. */
export function checkSchedule(schedule: Schedule, parameter: string): void {
  const refuse = (message: string) => {
    throw new CallerError('invalid_schedule', `${parameter}: ${message}`, { parameter });
  };
  if ('intervalSeconds' in schedule) {
    const { intervalSeconds } = schedule;
    if (!Number.isInteger(intervalSeconds))
      refuse(`the interval must be an integer of seconds, found ${JSON.stringify(intervalSeconds)}`);
    if (intervalSeconds < intervalSecondsMin)
      refuse(`the interval must be at least ${intervalSecondsMin} seconds, found ${intervalSeconds}`);
    if (intervalSeconds > intervalSecondsMax)
      refuse(`the interval must be at most ${intervalSecondsMax} seconds, found ${intervalSeconds}`);
    return;
  }
  if (typeof schedule.timezone !== 'string' || !isTimeZone(schedule.timezone)) {
    refuse(
      `timezone must be an IANA time zone such as Europe/Berlin, found ${JSON.stringify(schedule.timezone)}`,
    );
  }
  // It is read again at every tick.
  if (typeof schedule.cron === 'string' && schedule.cron.length > cronCharactersMax)
    refuse(`a cron expression has at most ${cronCharactersMax} characters, found ${schedule.cron.length}`);
  let next: number | undefined;
  try {
    // Only expressions with a field for seconds can fire that often, and a minute of them holds the shortest gap.
    const withSeconds = schedule.cron.trim().split(/\s+/).length > 5;
    const times = parseCron(schedule).nextRuns(withSeconds ? 61 : 1, new Date());
    next = times[0]?.getTime();
    const gaps = times.slice(1).map((time, index) => time.getTime() - (times[index]?.getTime() ?? 0));
    if (gaps.some((gapMs) => gapMs < intervalSecondsMin * 1000)) {
      refuse(
        `cron ${JSON.stringify(schedule.cron)} fires more often than every ${intervalSecondsMin} seconds`,
      );
    }
  } catch (error) {
    if (error instanceof CallerError) throw error;
    refuse(
      `cron must be a cron expression such as "0 9 * * 1-5", found ${JSON.stringify(schedule.cron)}: ${(error as Error).message}`,
    );
  }
  if (next === undefined) refuse(`cron ${JSON.stringify(schedule.cron)} never fires`);
}

function isTimeZone(name: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone: name });
    return true;
  } catch {
    return false;
  }
}

function parseCron(schedule: { cron: string; timezone: string }): Cron {
  if (typeof schedule.cron !== 'string') throw new Error('not a string');
  return new Cron(schedule.cron, { timezone: schedule.timezone, paused: true });
}

/** What was asked for last. Timers that are due together have the same few expressions, and reading one takes 0.1 ms. */
const occurrences = new Map<string, number | undefined>();
const occurrencesKept = 256;

/** The first time of a cron expression after `afterMs`. */
function timeAfter(schedule: { cron: string; timezone: string }, afterMs: number): number | undefined {
  const key = `${afterMs} ${schedule.timezone} ${schedule.cron}`;
  if (occurrences.has(key)) return occurrences.get(key);
  const time = parseCron(schedule).nextRun(new Date(afterMs))?.getTime();
  if (occurrences.size >= occurrencesKept)
    for (const oldest of occurrences.keys()) {
      occurrences.delete(oldest);
      break;
    }
  occurrences.set(key, time);
  return time;
}

/**
 * Pure: the first occurrence after `afterMs`, in epoch ms. For an interval that is the grid laid through `plannedMs`,
 * so that a late tick does not shift those after it. Undefined: a cron expression that never fires again.
 */
export function nextOccurrence(schedule: Schedule, plannedMs: number, afterMs: number): number | undefined {
  if ('intervalSeconds' in schedule) {
    const intervalMs = schedule.intervalSeconds * 1000;
    if (plannedMs > afterMs) return plannedMs;
    return plannedMs + (Math.floor((afterMs - plannedMs) / intervalMs) + 1) * intervalMs;
  }
  if (plannedMs > afterMs) return timeAfter(schedule, afterMs);
  // Nearly always it is the one after the planned one, which is the same for all timers that were due then.
  const following = timeAfter(schedule, plannedMs);
  return following === undefined || following > afterMs ? following : timeAfter(schedule, afterMs);
}

/** Pure: how many occurrences lie in (`plannedMs`, `untilMs`]; counting stops at `max`. */
export function occurrencesBetween(
  schedule: Schedule,
  plannedMs: number,
  untilMs: number,
  max = 1000,
): number {
  if ('intervalSeconds' in schedule)
    return Math.max(0, Math.floor((untilMs - plannedMs) / (schedule.intervalSeconds * 1000)));
  let count = 0;
  let at = plannedMs;
  while (count < max) {
    const next = nextOccurrence(schedule, at, at);
    if (next === undefined || next > untilMs) break;
    count += 1;
    at = next;
  }
  return count;
}

/** Pure: `count` occurrences from `plannedMs`, which is one, on; fewer where the schedule ends. */
export function occurrencesFrom(schedule: Schedule, plannedMs: number, count: number): number[] {
  const times = [plannedMs];
  for (let at = plannedMs; times.length < count; ) {
    const next = nextOccurrence(schedule, at, at);
    if (next === undefined) break;
    times.push(next);
    at = next;
  }
  return times;
}
