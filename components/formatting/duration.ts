import { badInput } from '../action.ts';

const units: Record<string, string> = {
  ...{ ms: 'milliseconds', millisecond: 'milliseconds' },
  ...{ s: 'seconds', sec: 'seconds', second: 'seconds' },
  ...{ m: 'minutes', min: 'minutes', minute: 'minutes' },
  ...{ h: 'hours', hr: 'hours', hour: 'hours' },
  ...{ d: 'days', day: 'days' },
  ...{ w: 'weeks', week: 'weeks' },
  ...{ mo: 'months', month: 'months' },
  ...{ y: 'years', year: 'years' },
};

/** `1d 12h`, `2 weeks` or ISO 8601 as in `P1DT12H`. */
export function readDuration(prop: string, value: unknown): Temporal.Duration {
  const text = String(value ?? '').trim();
  const refused = () =>
    badInput(prop, value, 'a duration such as 1d 12h, with the units ms, s, m, h, d, w, mo, y');
  try {
    if (/^[+-]?P/i.test(text)) return Temporal.Duration.from(text);
    const read: Record<string, number> = {};
    const rest = text.replace(/([+-]?\d+)\s*([a-z]+)[\s,]*/gi, (_, count: string, name: string) => {
      const unit = units[name.toLowerCase()] ?? units[name.toLowerCase().replace(/s$/, '')];
      if (unit === undefined) throw refused();
      read[unit] = (read[unit] ?? 0) + Number(count);
      return '';
    });
    if (text === '' || rest !== '') throw refused();
    return Temporal.Duration.from(read);
  } catch (error) {
    if (error instanceof RangeError) throw refused();
    throw error;
  }
}
