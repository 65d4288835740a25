import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';
import { must } from '#lib/assert.ts';
import { clientOf, type DatabaseHosts } from './database-hosts.ts';
import { connectionOptions } from './postgres-connection.ts';
import { outcomeUnknown } from './store-errors.ts';

const begin = 'begin; ';

/**
 * Opens a transaction with bounds in milliseconds of its own, and answers what its outcome can be asked by. One message, so that it costs no
 * round trip.
 */
export function beginStatement(bounds: Readonly<Record<string, number>>): string {
  const set = Object.entries(bounds).map(([name, ms]) => `set local ${name} = ${ms}; `);
  return `${begin}${set.join('')}select pg_current_xact_id()::text as id, pg_postmaster_start_time()::text as server`;
}

/** A transaction of PostgreSQL, on one start of one server: after a crash or on another host its number may be another's. */
export interface TransactionId {
  id: string;
  server: string;
}

/** How long a caller waits for the database to come back and report the outcome of a commit. */
const outcomeWaitMs = 10_000;
const askAgainMs = 100;
/** For one question, and for the connection that it is asked on. */
const askTimeoutMs = 5_000;

/** For several statements in one message the driver returns a list; Kysely takes the result of the last. */
export function answerLast(client: pg.ClientBase): void {
  const query = client.query.bind(client) as (text: string, values?: unknown[]) => Promise<unknown>;
  Object.assign(client, {
    query: async (text: string, values?: unknown[]) =>
      text.startsWith(begin) ? ((await query(text)) as unknown[]).at(-1) : query(text, values),
  });
}

/** True when a failed commit may have been done: its answer was lost, or the session ended meanwhile. */
export function isOutcomeUnknown(error: unknown): boolean {
  if (!(error instanceof pg.DatabaseError)) return true;
  return /^(?:57P|08)/.test(error.code ?? '');
}

/**
 * The outcome of a transaction whose commit was not answered, read on another connection as soon as there is one. Throws
 * `outcome_unknown` when it cannot be read in time, or when another server answers.
 */
export async function readOutcome(
  hosts: DatabaseHosts,
  { id, server }: TransactionId,
  { waitMs = outcomeWaitMs }: { waitMs?: number } = {},
): Promise<'committed' | 'aborted'> {
  const deadlineMs = performance.now() + waitMs;
  let cause: unknown;
  do {
    try {
      const answer = await ask(hosts, id);
      if (answer.server !== server) break;
      if (answer.status === 'committed' || answer.status === 'aborted') return answer.status;
    } catch (error) {
      cause = error;
    }
    // It is still being committed, or its session has not noticed the loss, or the database is away.
    await pause(askAgainMs);
  } while (performance.now() < deadlineMs);
  throw outcomeUnknown(cause);
}

/** Not of the pool, whose connections may all be waiting for the same. */
async function ask(hosts: DatabaseHosts, id: string): Promise<{ status: string | null; server: string }> {
  const Client = clientOf(hosts);
  const client = new Client({
    ...connectionOptions(hosts, { connectMs: askTimeoutMs }),
    query_timeout: askTimeoutMs,
    application_name: 'millrace',
  });
  client.on('error', () => {});
  try {
    await client.connect();
    const { rows } = await client.query<{ status: string | null; server: string }>(
      'select pg_xact_status($1::text::xid8) as status, pg_postmaster_start_time()::text as server',
      [id],
    );
    return must(rows[0], 'the status of a transaction');
  } finally {
    client.end().catch(() => {});
  }
}
