import { badInput, ConfigurationError } from '../action.ts';

/** A time with its offset, in one time zone. */
export type ZonedTime = Temporal.ZonedDateTime;

/** Formats that a form offers, under the values that workflows name. Any other made of the same tokens works too. */
export const offeredFormats = [
  { label: 'Sun Jan 22 23:04:05 +00:00 2006', value: 'ddd MMM DD HH:mm:ss Z YYYY' },
  { label: 'January 22 2006 23:04:05', value: 'MMMM DD YYYY HH:mm:ss' },
  { label: 'January 22 2006', value: 'MMMM DD YYYY' },
  { label: 'Jan 22 2006', value: 'MMM DD YYYY' },
  { label: '2006-01-22T23:04:05+00:00', value: 'YYYY-MM-DDTHH:mm:ssZ' },
  { label: '2006-01-22 23:04:05 +00:00', value: 'YYYY-MM-DD HH:mm:ss Z' },
  { label: '2006-01-22', value: 'YYYY-MM-DD' },
  { label: '01-22-2006', value: 'MM-DD-YYYY' },
  { label: '01/22/2006', value: 'MM/DD/YYYY' },
  { label: '01/22/06', value: 'MM/DD/YY' },
  { label: '22-01-2006', value: 'DD-MM-YYYY' },
  { label: '22/01/2006', value: 'DD/MM/YYYY' },
  { label: '22/01/06', value: 'DD/MM/YY' },
  { label: '1137971045', value: 'Unix time (seconds)' },
  { label: '1137971045000', value: 'Unix time (milliseconds)' },
];

const defaultFormat = 'YYYY-MM-DDTHH:mm:ssZ';

/** Props that the actions of dates share. */
export const dateProps = {
  inputDate: {
    type: 'string',
    label: 'Input date',
    description: 'Date, or date and time: `2026-01-22T23:04:05Z`, `Jan 22 2026` or seconds since 1970',
  },
  inputFormat: {
    type: 'string',
    label: 'Input format',
    description: 'How the date is written; without it, it is recognized: `03/04/2026` is March 4',
    optional: true,
    options: offeredFormats,
    otherValues: true,
  },
  timezone: {
    type: 'string',
    label: 'Time zone',
    description: 'Time zone of the result, and of an input without one: `Europe/Berlin`',
    optional: true,
    default: 'UTC',
  },
} as const;

export const outputFormatProp = {
  type: 'string',
  label: 'Output format',
  description:
    'How to write the date; tokens such as `YYYY`, `MMM`, `DD`, `HH`, `mm`, `ss`, `Z`, and `[text]` as it is',
  options: offeredFormats,
  otherValues: true,
} as const;

export interface DateInput {
  inputFormat?: string;
  timezone?: string;
}

interface Token {
  pattern: string;
  write(time: ZonedTime): string;
  /** What the matched text says. */
  read?(text: string, parts: DateParts): void;
}

interface DateParts {
  year?: number;
  month?: number;
  day?: number;
  hour?: number;
  minute?: number;
  second?: number;
  millisecond?: number;
  isAfternoon?: boolean;
  offset?: string;
  epochMilliseconds?: number;
}

const months = 'January February March April May June July August September October November December'.split(
  ' ',
);
const weekdays = 'Monday Tuesday Wednesday Thursday Friday Saturday Sunday'.split(' ');
const padded = (value: number, length = 2) => String(value).padStart(length, '0');

const number = (
  part: 'year' | 'month' | 'day' | 'hour' | 'minute' | 'second' | 'millisecond',
  pattern: string,
) => ({
  pattern,
  read: (text: string, parts: DateParts) => {
    parts[part] = Number(text);
  },
});
const monthName = (length?: number): Token => ({
  pattern: months.map((name) => name.slice(0, length)).join('|'),
  write: ({ month }) => months[month - 1]?.slice(0, length) ?? '',
  read: (text, parts) => {
    parts.month = 1 + months.findIndex((name) => name.slice(0, length).toLowerCase() === text.toLowerCase());
  },
});
const weekdayName = (length?: number): Token => ({
  pattern: weekdays.map((name) => name.slice(0, length)).join('|'),
  write: ({ dayOfWeek }) => weekdays[dayOfWeek - 1]?.slice(0, length) ?? '',
});
const halfOfDay = (write: (text: string) => string): Token => ({
  pattern: '[ap]\\.?m\\.?',
  write: ({ hour }) => write(hour < 12 ? 'am' : 'pm'),
  read: (text, parts) => {
    parts.isAfternoon = /^p/i.test(text);
  },
});
const offset = (write: (text: string) => string): Token => ({
  pattern: 'Z|[+-]\\d{2}:?\\d{2}',
  write: (time) => write(time.offset),
  read: (text, parts) => {
    parts.offset = /^z$/i.test(text) ? '+00:00' : text.replace(/^(...)(\d\d)$/, '$1:$2');
  },
});
const epoch = (unit: number): Token => ({
  pattern: '-?\\d+(?:\\.\\d+)?',
  write: ({ epochMilliseconds }) => String(epochMilliseconds / unit),
  read: (text, parts) => {
    parts.epochMilliseconds = Math.round(Number(text) * unit);
  },
});

