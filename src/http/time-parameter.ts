import { CallerError } from '#lib/errors.ts';

/** Epoch ms of a time that is given in epoch seconds or as ISO 8601. Throws CallerError `invalid_parameter`. */
export function timeParameter(value: unknown, parameter: string): number | undefined {
  if (value === undefined) return undefined;
  const text = String(value);
  const ms = /^\d{1,11}$/.test(text)
    ? Number(text) * 1000
    : isoTime.test(text) && isDay(text.slice(0, 10))
      ? Date.parse(text)
      : Number.NaN;
  if (!Number.isNaN(ms)) return ms;
  throw new CallerError(
    'invalid_parameter',
    `${parameter}: expected epoch seconds, or a time such as 2026-01-31T12:00:00Z`,
    { parameter },
  );
}

const isoTime = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2}))?$/;

/** Date.parse takes February 31 for March 3. */
function isDay(date: string): boolean {
  const ms = Date.parse(date);
  return !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(date);
}
