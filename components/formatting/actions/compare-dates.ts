import { type ActionRun, counted } from '../../action.ts';
import { type DateInput, dateProps, readDate } from '../date-time.ts';

const unitsMs = { day: 86_400_000, hour: 3_600_000, minute: 60_000, second: 1000 };

export default {
  key: 'formatting-compare-dates',
  name: '[Date/Time] Compare Dates',
  version: '0.0.1',
  description:
    'Returns the duration between two dates, and whether they are equal. Example: `2026-01-22` and `2026-01-24` are `"2 days"` apart',
  type: 'action',
  props: {
    ...dateProps,
    inputDate: {
      ...dateProps.inputDate,
      label: 'Start date',
      description: 'First date; where it is the later one, `datesSwapped` of the result is true',
    },
    endDate: { type: 'string', label: 'End date', description: 'Second date, in the same format' },
  },
  async run(this: DateInput & { inputDate: string; endDate: string }, { $ }: ActionRun) {
    const start = readDate('inputDate', this.inputDate, this).epochMilliseconds;
    const end = readDate('endDate', this.endDate, this).epochMilliseconds;
    const totalMs = Math.abs(end - start);
    const result = inWords(totalMs);
    $.export('$summary', totalMs === 0 ? 'The dates are equal' : `The dates are ${result} apart`);
    return {
      datesSwapped: start > end,
      result,
      totalDays: totalMs / unitsMs.day,
      totalHours: totalMs / unitsMs.hour,
      totalMinutes: totalMs / unitsMs.minute,
      totalSeconds: totalMs / unitsMs.second,
    };
  },
};

function inWords(totalMs: number): string {
  const words: string[] = [];
  let left = totalMs;
  for (const [name, size] of Object.entries(unitsMs)) {
    const count = Math.floor(left / size);
    if (count > 0) words.push(counted(count, name));
    left -= count * size;
  }
  return words.length > 0 ? words.join(', ') : totalMs === 0 ? 'equal' : 'less than a second';
}