const tokens: Record<string, Token> = {
  YYYY: { ...number('year', '\\d{4}'), write: ({ year }) => padded(year, 4) },
  YY: {
    pattern: '\\d{2}',
    write: ({ year }) => padded(year % 100),
    // As most programs: 69 is 1969, 68 is 2068.
    read: (text, parts) => {
      parts.year = Number(text) + (Number(text) < 69 ? 2000 : 1900);
    },
  },
  MMMM: monthName(),
  MMM: monthName(3),
  MM: { ...number('month', '\\d{2}'), write: ({ month }) => padded(month) },
  M: { ...number('month', '\\d{1,2}'), write: ({ month }) => String(month) },
  DD: { ...number('day', '\\d{2}'), write: ({ day }) => padded(day) },
  D: { ...number('day', '\\d{1,2}'), write: ({ day }) => String(day) },
  dddd: weekdayName(),
  ddd: weekdayName(3),
  HH: { ...number('hour', '\\d{2}'), write: ({ hour }) => padded(hour) },
  H: { ...number('hour', '\\d{1,2}'), write: ({ hour }) => String(hour) },
  hh: { ...number('hour', '\\d{2}'), write: ({ hour }) => padded(hour % 12 || 12) },
  h: { ...number('hour', '\\d{1,2}'), write: ({ hour }) => String(hour % 12 || 12) },
  mm: { ...number('minute', '\\d{2}'), write: ({ minute }) => padded(minute) },
  m: { ...number('minute', '\\d{1,2}'), write: ({ minute }) => String(minute) },
  ss: { ...number('second', '\\d{2}'), write: ({ second }) => padded(second) },
  s: { ...number('second', '\\d{1,2}'), write: ({ second }) => String(second) },
  SSS: { ...number('millisecond', '\\d{3}'), write: ({ millisecond }) => padded(millisecond, 3) },
  A: halfOfDay((text) => text.toUpperCase()),
  a: halfOfDay((text) => text),
  ZZ: offset((text) => text.replace(':', '')),
  Z: offset((text) => text),
  X: epoch(1000),
  x: epoch(1),
};

/** Tokens in braces, which workflows name too. */
const bracedTokens: Record<string, string> = {
  ...{ yyyy: 'YYYY', yy: 'YY', Month: 'MMMM', Mon: 'MMM', MM: 'MM', M: 'M', dd: 'DD', d: 'D' },
  ...{ Weekday: 'dddd', Dow: 'ddd', HH: 'HH', H: 'H', hh: 'hh', h: 'h', mm: 'mm', m: 'm', ss: 'ss', s: 's' },
  ...{ SSS: 'SSS', TT: 'A', tt: 'a', Z: 'Z', ZZ: 'ZZ', X: 'X', x: 'x' },
};

const tokenPattern = /\[([^\]]*)\]|YYYY|YY|M{1,4}|DD?|d{3,4}|HH?|hh?|mm?|ss?|SSS|A|a|ZZ?|X|x/g;

/** A format as tokens, and texts that stay as they are. */
function partsOf(format: string): (Token | string)[] {
  if (format === 'Unix time (seconds)') return [epoch(1000)];
  if (format === 'Unix time (milliseconds)') return [epoch(1)];
  const braced = /\{(\w+)\}/g;
  const isBraced = format.search(braced) !== -1;
  const parts: (Token | string)[] = [];
  let end = 0;
  for (const match of format.matchAll(isBraced ? braced : tokenPattern)) {
    const [text, inside = ''] = match;
    if (match.index > end) parts.push(format.slice(end, match.index));
    const name = isBraced ? bracedTokens[inside] : text;
    const token = name === undefined ? undefined : tokens[name];
    if (isBraced && token === undefined)
      throw badInput(
        'format',
        text,
        `one of ${Object.keys(bracedTokens)
          .map((known) => `{${known}}`)
          .join(' ')}`,
      );
    parts.push(token ?? inside);
    end = match.index + text.length;
  }
  if (end < format.length) parts.push(format.slice(end));
  return parts;
}

