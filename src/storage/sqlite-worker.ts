import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite';
import { parentPort, workerData } from 'node:worker_threads';

/**
 * One SQLite connection in a thread of its own, so that an fsync never holds the service's event loop
 * (on the main thread a loaded store held it for 10 to 16 ms, from here 2 to 3 ms). Statements come as messages and
 * are answered in order; the connection knows nothing about transactions beyond what it is told to execute.
 */
export interface SqliteRequest {
  id: number;
  /** At least one; those behind one that fails are not executed. */
  statements: readonly SqliteStatement[];
}

export interface SqliteStatement {
  sql: string;
  parameters: readonly unknown[];
}

export interface StatementResult {
  rows: Record<string, unknown>[];
  changes: number;
}

export type SqliteReply =
  | { id: number; results: StatementResult[] }
  | { id: number; error: { message: string; code: number } };

export interface SqliteWorkerData {
  file: string;
  readOnly: boolean;
}

/** Prepared statements kept, by SQL text; multi-row inserts make a text per row count. */
const statementsMax = 400;

const { file, readOnly } = workerData as SqliteWorkerData;
const port = parentPort;
if (port === null) throw new Error('sqlite-worker.ts runs in a worker thread');

const database = new DatabaseSync(file, { readOnly, timeout: 10_000 });
if (!readOnly) {
  // auto_vacuum has to be set before the first table exists; it is stored in the file.
  database.exec('pragma auto_vacuum = incremental');
  database.exec('pragma journal_mode = wal');
  database.exec('pragma synchronous = full');
  database.exec('pragma wal_autocheckpoint = 2000');
}
database.exec('pragma foreign_keys = on');
database.exec('pragma temp_store = memory');
database.exec('pragma cache_size = -32000');

const statements = new Map<string, { statement: StatementSync; returnsRows: boolean }>();

function prepare(sql: string): { statement: StatementSync; returnsRows: boolean } {
  const known = statements.get(sql);
  if (known !== undefined) {
    statements.delete(sql);
    statements.set(sql, known);
    return known;
  }
  const statement = database.prepare(sql);
  // `run` takes one step, and a pragma such as incremental_vacuum does one page a step: `all` goes on to its end.
  const prepared = { statement, returnsRows: statement.columns().length > 0 || /^\s*pragma\b/i.test(sql) };
  statements.set(sql, prepared);
  if (statements.size > statementsMax) {
    const oldest = statements.keys().next().value;
    if (oldest !== undefined) statements.delete(oldest);
  }
  return prepared;
}

function execute(request: SqliteRequest): SqliteReply {
  try {
    const results: StatementResult[] = [];
    for (const { sql, parameters } of request.statements) {
      const { statement, returnsRows } = prepare(sql);
      const values = parameters as SQLInputValue[];
      if (returnsRows) {
        const rows = statement.all(...values) as Record<string, unknown>[];
        results.push({ rows, changes: rows.length });
      } else {
        results.push({ rows: [], changes: Number(statement.run(...values).changes) });
      }
    }
    return { id: request.id, results };
  } catch (error) {
    const { message, errcode } = error as Error & { errcode?: number };
    return { id: request.id, error: { message, code: errcode ?? 0 } };
  }
}

port.on('message', (message: SqliteRequest[] | 'close') => {
  if (message === 'close') {
    statements.clear();
    database.close();
    port.postMessage('closed');
    port.close();
    return;
  }
  port.postMessage(message.map(execute));
});
