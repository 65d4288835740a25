import pg from 'pg';

/**
 * Where connections to a database go, read as the driver reads its URL (a `host` or `port` parameter wins, what is
 * missing comes from the environment of libpq). Undefined for a local socket, which has no address.
 */
export function databaseHost(url: string): { host: string; port: number } | undefined {
  const { host, port } = new pg.Client({ connectionString: url });
  return host.startsWith('/') ? undefined : { host, port };
}
