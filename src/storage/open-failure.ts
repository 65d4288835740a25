import { UnavailableError } from '#lib/errors.ts';
import { databaseHosts } from './database-host.ts';

interface Fault {
  code?: unknown;
  message: string;
}

/**
 * Why a database cannot be opened, with the setting, the place and what to do, for the faults that an operator can fix. Any other error is returned
 * as it is. `setting` names the variable that `url` is from.
 */
export function openFailure(error: unknown, { url, setting }: { url: string; setting: string }): unknown {
  const faults = causesOf(error);
  const place = databaseHosts(url)
    .map(({ host, port }) => `${host}:${port}`)
    .join(', ');
  const reason = faults.map((fault) => reasonOf(fault)).find((one) => one !== undefined);
  if (reason === undefined) return error;
  return new UnavailableError('store_unavailable', `${setting}: ${place || 'the socket'} ${reason}`, {
    cause: error,
  });
}

/** The error, what caused it, and so on. */
function causesOf(error: unknown): Fault[] {
  const faults: Fault[] = [];
  for (let one = error; one instanceof Error && faults.length < 10; one = one.cause) faults.push(one);
  return faults;
}

function reasonOf({ code, message }: Fault): string | undefined {
  const said = JSON.stringify(message);
  switch (code) {
    case '28P01':
    case '28000':
      return `refuses user or password: ${said}`;
    case '3D000':
      return `has no such database: ${said}; make it with CREATE DATABASE … OWNER …, or name another one`;
    case '42501':
      return `does not let this user make tables: ${said}; make the user the owner of the database, or GRANT CREATE ON SCHEMA public TO …`;
    case '53300':
      return `takes no more connections: ${said}`;
    case '57P03':
      return `is starting or stopping: ${said}; try again in a moment`;
    case 'ECONNREFUSED':
      return 'refuses the connection: is PostgreSQL running there, and does it listen on this address and port?';
    case 'ENOENT':
      return 'is not there: is PostgreSQL running?';
    case 'ETIMEDOUT':
    case 'EHOSTUNREACH':
    case 'ENETUNREACH':
      return `cannot be reached (${code}): is the address right, and does a firewall let the connection pass?`;
    case 'ECONNRESET':
      return 'ended the connection: is it PostgreSQL that listens there?';
  }
  if (/does not support SSL connections/.test(message))
    return 'takes no TLS: leave out sslmode, or turn on ssl in its postgresql.conf';
  if (/^(?:timeout exceeded when trying to connect|timeout expired)/.test(message))
    return 'does not answer in time: is it PostgreSQL that listens there?';
  if (/^Connection terminated|unrecognized|Unknown response/i.test(message))
    return 'ended the connection: is it PostgreSQL that listens there?';
  return undefined;
}
