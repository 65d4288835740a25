import Papa from 'papaparse';
import { type ActionRun, ConfigurationError, counted, textOf } from '../../action.ts';
import { delimiterOf, delimiterOptions } from '../delimiter.ts';

export default {
  key: 'csv-parse',
  name: 'Parse CSV',
  version: '0.0.1',
  description:
    'Turns CSV into a list of objects, one for each row. Example: the lines `id,name` and `7,Ada` become `[{"id": "7", "name": "Ada"}]`',
  type: 'action',
  props: {
    input: { type: 'string', label: 'Input', description: 'CSV text' },
    header: {
      type: 'boolean',
      label: 'First row has names',
      description: 'The first row has the names of columns; else each row becomes a list',
      optional: true,
      default: true,
    },
    delimiter: {
      type: 'string',
      label: 'Delimiter',
      description: 'Character between values; without it, it is recognized',
      optional: true,
      options: delimiterOptions,
      otherValues: true,
    },
    convertTypes: {
      type: 'boolean',
      label: 'Convert types',
      description: 'Numbers, `true` and `false` become values of their types instead of texts',
      optional: true,
      default: false,
    },
  },
  async run(
    this: { input: string; header?: boolean; delimiter?: string; convertTypes?: boolean },
    { $ }: ActionRun,
  ) {
    const { header = true, delimiter = '', convertTypes = false } = this;
    const { data, errors } = Papa.parse<unknown>(textOf('input', this.input), {
      header,
      delimiter: delimiter === '' ? '' : delimiterOf(delimiter),
      dynamicTyping: convertTypes,
      skipEmptyLines: 'greedy',
    });
    // Rows that are short, and a delimiter that a single column does not show, are no mistakes.
    const problem = errors.find(({ code }) => code !== 'UndetectableDelimiter' && code !== 'TooFewFields');
    if (problem !== undefined) {
      // Counts of wrong fields begin behind the names, those of wrong quotes before them.
      const before = header && problem.type === 'FieldMismatch' ? 2 : 1;
      throw new ConfigurationError(`input: ${problem.message} in row ${(problem.row ?? 0) + before}`);
    }
    $.export('$summary', `Parsed ${counted(data.length, 'row')}`);
    return data;
  },
};
