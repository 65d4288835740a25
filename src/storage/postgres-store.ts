import { Kysely, sql } from 'kysely';
import pg from 'pg';
import type { Logger } from '#lib/logger.ts';
import { answerLast } from './commit-outcome.ts';
import { clientOf, DatabaseHosts } from './database-hosts.ts';
import { postgres } from './dialect.ts';
import { GroupCommit } from './group-commit.ts';
import { type Migration, migrate, migrations } from './migrate.ts';
import { rowsByName } from './named-statements.ts';
import { NotificationListener } from './notification-listener.ts';
import { connectionOptions, endWhenSilent, type Patience, usualPatience } from './postgres-connection.ts';
import { StorePostgresDialect } from './postgres-driver.ts';
import type { Store } from './store.ts';
import { isRetryable } from './store-errors.ts';
import type { Tables } from './tables.ts';
import { WriteProbe } from './write-probe.ts';

/** Connections of one process. Writes are batched, so few are needed. */
const connectionsMax = 12;
/** A deadlock or serialization failure is run again at most this often. */
const retriesMax = 4;
/** A process that is suspended inside a transaction must not hold the others' rows for ever. */
const idleInTransactionMs = 30_000;
const oldestVersion = 150_000;

// int8 as number: our largest values are epoch milliseconds and counts.
const int8 = 20;

/** The same tables on PostgreSQL 15 or newer, for any number of processes. */
export async function openPostgresStore(options: {
  url: string;
  logger: Logger;
  /** For tests of migrations. */
  migrations?: readonly Migration[];
  /** For tests of a server that vanishes. */
  patience?: Patience;
}): Promise<Store> {
  const { url, logger, patience = usualPatience } = options;
  const hosts = new DatabaseHosts(url, patience);
  const db = openPool(hosts, {
    logger,
    statement_timeout: patience.statementMs,
    connectMs: patience.connectMs,
    onConnect: (client) => endWhenSilent(client, patience.silenceMs),
  });
  const probe = new WriteProbe({ dialect: postgres });
  const transaction = probe.observe(inTransaction(db));
  const writes = new GroupCommit(transaction);
  const listener = new NotificationListener({ hosts, logger, patience });
  const close = async (): Promise<void> => {
    await writes.drain();
    await listener.close();
    await db.destroy();
  };
  try {
    await prepareTables(options);
    await listener.start();
  } catch (error) {
    await close();
    throw error;
  }
  return {
    ...postgres,
    read: db,
    transaction,
    writes,
    defer: async (tx, query) => {
      await tx.executeQuery(query);
    },
    ask: (tx, statements) =>
      rowsByName(statements, async (queries) => {
        const rows: unknown[][] = [];
        for (const query of queries) rows.push((await tx.executeQuery(query)).rows);
        return rows;
      }),
    notify: async (tx, channel, payload) => {
      await sql`select pg_notify(${channel}, ${`${listener.self} ${payload}`})`.execute(tx);
    },
    onNotify: (callback) => listener.add(callback),
    reclaimSpace: async () => {},
    checkWritable: () => probe.check(),
    close,
  };
}

/** Kysely on a pool of its own. */
export function openPool(
  database: string | DatabaseHosts,
  options: {
    logger: Logger;
    connectMs: number;
    statement_timeout?: number;
    /** Connections, unless it is the usual number. */
    max?: number;
    /** 0: for ever; for who reads or writes all there is in one transaction. */
    idleMs?: number;
    onConnect?: (client: pg.PoolClient) => void;
  },
): Kysely<Tables> {
  const {
    logger,
    connectMs,
    onConnect,
    max = connectionsMax,
    idleMs = idleInTransactionMs,
    ...more
  } = options;
  const hosts = typeof database === 'string' ? new DatabaseHosts(database, { connectMs }) : database;
  const types = {
    getTypeParser: (oid: number, format?: 'text') =>
      oid === int8 ? Number : pg.types.getTypeParser(oid, format),
  };
  const pool = new pg.Pool({
    ...connectionOptions(hosts, { connectMs }),
    Client: clientOf(hosts),
    ...more,
    max,
    types: types as pg.CustomTypesConfig,
    idle_in_transaction_session_timeout: idleMs,
    application_name: 'millrace',
  });
  // An idle connection that dies is replaced by the pool; without a listener it would end the process.
  pool.on('error', (error) => logger.warn({ error: error.message }, 'postgres.connection-lost'));
  pool.on('connect', (client) => {
    // The pool listens only to idle connections; one that dies between two statements of a transaction would end the
    // process too. Its next statement fails, which is how the transaction learns of it.
    client.on('error', () => {});
    answerLast(client);
    onConnect?.(client);
  });
  return new Kysely<Tables>({ dialect: new StorePostgresDialect({ pool }, hosts) });
}

function inTransaction(db: Kysely<Tables>): Store['transaction'] {
  return async (work) => {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await db.transaction().execute(work);
      } catch (error) {
        if (!isRetryable(error) || attempt > retriesMax) throw error;
      }
    }
  };
}

/** On connections of its own: to migrate a large store takes as long as it takes, and so does to wait for who does it. */
async function prepareTables(options: {
  url: string;
  logger: Logger;
  migrations?: readonly Migration[];
}): Promise<void> {
  const { url, logger } = options;
  const db = openPool(url, { logger, connectMs: usualPatience.connectMs });
  try {
    await checkVersion(db);
    await migrate(
      { ...postgres, read: db, transaction: inTransaction(db) },
      { migrations: options.migrations ?? migrations, beforeMigrating: async () => {} },
    );
  } finally {
    await db.destroy();
  }
}

async function checkVersion(db: Kysely<Tables>): Promise<void> {
  const { rows } = await sql<{
    version: number;
  }>`select current_setting('server_version_num')::int as version`.execute(db);
  const version = rows[0]?.version ?? 0;
  if (version < oldestVersion)
    throw new Error(`MILLRACE_DATABASE_URL: expected PostgreSQL 15 or newer, found ${version}`);
}
