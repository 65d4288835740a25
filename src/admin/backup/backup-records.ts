import { bytesOfRow, type Cell } from '#storage/snapshot.ts';
import { BackupError } from './backup-error.ts';
import { keptTables } from './backup-tables.ts';

/**
 * What is in the body of a backup, unsealed and unpacked: lines of JSON.
 *
 *     {"table":"users","columns":["id","username",…]}
 *     ["u_…","admin",…]                                  a row: strings, numbers, null, {"base64":"…"} for bytes
 *     {"end":"users","rows":1}
 *     …
 *     {"complete":true,"tables":48,"rows":123456}        the last line
 */

/** A row in text; what is larger could not be read again. */
const lineBytesMax = 256 * 1024 * 1024;
/** Rows are handed on in batches of about so much. */
const batchRowsMax = 500;
const batchBytesMax = 4 * 1024 * 1024;

export interface TableBatch {
  table: string;
  columns: readonly string[];
  rows: Cell[][];
}

export function tableLine(table: string, columns: readonly string[]): string {
  return `${JSON.stringify({ table, columns })}\n`;
}

export function rowLine(row: readonly Cell[]): string {
  const line = JSON.stringify(
    row.map((cell) => (cell instanceof Uint8Array ? { base64: Buffer.from(cell).toString('base64') } : cell)),
  );
  if (line.length > lineBytesMax / 4)
    throw new BackupError(`a row of ${line.length} characters is more than a backup can hold`);
  return `${line}\n`;
}

export function endLine(table: string, rows: number): string {
  return `${JSON.stringify({ end: table, rows })}\n`;
}

export function completeLine(tables: number, rows: number): string {
  return `${JSON.stringify({ complete: true, tables, rows })}\n`;
}

/** The rows of all tables in their order. Throws `BackupError` where a line, a row or the end is not as it was written. */
export async function* readRecords(source: AsyncIterable<Buffer>): AsyncGenerator<TableBatch> {
  let batch: TableBatch | undefined;
  let bytes = 0;
  const counts = { table: 0, tables: 0, rows: 0 };
  const names: ReadonlySet<string> = new Set(keptTables);
  let isComplete = false;
  for await (const line of linesOf(source)) {
    const record: unknown = parse(line);
    if (isComplete) throw notAsWritten('there is more after its end');
    if (Array.isArray(record)) {
      if (batch === undefined || record.length !== batch.columns.length)
        throw notAsWritten('a row does not fit its table');
      const row = record.map(cellOf);
      batch.rows.push(row);
      counts.table += 1;
      bytes += bytesOfRow(row);
      if (batch.rows.length < batchRowsMax && bytes < batchBytesMax) continue;
      yield batch;
      batch = { ...batch, rows: [] };
      bytes = 0;
      continue;
    }
    const { table, columns, end, rows, complete, tables } = (record ?? {}) as Record<string, unknown>;
    if (batch === undefined && typeof table === 'string' && isNames(columns)) {
      // Rows go to the table of this name: in a file that was made by hand it could be one of the database itself.
      if (!names.has(table)) throw notAsWritten('it has a table that is in no backup');
      batch = { table, columns, rows: [] };
      bytes = 0;
      counts.table = 0;
    } else if (batch !== undefined && end === batch.table && rows === counts.table) {
      // Also one without rows: who reads knows then that the table was there.
      yield batch;
      counts.tables += 1;
      counts.rows += counts.table;
      batch = undefined;
    } else if (batch === undefined && complete === true && tables === counts.tables && rows === counts.rows) {
      isComplete = true;
    } else {
      throw notAsWritten('a number of rows is not what it was');
    }
  }
  if (!isComplete) throw notAsWritten('its end is missing');
}

async function* linesOf(source: AsyncIterable<Buffer>): AsyncGenerator<string> {
  let parts: Buffer[] = [];
  let size = 0;
  for await (const chunk of source) {
    let from = 0;
    for (let at = chunk.indexOf(10); at !== -1; at = chunk.indexOf(10, from)) {
      parts.push(chunk.subarray(from, at));
      yield Buffer.concat(parts).toString('utf8');
      parts = [];
      size = 0;
      from = at + 1;
    }
    if (from === chunk.length) continue;
    parts.push(chunk.subarray(from));
    size += chunk.length - from;
    if (size > lineBytesMax) throw notAsWritten('a row is larger than any that is written');
  }
  if (size > 0) throw notAsWritten('its last row is cut off');
}

function parse(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch (error) {
    throw new BackupError('the content of the backup is damaged: a row is no JSON', { cause: error });
  }
}

function cellOf(value: unknown): Cell {
  if (value === null || typeof value === 'string' || typeof value === 'number') return value;
  const { base64 } = value as { base64?: unknown };
  if (typeof base64 !== 'string') throw notAsWritten('a value is of no kind that is written');
  return Buffer.from(base64, 'base64');
}

function isNames(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((name) => typeof name === 'string' && /^[a-z_0-9]+$/.test(name));
}

function notAsWritten(what: string): BackupError {
  return new BackupError(`the content of the backup is damaged: ${what}`);
}
