import { type ActionRun, badInput } from '../../action.ts';
import { type DateInput, dateProps, outputFormatProp, readDate, writeDate } from '../date-time.ts';
import { readDuration } from '../duration.ts';

export default {
  key: 'formatting-add-subtract-time',
  name: '[Date/Time] Add/Subtract Time',
  version: '0.0.1',
  description:
    'Adds a duration to a date, or subtracts it. Example: `"2026-01-31"` plus `1d` in the format `YYYY-MM-DD` is `"2026-02-01"`',
  type: 'action',
  props: {
    ...dateProps,
    operation: {
      type: 'string',
      label: 'Operation',
      description: 'Whether the result is later or earlier',
      options: ['Add', 'Subtract'],
    },
    duration: {
      type: 'string',
      label: 'Duration',
      description: '`1s`, `1m`, `1h`, `1d`, `1w`, `1mo` and `1y`, also together: `1d 12h`',
    },
    outputFormat: { ...outputFormatProp, optional: true },
  },
  async run(
    this: DateInput & { inputDate: string; operation: string; duration: string; outputFormat?: string },
    { $ }: ActionRun,
  ) {
    const { operation, inputFormat } = this;
    if (operation !== 'Add' && operation !== 'Subtract')
      throw badInput('operation', operation, 'Add or Subtract');
    const time = readDate('inputDate', this.inputDate, this);
    const duration = readDuration('duration', this.duration);
    // Days and longer are days of the calendar, also where the clocks change in between.
    const moved = operation === 'Add' ? time.add(duration) : time.subtract(duration);
    const result = writeDate(moved, this.outputFormat || inputFormat || undefined);
    $.export('$summary', `${operation === 'Add' ? 'Added' : 'Subtracted'} ${this.duration}: ${result}`);
    return result;
  },
};
