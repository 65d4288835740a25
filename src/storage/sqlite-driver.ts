import {
  type CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  type QueryResult,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
} from 'kysely';
import { must } from '#lib/assert.ts';
import type { SqliteConnection } from './sqlite-connection.ts';
import type { SqliteStatement, StatementResult } from './sqlite-messages.ts';
import { asStoreError } from './store-errors.ts';

/** Kysely on one `SqliteConnection`: transactions take turns, since one connection has one transaction. */
export function sqliteDialect(
  connection: SqliteConnection,
  driver = new SqliteThreadDriver(connection),
): Dialect {
  return {
    createAdapter: () => new SqliteAdapter(),
    createDriver: () => driver,
    createIntrospector: (db) => new SqliteIntrospector(db),
    createQueryCompiler: () => new SqliteQueryCompiler(),
  };
}

/**
 * Statements whose result no caller waits for travel with the next one that is waited for: the begin of a transaction with
 * its first statement, what was `defer`red with the commit. A transaction that only writes is one message to the thread.
 */
export class SqliteThreadDriver implements Driver {
  readonly #connection: SqliteConnection;
  #turn: Promise<void> = Promise.resolve();
  #endTurn: (() => void) | undefined;
  /** Statements of the transaction under way that are not sent yet. */
  #deferred: SqliteStatement[] = [];
  /** True when the thread has the transaction. */
  #begun = false;

  constructor(connection: SqliteConnection) {
    this.#connection = connection;
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<DatabaseConnection> {
    const previous = this.#turn;
    let end: () => void = () => {};
    this.#turn = new Promise((resolve) => {
      end = resolve;
    });
    await previous;
    this.#endTurn = end;
    return {
      executeQuery: async <R>(query: CompiledQuery): Promise<QueryResult<R>> => {
        const [result] = await this.#send([query]).catch(rethrow);
        const { rows, changes } = must(result, 'the result of a statement');
        return { rows: rows as R[], numAffectedRows: BigInt(changes) };
      },
      streamQuery: () => {
        throw new Error('streaming is not offered: page with limits instead');
      },
    };
  }

  /** Executes a statement of the transaction under way with whatever comes next; a failure shows there. */
  defer(query: CompiledQuery): void {
    this.#deferred.push({ sql: query.sql, parameters: query.parameters });
  }

  /** The rows of several statements of the transaction under way, asked for in one message. */
  async ask(queries: readonly CompiledQuery[]): Promise<Record<string, unknown>[][]> {
    const results = await this.#send(queries).catch(rethrow);
    return results.map(({ rows }) => rows);
  }

  async beginTransaction(): Promise<void> {
    // immediate: the write lock is taken immediately, so no statement inside can meet a lock it has to wait for.
    this.#deferred = [{ sql: 'begin immediate', parameters: [] }];
    this.#begun = false;
  }

  async commitTransaction(): Promise<void> {
    const isEmpty = !this.#begun && this.#deferred.length === 1;
    if (isEmpty) this.#deferred = [];
    else await this.#send([{ sql: 'commit', parameters: [] }]).catch(rethrow);
  }

  async rollbackTransaction(): Promise<void> {
    this.#deferred = [];
    // A full disk makes SQLite roll back by itself; then there is nothing left to roll back.
    if (this.#begun) await this.#connection.run('rollback', []).catch(() => {});
  }

  /** Sends what was deferred and these; answers the results of these. */
  async #send(statements: readonly SqliteStatement[]): Promise<StatementResult[]> {
    const deferred = this.#deferred;
    const all = [...deferred, ...statements.map(({ sql, parameters }) => ({ sql, parameters }))];
    this.#deferred = [];
    this.#begun = true;
    return (await this.#connection.runTogether(all)).slice(deferred.length);
  }

  async releaseConnection(): Promise<void> {
    this.#endTurn?.();
  }

  async destroy(): Promise<void> {}
}

/** Here rather than in the store, so that a reader outside a transaction meets the same errors as a writer. */
function rethrow(error: unknown): never {
  throw asStoreError(error);
}
