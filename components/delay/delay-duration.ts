import { ConfigurationError, shown } from '../configuration-error.ts';

const unitsMs = {
  Milliseconds: 1,
  Seconds: 1_000,
  Minutes: 60_000,
  Hours: 3_600_000,
  Days: 86_400_000,
  Weeks: 7 * 86_400_000,
} as const;

/** The longest wait of a workflow. */
const waitMsMax = 365 * 86_400_000;

/** `this` of the actions that wait for a while. */
export interface DurationAction {
  delayDurationValue?: number;
  delayDurationUnit?: string;
}

/** The props of a duration; what is given replaces its defaults. */
export const durationUnit = {
  type: 'string',
  label: 'Unit',
  description: 'The unit of the duration',
  options: Object.keys(unitsMs),
} as const;

/** Throws a ConfigurationError for a duration that a workflow cannot wait. */
export function durationMs({ delayDurationValue, delayDurationUnit = '' }: DurationAction): number {
  if (!Object.hasOwn(unitsMs, delayDurationUnit))
    throw new ConfigurationError(
      `delayDurationUnit: found ${shown(delayDurationUnit)}, expected one of ${Object.keys(unitsMs).join(', ')}`,
    );
  const value = Number(delayDurationValue ?? Number.NaN);
  const ms = value * unitsMs[delayDurationUnit as keyof typeof unitsMs];
  if (ms >= 1 && ms <= waitMsMax) return Math.round(ms);
  throw new ConfigurationError(
    `delayDurationValue: found ${shown(delayDurationValue)}, expected a number from 1 millisecond to 365 days`,
  );
}

/** Milliseconds from `nowMs` to a time, at least 0. */
export function msUntil(time: unknown, timezone: string, nowMs: number): number {
  const ms = timeOf(time, timezone) - nowMs;
  if (ms > waitMsMax)
    throw new ConfigurationError(`until: found ${shown(time)}, expected a time within the next 365 days`);
  return Math.max(0, ms);
}

/** Epoch ms of a number, of text with an offset, or of text in the time zone. */
function timeOf(time: unknown, timezone: string): number {
  const text = String(time ?? '').trim();
  if (/^\d{12,}$/.test(text)) return Number(text);
  if (/(?:Z|[+-]\d\d:?\d\d)$/i.test(text)) {
    const ms = Date.parse(text);
    if (!Number.isNaN(ms)) return ms;
  }
  let zoned: Temporal.PlainDateTime;
  try {
    zoned = Temporal.PlainDateTime.from(text);
  } catch {
    throw new ConfigurationError(
      `until: found ${shown(time)}, expected a date with time such as 2027-01-31T09:00:00Z, or milliseconds since 1970`,
    );
  }
  try {
    return zoned.toZonedDateTime(timezone).epochMilliseconds;
  } catch {
    throw new ConfigurationError(
      `timezone: found ${shown(timezone)}, expected the name of a time zone such as Europe/Berlin`,
    );
  }
}