/** The date as text, or as a number where the format is Unix time. */
export function writeDate(time: ZonedTime, format = defaultFormat): string | number {
  const parts = partsOf(format);
  const text = parts.map((part) => (typeof part === 'string' ? part : part.write(time))).join('');
  return format.startsWith('Unix time') ? Number(text) : text;
}

/** A date of a prop, in the time zone of the action. Throws a ConfigurationError. */
export function readDate(prop: string, value: unknown, { inputFormat, timezone }: DateInput): ZonedTime {
  const zone = zoneOf(timezone);
  const text = String(value ?? '').trim();
  if (text === '') throw badInput(prop, value, 'a date');
  try {
    const time =
      inputFormat === undefined || inputFormat === ''
        ? recognize(text, zone)
        : readAs(text, inputFormat, zone);
    if (time !== undefined) return time;
  } catch (error) {
    // Temporal throws RangeErrors for days that do not exist.
    if (!(error instanceof RangeError)) throw error;
  }
  throw badInput(
    prop,
    value,
    inputFormat ? `a date in the format ${inputFormat}` : 'a date such as 2026-01-22T23:04:05Z',
  );
}

function zoneOf(timezone: string | undefined): string {
  const zone = timezone?.trim() || 'UTC';
  try {
    return Temporal.Instant.fromEpochMilliseconds(0).toZonedDateTimeISO(zone).timeZoneId;
  } catch {
    throw badInput('timezone', zone, 'the name of a time zone, such as Europe/Berlin');
  }
}

function atEpoch(milliseconds: number, zone: string): ZonedTime {
  return Temporal.Instant.fromEpochMilliseconds(milliseconds).toZonedDateTimeISO(zone);
}

/** Numbers of up to 11 digits are seconds. */
function recognize(text: string, zone: string): ZonedTime | undefined {
  if (/^-?\d{9,11}(?:\.\d+)?$/.test(text)) return atEpoch(Math.round(Number(text) * 1000), zone);
  if (/^-?\d{12,16}$/.test(text)) return atEpoch(Number(text), zone);
  const hasOffset =
    /(?:Z|UTC|GMT|[ECMP][SD]T|[+-]\d{2}:?\d{2})\s*(?:\(.*\))?$/i.test(text) && /\d:\d/.test(text);
  const milliseconds = Date.parse(
    hasOffset || /^\d{4}-\d{2}-\d{2}$/.test(text) ? text : `${text}${utcMark(text)}`,
  );
  if (Number.isNaN(milliseconds)) return undefined;
  const time = atEpoch(milliseconds, hasOffset ? zone : 'UTC');
  return hasOffset ? time : time.toPlainDateTime().toZonedDateTime(zone);
}

/** What makes a text without offset one of UTC, whatever the zone of the machine. */
function utcMark(text: string): string {
  return /^\d{4}-\d{2}-\d{2}T[\d:.]+$/.test(text) ? 'Z' : ' UTC';
}

function readAs(text: string, format: string, zone: string): ZonedTime | undefined {
  const parts = partsOf(format);
  const source = parts
    .map((part) => (typeof part === 'string' ? RegExp.escape(part) : `(${part.pattern})`))
    .join('');
  const match = new RegExp(`^${source}$`, 'i').exec(text);
  if (match === null) return undefined;
  const read: DateParts = {};
  const readers = parts.filter((part) => typeof part !== 'string');
  for (const [at, token] of readers.entries()) token.read?.(match[at + 1] ?? '', read);
  if (read.epochMilliseconds !== undefined) return atEpoch(read.epochMilliseconds, zone);
  const { year, month = 1, day = 1, minute = 0, second = 0, millisecond = 0 } = read;
  if (year === undefined)
    throw new ConfigurationError(`inputFormat: found ${format}, expected a format with a year`);
  const { hour: given = 0, isAfternoon } = read;
  const hour = isAfternoon === undefined ? given : (given % 12) + (isAfternoon ? 12 : 0);
  const time = { year, month, day, hour, minute, second, millisecond };
  const plain = Temporal.PlainDateTime.from(time, { overflow: 'reject' });
  return read.offset === undefined
    ? plain.toZonedDateTime(zone)
    : plain.toZonedDateTime(read.offset).withTimeZone(zone);
}
