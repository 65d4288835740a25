import pg from 'pg';
import { readDatabaseUrl } from '#config/database-url.ts';

/**
 * Where connections to a database may go, read as the driver reads its URLs (a `host` or `port` parameter wins, what is
 * missing comes from the environment of libpq). A local socket has no address.
 */
export function databaseHosts(url: string): { host: string; port: number }[] {
  return readDatabaseUrl(url)
    .urls.map((connectionString) => new pg.Client({ connectionString }))
    .filter(({ host }) => !host.startsWith('/'))
    .map(({ host, port }) => ({ host, port }));
}
