import { epochSeconds } from '#lib/clock.ts';
import type { Schedule } from './next-occurrence.ts';

/** The argument of a source's `run` (component contract, timers): an interval has only its seconds. */
export function timerEvent(schedule: Schedule, plannedMs: number): Record<string, unknown> {
  const timestamp = epochSeconds(plannedMs);
  if ('intervalSeconds' in schedule) return { timestamp, interval_seconds: schedule.intervalSeconds };
  return { timestamp, cron: schedule.cron, ...localTimes(plannedMs, schedule.timezone) };
}

/** `steps.trigger.event` of a timer trigger: the local time is there for intervals too. */
export function triggerEvent(
  schedule: Schedule,
  timezone: string,
  plannedMs: number,
): Record<string, unknown> {
  return { ...timerEvent(schedule, plannedMs), ...localTimes(plannedMs, timezone) };
}

function localTimes(ms: number, timezone: string): Record<string, unknown> {
  return { timezone_configured: zonedTime(ms, timezone), timezone_utc: zonedTime(ms, 'UTC') };
}

const dayNames = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];

/** Timers that are due together ask for the same time. */
function zonedTime(ms: number, timezone: string): Readonly<Record<string, unknown>> {
  const formats = formatsOf(timezone);
  if (formats.latest?.ms !== ms) formats.latest = { ms, time: formattedTime(ms, timezone, formats) };
  return formats.latest.time;
}

function formattedTime(
  ms: number,
  timezone: string,
  { fields, longDate }: Formats,
): Readonly<Record<string, unknown>> {
  const parts = new Map(fields.formatToParts(ms).map(({ type, value }) => [type, value]));
  const part = (type: Intl.DateTimeFormatPartTypes) => parts.get(type) ?? '';
  const offset = part('timeZoneName').replace('GMT', '') || 'Z';
  const date = `${part('year')}-${part('month')}-${part('day')}`;
  const time = `${part('hour')}:${part('minute')}:${part('second')}.${String(ms % 1000).padStart(3, '0')}`;
  const hour = Number(part('hour'));
  return {
    timezone,
    iso8601: { timestamp: `${date}T${time}${offset}`, date, time: `${time}${offset}` },
    date: { day: Number(part('day')), month: Number(part('month')), year: Number(part('year')) },
    time: { hour, minute: Number(part('minute')), second: Number(part('second')), millisecond: ms % 1000 },
    pretty: {
      date: longDate.format(ms),
      time: `${hour % 12 === 0 ? 12 : hour % 12}:${part('minute')} ${hour < 12 ? 'AM' : 'PM'}`,
      time_24h: `${part('hour')}:${part('minute')}`,
    },
    metadata: {
      day_name: part('weekday'),
      day_of_week: dayNames.indexOf(part('weekday')),
      start_of_week: 'Sunday',
    },
  };
}

interface Formats {
  fields: Intl.DateTimeFormat;
  longDate: Intl.DateTimeFormat;
  /** The time that was asked for last. */
  latest?: { ms: number; time: Readonly<Record<string, unknown>> };
}

/** More than there are zones; a zone name in other letter case counts as another one, so there is a bound. */
const formatsMax = 1_000;
/** Making a format takes fifty times as long as using it, and many timers are due at the full hour. */
const formats = new Map<string, Formats>();

function formatsOf(timezone: string): Formats {
  const known = formats.get(timezone);
  if (known !== undefined) return known;
  const made: Formats = {
    fields: new Intl.DateTimeFormat('en-US', {
      timeZone: timezone,
      hourCycle: 'h23',
      year: 'numeric',
      month: '2-digit',
      day: '2-digit',
      hour: '2-digit',
      minute: '2-digit',
      second: '2-digit',
      weekday: 'long',
      timeZoneName: 'longOffset',
    }),
    longDate: new Intl.DateTimeFormat('en-US', { timeZone: timezone, dateStyle: 'full' }),
  };
  if (formats.size >= formatsMax) formats.clear();
  formats.set(timezone, made);
  return made;
}
