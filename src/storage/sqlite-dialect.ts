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
import type { SqliteConnection } from './sqlite-connection.ts';
import { asStoreError } from './store-errors.ts';

/** Kysely on one `SqliteConnection`: transactions take turns, since one connection has one transaction. */
export function sqliteDialect(connection: SqliteConnection): Dialect {
  return {
    createAdapter: () => new SqliteAdapter(),
    createDriver: () => new SqliteThreadDriver(connection),
    createIntrospector: (db) => new SqliteIntrospector(db),
    createQueryCompiler: () => new SqliteQueryCompiler(),
  };
}

class SqliteThreadDriver implements Driver {
  readonly #connection: SqliteConnection;
  #turn: Promise<void> = Promise.resolve();
  #endTurn: (() => void) | undefined;

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
        const { rows, changes } = await this.#connection.run(query.sql, query.parameters).catch(rethrow);
        return { rows: rows as R[], numAffectedRows: BigInt(changes) };
      },
      streamQuery: () => {
        throw new Error('streaming is not offered: page with limits instead');
      },
    };
  }

  async beginTransaction(): Promise<void> {
    // immediate: the write lock is taken now, so no statement inside can meet a lock it has to wait for.
    await this.#connection.run('begin immediate', []).catch(rethrow);
  }

  async commitTransaction(): Promise<void> {
    await this.#connection.run('commit', []).catch(rethrow);
  }

  async rollbackTransaction(): Promise<void> {
    // A full disk makes SQLite roll back by itself; then there is nothing left to roll back.
    await this.#connection.run('rollback', []).catch(() => {});
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
