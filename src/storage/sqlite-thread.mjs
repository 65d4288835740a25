import { DatabaseSync } from 'node:sqlite';
import { parentPort, workerData } from 'node:worker_threads';
import { StoreFiles } from './store-files.mjs';

/**
 * One SQLite connection in a thread of its own, so that an fsync never holds the service's event loop
 * (on the main thread a loaded store held it for 10 to 16 ms, from here 2 to 3 ms). Statements come as messages and
 * are answered in order; the connection knows nothing about transactions beyond the statements it executes.
 *
 * JavaScript, unlike the rest: a thread that loads TypeScript loads Node's type stripper too, 13 MB for each thread.
 *
 * @import { SQLInputValue, StatementSync } from 'node:sqlite'
 * @import { SqliteReply, SqliteRequest, SqliteThreadData, StatementResult } from './sqlite-messages.ts'
 */

/** Prepared statements kept, by SQL text; multi-row inserts make a text per row count. */
const statementsMax = 400;

/** @type {SqliteThreadData} */
const { file, readOnly } = workerData;
const port = parentPort;
if (port === null) throw new Error('sqlite-thread.mjs runs in a worker thread');

const database = new DatabaseSync(file, { readOnly, timeout: 10_000 });
if (!readOnly) {
  // auto_vacuum has to be set before the first table exists; it is stored in the file.
  database.exec('pragma auto_vacuum = incremental');
  database.exec('pragma journal_mode = wal');
  database.exec('pragma synchronous = full');
  database.exec('pragma wal_autocheckpoint = 2000');
}
const files = new StoreFiles(file);
database.exec('pragma foreign_keys = on');
database.exec('pragma temp_store = memory');
database.exec('pragma cache_size = -32000');

/** SQLITE_READONLY_DBMOVED, which SQLite itself gives only where it has no write-ahead log. */
const databaseMoved = 1032;
/** Beyond SQLite's own codes: the commit went to files that are no longer those of the store. */
const committedElsewhere = -1;

/** @typedef {{ statement: StatementSync, returnsRows: boolean }} Prepared */

/** @type {Map<string, Prepared>} */
const statements = new Map();

/**
 * @param {string} sql
 * @returns {Prepared}
 */
function prepare(sql) {
  const known = statements.get(sql);
  if (known !== undefined) {
    statements.delete(sql);
    statements.set(sql, known);
    return known;
  }
  const statement = database.prepare(sql);
  // `run` takes one step, and a pragma such as incremental_vacuum does one page a step: `all` runs it to its end.
  const prepared = { statement, returnsRows: statement.columns().length > 0 || /^\s*pragma\b/i.test(sql) };
  statements.set(sql, prepared);
  if (statements.size > statementsMax) {
    const oldest = statements.keys().next().value;
    if (oldest !== undefined) statements.delete(oldest);
  }
  return prepared;
}

/**
 * @param {SqliteRequest} request
 * @returns {SqliteReply}
 */
function execute(request) {
  try {
    /** @type {StatementResult[]} */
    const results = [];
    for (const { sql, parameters } of request.statements) {
      if (sql === 'begin immediate') refuseChangedFiles(databaseMoved);
      const { statement, returnsRows } = prepare(sql);
      const values = /** @type {SQLInputValue[]} */ (parameters);
      if (returnsRows) {
        const rows = statement.all(...values);
        results.push({ rows, changes: rows.length });
      } else {
        results.push({ rows: [], changes: Number(statement.run(...values).changes) });
      }
      // Once more: what was committed must not be acknowledged when its files went away meanwhile.
      if (sql === 'commit') refuseChangedFiles(committedElsewhere);
    }
    return { id: request.id, results };
  } catch (error) {
    const { message, errcode } = /** @type {Error & { errcode?: number }} */ (error);
    return { id: request.id, error: { message, code: errcode ?? 0 } };
  }
}

/** @param {number} errcode */
function refuseChangedFiles(errcode) {
  const path = files.changed();
  if (path !== undefined)
    throw Object.assign(new Error(`${path} was removed or replaced while it was in use`), { errcode });
}

port.on('message', (/** @type {SqliteRequest[] | 'close'} */ message) => {
  if (message === 'close') {
    statements.clear();
    database.close();
    port.postMessage('closed');
    port.close();
    return;
  }
  port.postMessage(message.map(execute));
});
