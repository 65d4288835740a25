import type { ActionRun } from '../../action.ts';
import { type DateInput, dateProps, outputFormatProp, readDate, writeDate } from '../date-time.ts';

export default {
  key: 'formatting-date-time-format',
  name: '[Date/Time] Format',
  version: '0.0.1',
  description:
    'Writes a date in another format or time zone. Example: `"2026-01-22T23:04:05Z"` in `MMM DD YYYY` becomes `"Jan 22 2026"`',
  type: 'action',
  props: { ...dateProps, outputFormat: outputFormatProp },
  async run(this: DateInput & { inputDate: string; outputFormat: string }, { $ }: ActionRun) {
    const result = writeDate(readDate('inputDate', this.inputDate, this), this.outputFormat);
    $.export('$summary', `Formatted the date as ${result}`);
    return result;
  },
};
