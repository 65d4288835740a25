/** Amounts of answers with their units; `--json` has the numbers. */

const number = new Intl.NumberFormat('en');
const byteUnits = ['bytes', 'KB', 'MB', 'GB', 'TB'];
const timeUnits = [
  { name: 'day', ms: 86_400_000 },
  { name: 'hour', ms: 3_600_000 },
  { name: 'minute', ms: 60_000 },
  { name: 'second', ms: 1000 },
];

/** 2 GB, 1.5 MB; of 1024 each. */
export function bytesText(bytes: number): string {
  const power = Math.min(byteUnits.length - 1, Math.floor(Math.log(Math.max(1, bytes)) / Math.log(1024)));
  return `${number.format(Math.round((bytes / 1024 ** power) * 10) / 10)} ${byteUnits[power]}`;
}

/** In the largest unit without a rest: 10 minutes, 90 seconds; of less than ten seconds the milliseconds too. */
export function durationText(ms: number): string {
  if (ms === 0) return '0 seconds';
  if (ms < 1000) return `${number.format(ms)} ms`;
  if (ms < 10_000 && ms % 1000 !== 0) return `${(ms / 1000).toFixed(1)} seconds`;
  const rounded = Math.round(ms / 1000) * 1000;
  const { name, ms: unitMs } = timeUnits.find((unit) => rounded % unit.ms === 0) ?? {
    name: 'second',
    ms: 1000,
  };
  const count = rounded / unitMs;
  return `${number.format(count)} ${count === 1 ? name : `${name}s`}`;
}

/** The text of a field whose name has a unit; undefined: it is no amount. */
export function amountText(field: string, value: number): string | undefined {
  const perDay = /^daily_.*_quota$/.test(field) ? ' a day' : '';
  if (/^daily_compute_time_/.test(field)) return durationText(value) + perDay;
  if (/^daily_/.test(field)) return number.format(value) + perDay;
  if (/(?:^|_)bytes$|^size$/.test(field)) return bytesText(value);
  if (/_seconds$/.test(field)) return durationText(value * 1000);
  if (/_mb$/.test(field)) return bytesText(value * 1024 ** 2);
  return /_ms$/.test(field) && !/_at_ms$|^at_ms$/.test(field) ? durationText(value) : undefined;
}
