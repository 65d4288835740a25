import { Kysely, PostgresDialect, sql } from 'kysely';
import pg from 'pg';
import type { Logger } from '#lib/logger.ts';
import { GroupCommit } from './group-commit.ts';
import { migrate } from './migrate.ts';
import type { NotifyChannel, Store, Tx } from './store.ts';
import { asStoreError, isRetryable } from './store-errors.ts';
import type { Tables } from './tables.ts';

/** Connections of one process. Writes are batched, so few are needed. */
const connectionsMax = 12;
/** A deadlock or serialization failure is run again at most this often. */
const retriesMax = 4;
/** Between attempts to listen again after the server went away. */
const listenAgainMs = 500;
const oldestVersion = 150_000;

// int8 as number: our largest values are epoch milliseconds and counts.
const int8 = 20;

/** The same tables on PostgreSQL 15 or newer, for any number of processes. */
export async function openPostgresStore(options: { url: string; logger: Logger }): Promise<Store> {
  const types = {
    getTypeParser: (oid: number, format?: 'text') =>
      oid === int8 ? Number : pg.types.getTypeParser(oid, format),
  };
  const pool = new pg.Pool({
    connectionString: options.url,
    max: connectionsMax,
    types: types as pg.CustomTypesConfig,
    connectionTimeoutMillis: 10_000,
    application_name: 'millrace',
  });
  // An idle connection that dies is replaced by the pool; without a listener it would end the process.
  pool.on('error', (error) => options.logger.warn({ error: error.message }, 'postgres.connection-lost'));
  const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) });
  const transaction = async <T>(work: (tx: Tx) => Promise<T>): Promise<T> => {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await db.transaction().execute(work);
      } catch (error) {
        if (!isRetryable(error) || attempt > retriesMax) throw asStoreError(error);
      }
    }
  };
  const writes = new GroupCommit(transaction);
  const listener = new NotificationListener(options.url, options.logger);
  const close = async (): Promise<void> => {
    await writes.drain();
    await listener.close();
    await db.destroy();
  };
  try {
    await checkVersion(db);
    await migrate({ name: 'postgres', read: db, transaction }, async () => {});
    await listener.start();
  } catch (error) {
    await close();
    throw error;
  }
  return {
    name: 'postgres',
    read: db,
    transaction,
    writes,
    lockRows: (query, { skipLocked = false } = {}) =>
      skipLocked ? query.forUpdate().skipLocked() : query.forUpdate(),
    notify: async (tx, channel, payload) => {
      await sql`select pg_notify(${channel}, ${payload})`.execute(tx);
    },
    onNotify: (callback) => listener.add(callback),
    reclaimSpace: async () => {},
    close,
  };
}

async function checkVersion(db: Kysely<Tables>): Promise<void> {
  const { rows } = await sql<{
    version: number;
  }>`select current_setting('server_version_num')::int as version`.execute(db);
  const version = rows[0]?.version ?? 0;
  if (version < oldestVersion)
    throw new Error(`MILLRACE_DATABASE_URL: expected PostgreSQL 15 or newer, found ${version}`);
}

/** One connection of its own that listens; it comes back by itself, and the slow polls of its users cover the gap. */
class NotificationListener {
  readonly #url: string;
  readonly #logger: Logger;
  readonly #callbacks: ((channel: NotifyChannel, payload: string) => void)[] = [];
  #client: pg.Client | undefined;
  #again: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(url: string, logger: Logger) {
    this.#url = url;
    this.#logger = logger;
  }

  add(callback: (channel: NotifyChannel, payload: string) => void): void {
    this.#callbacks.push(callback);
  }

  async start(): Promise<void> {
    const client = new pg.Client({ connectionString: this.#url, application_name: 'millrace listener' });
    this.#client = client;
    client.on('error', (error) => this.#lost(error));
    client.on('end', () => this.#lost(new Error('connection ended')));
    client.on('notification', ({ channel, payload }) => {
      for (const callback of this.#callbacks) callback(channel as NotifyChannel, payload ?? '');
    });
    await client.connect();
    await client.query('listen millrace_jobs');
    await client.query('listen millrace_events');
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#again);
    await this.#client?.end().catch(() => {});
  }

  #lost(error: Error): void {
    if (this.#closed || this.#again !== undefined) return;
    this.#logger.warn({ error: error.message }, 'postgres.listener-lost');
    this.#again = setTimeout(() => {
      this.#again = undefined;
      this.start().catch((cause) => this.#lost(cause as Error));
    }, listenAgainMs);
  }
}
