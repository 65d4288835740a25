import type { Socket } from 'node:net';
import { type ConnectionOptions, getCACertificates } from 'node:tls';
import pg from 'pg';
import type { AppTest } from '#accounts/apps/app-definition.ts';
import { codeOf, ProbeFailure, type ProbeOptions, type TestOutcome } from './account-probe.ts';
import { dialTarget } from './probe-greeting.ts';

type PostgresqlTest = Exclude<AppTest, { kind: 'http' }>;

/** What pg says when the server answers that it has no TLS; there is no code. */
const noTlsMessage = 'The server does not support SSL connections';

/** A real login, and `select 1`. */
export async function probePostgresql(
  test: PostgresqlTest,
  options: ProbeOptions,
  credentials: Readonly<Record<string, unknown>>,
): Promise<TestOutcome> {
  const mode = textOf(credentials.ssl_verification_mode) ?? 'prefer';
  const tls = tlsOptions(mode, credentials);
  try {
    return await logIn(test, options, { credentials, tls });
  } catch (error) {
    // Like PostgreSQL's own clients by default: encrypted if the server can, otherwise plain.
    const isPlain = error instanceof ProbeFailure && (error.cause as Error).message === noTlsMessage;
    if (mode !== 'prefer' || !isPlain) throw error;
    return logIn(test, options, { credentials, tls: undefined });
  }
}

async function logIn(
  test: PostgresqlTest,
  options: ProbeOptions,
  login: { credentials: Readonly<Record<string, unknown>>; tls: ConnectionOptions | undefined },
): Promise<TestOutcome> {
  const { credentials, tls } = login;
  const { asked, host, port, socket } = await dialTarget(test, options);
  const client = new pg.Client({
    host,
    port,
    user: textOf(credentials.user) ?? textOf(credentials.username) ?? '',
    password: textOf(credentials.password) ?? '',
    database: textOf(credentials.database) ?? 'postgres',
    ssl: tls ?? false,
    stream: () => connected(socket),
    application_name: 'millrace',
  });
  const onAbort = (): void => {
    socket.destroy(options.signal.reason as Error);
  };
  options.signal.addEventListener('abort', onAbort, { once: true });
  // Errors come with the promises; those after the end are of no interest.
  client.on('error', () => {});
  try {
    if (options.signal.aborted) throw options.signal.reason;
    await client.connect();
    await client.query('select 1');
    return { outcome: 'works', message: `${asked} took the login` };
  } catch (error) {
    const refusal = refusalOf(codeOf(error));
    if (refusal === undefined) throw new ProbeFailure(asked, error);
    return { outcome: 'refused', message: `${asked} refused the login: ${refusal}` };
  } finally {
    options.signal.removeEventListener('abort', onAbort);
    client.end().catch(() => {});
    socket.on('error', () => {}).destroy();
  }
}

/** SQLSTATE (appendix A of PostgreSQL's manual): what says that the login cannot work as it is. */
function refusalOf(sqlState: string): string | undefined {
  if (sqlState === '28P01') return 'wrong user or password';
  if (sqlState.startsWith('28') && sqlState.length === 5) return `not allowed to log in (${sqlState})`;
  if (sqlState === '3D000') return 'there is no such database';
  return sqlState === '42501' ? 'the user may not connect to this database' : undefined;
}

/** Undefined: without TLS. */
function tlsOptions(
  mode: string,
  credentials: Readonly<Record<string, unknown>>,
): ConnectionOptions | undefined {
  if (['disable', 'disabled', 'none', 'off'].includes(mode)) return undefined;
  const ca = textOf(credentials.ca);
  const key = textOf(credentials.key);
  const cert = textOf(credentials.cert);
  return {
    ca: ca === undefined ? getCACertificates('bundled') : [ca],
    ...(key !== undefined && cert !== undefined ? { key, cert } : {}),
    rejectUnauthorized: mode !== 'skip_verification' && mode !== 'prefer',
    // The chain is checked, the name is not.
    ...(mode === 'verify_ca' ? { checkServerIdentity: () => undefined } : {}),
  };
}

/** The vetted connection, where pg would make one itself. */
function connected(socket: Socket): Socket {
  return Object.assign(socket, {
    connect: () => {
      setImmediate(() => socket.emit('connect'));
      return socket;
    },
  });
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}
