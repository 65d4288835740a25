/** Amounts of answers with their units; `--json` has the numbers. */

const number = new Intl.NumberFormat('en');
const byteUnits = ['bytes', 'KB', 'MB', 'GB', 'TB'];
/** 2 GB, 1.5 MB; of 1024 each. */
export function bytesText(bytes: number): string {
  const power = Math.min(byteUnits.length - 1, Math.floor(Math.log(Math.max(1, bytes)) / Math.log(1024)));
  return `${number.format(Math.round((bytes / 1024 ** power) * 10) / 10)} ${byteUnits[power]}`;
}

/**
 * How long, in the two largest units: 340 ms, 1.5 s, 3 s, 2 min 5 s, 5 h 10 min, 2 d 6 h. The dashboard writes the same
 * (`formatDuration`); a test compares them.
 */
export function durationText(ms: number): string {
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
export function runTimeText(ms: number): string {
  return ms < 3_600_000 ? durationText(ms) : `${number.format(Math.round(ms / 360_000) / 10)} h`;
}

function twoUnits(large: number, largeUnit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${large} ${largeUnit}` : `${large} ${largeUnit} ${small} ${smallUnit}`;
}

/** The text of a field whose name has a unit; undefined: it is no amount. */
export function amountText(field: string, value: number): string | undefined {
  const perDay = /^daily_.*_quota$/.test(field) ? ' a day' : '';
  if (/^daily_compute_time_/.test(field)) return runTimeText(value) + perDay;
  if (/^daily_/.test(field)) return number.format(value) + perDay;
  if (/(?:^|_)bytes$|^size$/.test(field)) return bytesText(value);
  if (/_seconds$/.test(field)) return durationText(value * 1000);
  if (/_mb$/.test(field)) return bytesText(value * 1024 ** 2);
  return /_ms$/.test(field) && !/_at_ms$|^at_ms$/.test(field) ? durationText(value) : undefined;
}
