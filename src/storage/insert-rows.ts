import { CompiledQuery } from 'kysely';
import type { Dialect } from './dialect.ts';
import type { Tables } from './tables.ts';

/** A statement that inserts many rows of one table, for hot paths. */
export interface RowInsert<T extends keyof Tables> {
  readonly table: T;
  readonly columns: readonly (keyof Tables[T] & string)[];
  /** What follows the rows, such as `on conflict (id) do nothing`. */
  readonly ending?: string;
}

/** Rows in one statement: with the widest table far below the parameter limit of SQLite (32,766). */
export const rowsPerInsert = 500;

/** Statement texts, by insert and row count: building them for each commit took 5 % of the service's CPU. */
const texts = new WeakMap<object, Map<string, string>>();

/** The statements (one for `rowsPerInsert` rows) that insert the rows, for `Store.defer`. */
export function insertRows<T extends keyof Tables>(
  dialect: Dialect,
  insert: RowInsert<T>,
  rows: readonly Tables[T][],
): CompiledQuery[] {
  const queries: CompiledQuery[] = [];
  for (let at = 0; at < rows.length; at += rowsPerInsert) {
    const part = rows.slice(at, at + rowsPerInsert);
    const parameters: unknown[] = [];
    for (const row of part) for (const column of insert.columns) parameters.push(row[column]);
    queries.push(CompiledQuery.raw(textOf(dialect, insert, part.length), parameters));
  }
  return queries;
}

function textOf<T extends keyof Tables>(dialect: Dialect, insert: RowInsert<T>, count: number): string {
  const known = texts.get(insert) ?? new Map<string, string>();
  texts.set(insert, known);
  const key = `${dialect.name} ${count}`;
  const text = known.get(key) ?? makeText(dialect, insert, count);
  known.set(key, text);
  return text;
}

function makeText<T extends keyof Tables>(dialect: Dialect, insert: RowInsert<T>, count: number): string {
  const { table, columns, ending = '' } = insert;
  let parameter = 0;
  const placeholder = () => {
    parameter += 1;
    return dialect.parameter(parameter);
  };
  const rows = Array.from({ length: count }, () => `(${columns.map(placeholder).join(', ')})`);
  return `insert into ${table} (${columns.join(', ')}) values ${rows.join(', ')} ${ending}`.trimEnd();
}
