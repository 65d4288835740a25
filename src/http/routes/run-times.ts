import { timeParameter } from '#http/time-parameter.ts';

export const sinceDescription = 'Epoch seconds or ISO 8601: only runs that were made then or later';
export const untilDescription = 'Epoch seconds or ISO 8601: only runs that were made before';

/** The range of times in which runs were made. Throws CallerError `invalid_parameter`. */
export function timesOf(
  since: string | number | undefined,
  until: string | number | undefined,
): { sinceMs?: number; untilMs?: number } {
  const sinceMs = timeParameter(since, 'since');
  const untilMs = timeParameter(until, 'until');
  return { ...(sinceMs === undefined ? {} : { sinceMs }), ...(untilMs === undefined ? {} : { untilMs }) };
}
