import { randomUUID } from 'node:crypto';
import { Kysely, sql } from 'kysely';
import pg from 'pg';
import { toError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import { GroupCommit } from './group-commit.ts';
import { type Migration, migrate, migrations } from './migrate.ts';
import { StorePostgresDialect } from './postgres-dialect.ts';
import type { NotifyChannel, Store, Tx } from './store.ts';
import { asStoreError, isRetryable } from './store-errors.ts';
import type { Tables } from './tables.ts';

/** Connections of one process. Writes are batched, so few are needed. */
const connectionsMax = 12;
/** A deadlock or serialization failure is run again at most this often. */
const retriesMax = 4;
/** Between attempts to listen again after the server went away. */
const listenAgainMs = 500;
const connectTimeoutMs = 10_000;
/** A process that is suspended inside a transaction must not hold the others' rows for ever. */
const idleInTransactionMs = 30_000;
const oldestVersion = 150_000;

// int8 as number: our largest values are epoch milliseconds and counts.
const int8 = 20;

const notifyChannels: readonly NotifyChannel[] = ['millrace_jobs', 'millrace_events'];

/** The same tables on PostgreSQL 15 or newer, for any number of processes. */
export async function openPostgresStore(options: {
  url: string;
  logger: Logger;
  /** For tests of migrations. */
  migrations?: readonly Migration[];
}): Promise<Store> {
  const types = {
    getTypeParser: (oid: number, format?: 'text') =>
      oid === int8 ? Number : pg.types.getTypeParser(oid, format),
  };
  const pool = new pg.Pool({
    connectionString: options.url,
    max: connectionsMax,
    types: types as pg.CustomTypesConfig,
    connectionTimeoutMillis: connectTimeoutMs,
    idle_in_transaction_session_timeout: idleInTransactionMs,
    keepAlive: true,
    application_name: 'millrace',
  });
  // An idle connection that dies is replaced by the pool; without a listener it would end the process.
  pool.on('error', (error) => options.logger.warn({ error: error.message }, 'postgres.connection-lost'));
  // The pool listens only to idle connections; one that dies between two statements of a transaction would end the
  // process too. Its next statement fails, which is how the transaction learns of it.
  pool.on('connect', (client) => client.on('error', () => {}));
  const db = new Kysely<Tables>({ dialect: new StorePostgresDialect({ pool }) });
  const transaction = async <T>(work: (tx: Tx) => Promise<T>): Promise<T> => {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await db.transaction().execute(work);
      } catch (error) {
        if (!isRetryable(error) || attempt > retriesMax) throw error;
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
    await migrate(
      { name: 'postgres', read: db, transaction },
      { migrations: options.migrations ?? migrations, beforeMigrating: async () => {} },
    );
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
    defer: async (tx, query) => {
      await tx.executeQuery(query);
    },
    ask: async (tx, queries) => {
      const rows: unknown[][] = [];
      for (const query of queries) rows.push((await tx.executeQuery(query)).rows);
      return rows as never;
    },
    notify: async (tx, channel, payload) => {
      await sql`select pg_notify(${channel}, ${`${listener.self} ${payload}`})`.execute(tx);
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
  /** What this process sends with its own notifications: it knows already, and need not wake for them. */
  readonly self = randomUUID();
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
    const client = new pg.Client({
      connectionString: this.#url,
      connectionTimeoutMillis: connectTimeoutMs,
      keepAlive: true,
      application_name: 'millrace listener',
    });
    this.#client = client;
    client.on('error', (error) => this.#lost(client, error));
    client.on('end', () => this.#lost(client, new Error('connection ended')));
    client.on('notification', ({ channel, payload = '' }) => {
      const [sender, ...text] = payload.split(' ');
      if (sender !== this.self) this.#tell(channel as NotifyChannel, text.join(' '));
    });
    try {
      await client.connect();
      for (const channel of notifyChannels) await client.query(`listen ${channel}`);
    } catch (error) {
      throw asStoreError(error);
    }
    if (this.#closed) await client.end();
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#again);
    await this.#client?.end().catch(() => {});
  }

  #tell(channel: NotifyChannel, payload: string): void {
    for (const callback of this.#callbacks) callback(channel, payload);
  }

  #lost(client: pg.Client, error: Error): void {
    // The end of a connection that was replaced already says nothing about the one in use.
    if (this.#closed || this.#client !== client) return;
    this.#client = undefined;
    client.end().catch(() => {});
    this.#logger.warn({ error: error.message }, 'postgres.listener-lost');
    this.#listenAgain();
  }

  #listenAgain(): void {
    clearTimeout(this.#again);
    this.#again = setTimeout(() => {
      this.start().then(
        () => {
          // Whatever was told meanwhile was missed: everybody looks once.
          for (const channel of notifyChannels) this.#tell(channel, '');
        },
        (cause: unknown) => {
          if (this.#client !== undefined) this.#lost(this.#client, toError(cause));
        },
      );
    }, listenAgainMs);
  }
}
