/** Amounts with their units, for messages and pages. Values of the API stay plain numbers. */

let format: Intl.NumberFormat | undefined;
/** Made at the first use: it takes longer than the rest of a small program, and most processes say no amount. */
function number(value: number): string {
  format ??= new Intl.NumberFormat('en');
  return format.format(value);
}

const byteUnits = ['bytes', 'KB', 'MB', 'GB', 'TB'];

/** 2 GB, 512 KB, 1.5 MB; of 1024 each. */
export function bytesText(bytes: number): string {
  const power = Math.min(byteUnits.length - 1, Math.floor(Math.log(Math.max(1, bytes)) / Math.log(1024)));
  const value = Math.round((bytes / 1024 ** power) * 10) / 10;
  return `${number(value)} ${power === 0 && bytes === 1 ? 'byte' : byteUnits[power]}`;
}

const timeUnits = [
  { name: 'day', ms: 86_400_000 },
  { name: 'hour', ms: 3_600_000 },
  { name: 'minute', ms: 60_000 },
  { name: 'second', ms: 1000 },
];

/** In the largest unit without a rest: 10 minutes, 90 seconds, 1,000 hours; less than a second in milliseconds. */
export function durationText(ms: number): string {
  if (ms < 1000) return ms === 0 ? '0 seconds' : `${number(ms)} ms`;
  const rounded = Math.round(ms / 1000) * 1000;
  const { name, ms: unitMs } = timeUnits.find((unit) => rounded % unit.ms === 0) ?? {
    name: 'second',
    ms: 1000,
  };
  const count = rounded / unitMs;
  return `${number(count)} ${count === 1 ? name : `${name}s`}`;
}

export function countText(count: number): string {
  return number(count);
}
