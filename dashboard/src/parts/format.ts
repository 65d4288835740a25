const number = new Intl.NumberFormat('en');
const compact = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });

export function formatNumber(value: number): string {
  return value >= 100_000 ? compact.format(value) : number.format(value);
}

/**
 * How long, in the two largest units: 340 ms, 1.5 s, 3 s, 2 min 5 s, 5 h 10 min, 2 d 6 h. The command line writes the same
 * (`durationText`); a test compares them.
 */
export function formatDuration(ms: number): string {
  if (ms > 0 && ms < 1000) return `${Math.max(1, Math.floor(ms))} ms`;
  if (ms < 9_950 && ms % 1000 !== 0) return `${Math.round(ms / 100) / 10} s`;
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return twoUnits(minutes, 'min', seconds % 60, 's');
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return twoUnits(hours, 'h', minutes % 60, 'min');
  return twoUnits(Math.floor(hours / 24), 'd', hours % 24, 'h');
}

/** A share of a daily quota: in hours where others are in days, because 41 d of run time a day are no time of a day. */
export function formatRunTime(ms: number): string {
  return ms < 3_600_000 ? formatDuration(ms) : `${number.format(Math.round(ms / 360_000) / 10)} h`;
}

function twoUnits(large: number, largeUnit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${large} ${largeUnit}` : `${large} ${largeUnit} ${small} ${smallUnit}`;
}

const units = ['B', 'KB', 'MB', 'GB', 'TB'];

export function formatBytes(bytes: number): string {
  const power = Math.min(units.length - 1, Math.floor(Math.log(Math.max(1, bytes)) / Math.log(1024)));
  const value = bytes / 1024 ** power;
  return `${value < 10 && power > 0 ? value.toFixed(1) : Math.round(value)} ${units[power]}`;
}

export function formatAgo(ms: number, nowMs: number): string {
  const age = nowMs - ms;
  if (age < -1500) return `in ${formatDuration(toMinutes(-age))}`;
  return age < 1500 ? 'just now' : `${formatDuration(toMinutes(age))} ago`;
}

/** A distance from now changes while it is read: whole seconds, and whole minutes from ten minutes on. */
function toMinutes(ms: number): number {
  const step = ms < 600_000 ? 1000 : 60_000;
  return Math.floor(ms / step) * step;
}

export function formatClock(ms: number): string {
  const date = new Date(ms);
  const two = (value: number) => String(value).padStart(2, '0');
  const time = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${String(date.getMilliseconds()).padStart(3, '0')}`;
  const isToday = date.toDateString() === new Date().toDateString();
  return isToday ? time : `${two(date.getMonth() + 1)}-${two(date.getDate())} ${time}`;
}
