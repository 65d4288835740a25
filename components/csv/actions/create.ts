import Papa from 'papaparse';
import { type ActionRun, badInput, counted, listOf } from '../../action.ts';
import { delimiterOf, delimiterOptions } from '../delimiter.ts';

export default {
  key: 'csv-create',
  name: 'Create CSV',
  version: '0.0.1',
  description:
    'Turns a list of objects into CSV. Example: `[{"id": 7, "name": "Ada"}]` becomes the lines `id,name` and `7,Ada`',
  type: 'action',
  props: {
    input: { type: 'any', label: 'Input', description: 'List of objects, or of lists' },
    columns: {
      type: 'string[]',
      label: 'Columns',
      description: 'Names of the columns in their order; without it, all names of the objects',
      optional: true,
    },
    header: {
      type: 'boolean',
      label: 'First row has names',
      description: 'Begin with a row of the names of columns',
      optional: true,
      default: true,
    },
    delimiter: {
      type: 'string',
      label: 'Delimiter',
      description: 'Character between values',
      optional: true,
      default: ',',
      options: delimiterOptions,
      otherValues: true,
    },
    escapeFormulas: {
      type: 'boolean',
      label: 'Escape formulas',
      description: 'Put an apostrophe before values that a spreadsheet would take for formulas',
      optional: true,
      default: false,
    },
  },
  async run(
    this: {
      input: unknown;
      columns?: string[];
      header?: boolean;
      delimiter?: string;
      escapeFormulas?: boolean;
    },
    { $ }: ActionRun,
  ) {
    const { header = true, delimiter = ',', escapeFormulas = false } = this;
    const rows = listOf('input', this.input);
    const wrong = rows.find((row) => typeof row !== 'object' || row === null);
    if (wrong !== undefined) throw badInput('input', wrong, 'an object or a list in each place');
    const columns = this.columns ?? [
      ...new Set(rows.flatMap((row) => (Array.isArray(row) ? [] : Object.keys(row as object)))),
    ];
    const cells = rows.map((row) =>
      (Array.isArray(row) ? row : columns.map((column) => (row as Record<string, unknown>)[column])).map(
        cellOf,
      ),
    );
    const config = { delimiter: delimiterOf(delimiter), escapeFormulae: escapeFormulas, newline: '\r\n' };
    const lines = header && columns.length > 0 ? [columns, ...cells] : cells;
    $.export('$summary', `Created CSV of ${counted(rows.length, 'row')}`);
    return Papa.unparse(lines, config);
  },
};

function cellOf(value: unknown): unknown {
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : value;
}
