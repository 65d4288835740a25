import {
  CompiledQuery,
  type DatabaseConnection,
  type Driver,
  PostgresDialect,
  type PostgresDialectConfig,
  type QueryResult,
  type TransactionSettings,
} from 'kysely';
import { isOutcomeUnknown, readOutcome, type TransactionId } from './commit-outcome.ts';
import type { DatabaseHosts } from './database-hosts.ts';
import { asStoreError } from './store-errors.ts';

/**
 * Kysely on PostgreSQL, with errors of the connection classified where they are thrown: a reader outside a transaction
 * gets the same `UnavailableError` as a writer, and an error of the work inside a transaction never becomes one.
 */
export class StorePostgresDialect extends PostgresDialect {
  readonly #options: StoreDriverOptions;

  constructor(config: PostgresDialectConfig, options: StoreDriverOptions) {
    super(config);
    this.#options = options;
  }

  override createDriver(): Driver {
    return new StoreDriver(super.createDriver(), this.#options);
  }
}

interface StoreDriverOptions {
  hosts: DatabaseHosts;
  /** How a transaction begins. */
  begin: string;
}

class StoreConnection implements DatabaseConnection {
  readonly inner: DatabaseConnection;
  /** The id of the transaction under way. */
  transaction: TransactionId | undefined;

  constructor(inner: DatabaseConnection) {
    this.inner = inner;
  }

  executeQuery<R>(query: CompiledQuery): Promise<QueryResult<R>> {
    return this.inner.executeQuery<R>(query).catch(rethrow);
  }

  streamQuery(): never {
    throw new Error('streaming is not offered: page with limits instead');
  }
}

class StoreDriver implements Driver {
  readonly #inner: Driver;
  readonly #hosts: DatabaseHosts;
  readonly #begin: string;

  constructor(inner: Driver, { hosts, begin }: StoreDriverOptions) {
    this.#inner = inner;
    this.#hosts = hosts;
    this.#begin = begin;
  }

  init(): Promise<void> {
    return this.#inner.init();
  }

  async acquireConnection(): Promise<DatabaseConnection> {
    const first = this.#inner.acquireConnection();
    // The host that connections went to until now is gone: another may have taken over. Nothing was sent yet.
    const acquired =
      this.#hosts.urls.length === 1 ? first : first.catch(() => this.#inner.acquireConnection());
    return new StoreConnection(await acquired.catch(rethrow));
  }

  async beginTransaction(connection: DatabaseConnection, settings: TransactionSettings): Promise<void> {
    const isPlain = settings.isolationLevel === undefined && settings.accessMode === undefined;
    if (!isPlain || !(connection instanceof StoreConnection)) {
      await this.#inner.beginTransaction(innerOf(connection), settings).catch(rethrow);
      return;
    }
    try {
      const { rows } = await connection.inner.executeQuery<TransactionId>(CompiledQuery.raw(this.#begin));
      connection.transaction = rows[0];
    } catch (error) {
      // It may be open: its first half is done when its second one fails.
      await this.rollbackTransaction(connection);
      rethrow(error);
    }
  }

  /** When the reply to a commit is lost, the caller waits until the outcome is known, and is never given a wrong one. */
  async commitTransaction(connection: DatabaseConnection): Promise<void> {
    try {
      await this.#inner.commitTransaction(innerOf(connection));
    } catch (error) {
      const transaction = connection instanceof StoreConnection ? connection.transaction : undefined;
      if (transaction === undefined || !isOutcomeUnknown(error)) rethrow(error);
      if ((await readOutcome(this.#hosts, transaction)) === 'aborted') rethrow(error);
    }
  }

  async rollbackTransaction(connection: DatabaseConnection): Promise<void> {
    // On a connection that broke there is nothing left to roll back; the first error is the one to report.
    await this.#inner.rollbackTransaction(innerOf(connection)).catch(() => {});
  }

  releaseConnection(connection: DatabaseConnection): Promise<void> {
    return this.#inner.releaseConnection(innerOf(connection));
  }

  destroy(): Promise<void> {
    return this.#inner.destroy();
  }
}

function innerOf(connection: DatabaseConnection): DatabaseConnection {
  return connection instanceof StoreConnection ? connection.inner : connection;
}

function rethrow(error: unknown): never {
  throw asStoreError(error);
}
