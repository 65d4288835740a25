import { Kysely, sql } from 'kysely';
import pg from 'pg';
import { toError, UnavailableError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import { answerLast, beginStatement } from './commit-outcome.ts';
import { clientOf, DatabaseHosts } from './database-hosts.ts';
import { postgres } from './dialect.ts';
import { GroupCommit, type WriteShares } from './group-commit.ts';
import { type Migration, migrate, migrations } from './migrate.ts';
import { rowsByName } from './named-statements.ts';
import { NotificationListener } from './notification-listener.ts';
import { openFailure } from './open-failure.ts';
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
  /** The same database where sessions last. Given: `url` leads to a pooler, which gives each transaction any of its connections. */
  sessionUrl?: string;
  logger: Logger;
  shares?: WriteShares | undefined;
  /** For tests of migrations. */
  migrations?: readonly Migration[];
  /** For tests of a server that vanishes. */
  patience?: Patience;
}): Promise<Store> {
  const { url, sessionUrl, logger, shares, patience = usualPatience } = options;
  const hosts = new DatabaseHosts(url, patience);
  const sessionHosts = sessionUrl === undefined ? hosts : new DatabaseHosts(sessionUrl, patience);
  const db = openPool(hosts, {
    logger,
    isPooled: sessionUrl !== undefined,
    statement_timeout: patience.statementMs,
    connectMs: patience.connectMs,
    onConnect: (client) => endWhenSilent(client, patience.silenceMs),
  });
  const probe = new WriteProbe({ dialect: postgres });
  const transaction = probe.observe(inTransaction(db));
  const writes = new GroupCommit(transaction, { shares });
  const listener = new NotificationListener({ hosts: sessionHosts, logger, patience });
  const close = async (): Promise<void> => {
    await writes.drain();
    await listener.close();
    await db.destroy();
  };
  try {
    await prepareTables({ ...options, url: sessionUrl ?? url });
    await listener.start();
  } catch (error) {
    await close();
    const named =
      sessionUrl === undefined
        ? { url, setting: 'MILLRACE_DATABASE_URL' }
        : { url: sessionUrl, setting: 'MILLRACE_DATABASE_SESSION_URL' };
    const explained = explainPooler(error);
    throw explained === error ? openFailure(error, named) : explained;
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
    failedTransactions: () => probe.failedCount,
    close,
  };
}

/** A pooler in transaction mode refuses what our connections ask for when they begin: it needs the other URL. */
function explainPooler(error: unknown): unknown {
  const { message, cause } = toError(error);
  const refused = /unsupported startup parameter[^:]*: (\w+)/.exec(
    `${message} ${toError(cause).message}`,
  )?.[1];
  if (refused === undefined) return error;
  return new UnavailableError(
    'store_unavailable',
    `MILLRACE_DATABASE_URL: found a pooler that refuses ${refused}, expected MILLRACE_DATABASE_SESSION_URL with the URL of the database without it`,
    { cause: error },
  );
}

/** Kysely on a pool of its own. */
export function openPool(
  database: string | DatabaseHosts,
  options: {
    logger: Logger;
    connectMs: number;
    statement_timeout?: number;
    /** A pooler refuses bounds that a connection asks for when it begins: each transaction sets them for itself. */
    isPooled?: boolean;
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
    statement_timeout,
    isPooled = false,
  } = options;
  const hosts = typeof database === 'string' ? new DatabaseHosts(database, { connectMs }) : database;
  const types = {
    getTypeParser: (oid: number, format?: 'text') =>
      oid === int8 ? Number : pg.types.getTypeParser(oid, format),
  };
  const sessionBounds = {
    ...(statement_timeout === undefined ? {} : { statement_timeout }),
    idle_in_transaction_session_timeout: idleMs,
  };
  const pool = new pg.Pool({
    ...connectionOptions(hosts, { connectMs }),
    Client: clientOf(hosts),
    ...(isPooled ? {} : sessionBounds),
    max,
    types: types as pg.CustomTypesConfig,
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
  const begin = beginStatement(isPooled ? sessionBounds : {});
  return new Kysely<Tables>({ dialect: new StorePostgresDialect({ pool }, { hosts, begin }) });
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
