import pg from 'pg';
import { readDatabaseUrl } from '#config/database-url.ts';
import { toError, UnavailableError } from '#lib/errors.ts';
import { asStoreError } from './store-errors.ts';

/** The first query to a host that was found; a standby, or a demoted primary, answers `on`. */
const readOnlyQuestion = 'show transaction_read_only';

/**
 * Which host of a database connections go to. One host needs no search. Of several, the first that answers and takes
 * writes, asked all at the same time, is the one for all connections until one of them fails or is refused a write: so
 * a failover costs one search, and one process never uses two hosts that both take writes.
 */
export class DatabaseHosts {
  readonly urls: readonly string[];
  readonly #needsWrites: boolean;
  readonly #connectMs: number;
  #search: Promise<string> | undefined;

  constructor(url: string, options: { connectMs: number }) {
    const { urls, target } = readDatabaseUrl(url);
    this.urls = urls;
    this.#needsWrites = target === 'read-write';
    this.#connectMs = options.connectMs;
  }

  /** True when another connection, to another host or later, may succeed where one failed. */
  get hasChoice(): boolean {
    return this.urls.length > 1 || this.#needsWrites;
  }

  /** The URL of the host. Rejects as unavailable when no host will do, with what each of them said. */
  find(): Promise<string> {
    const [only] = this.urls;
    if (!this.hasChoice && only !== undefined) return Promise.resolve(only);
    if (this.#search === undefined) {
      const search = this.#ask();
      this.#search = search;
      search.catch(() => this.#drop(search));
    }
    return this.#search;
  }

  /** The host that was found is not what it was: the next connection looks for one again. */
  forget(): void {
    this.#search = undefined;
  }

  #drop(search: Promise<string>): void {
    if (this.#search === search) this.#search = undefined;
  }

  async #ask(): Promise<string> {
    const asked = this.urls.map((url) => this.#askHost(url));
    try {
      return await Promise.any(asked);
    } catch (error) {
      const errors = (error as AggregateError).errors.map(toError);
      // A wrong password or database is no reason to try again.
      const mistake = errors.find((one) => !(asStoreError(one) instanceof UnavailableError));
      if (mistake !== undefined) throw mistake;
      throw new UnavailableError(
        'store_unavailable',
        `no host of the database takes connections${this.#needsWrites ? ' and writes' : ''}: nothing was stored`,
        { cause: new Error(errors.map(({ message }) => message).join('; ')) },
      );
    }
  }

  async #askHost(url: string): Promise<string> {
    const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: this.#connectMs });
    client.on('error', () => {});
    // A host that takes connections and then says nothing must not hold up the others, nor keep this one waiting.
    const timer = setTimeout(() => destroy(client), this.#connectMs);
    try {
      await client.connect();
      if (!this.#needsWrites) return url;
      const { rows } = await client.query<{ transaction_read_only: string }>(readOnlyQuestion);
      if (rows[0]?.transaction_read_only === 'off') return url;
      const { host, port } = client;
      throw Object.assign(new Error(`${host}:${port} takes no writes`), { code: readOnly });
    } finally {
      clearTimeout(timer);
      client.end().catch(() => {});
    }
  }
}

// https://www.postgresql.org/docs/current/errcodes-appendix.html
const readOnly = '25006';

type ConnectCallback = ((error: Error) => void) | ((error: null, client: pg.Client) => void);

/** A client of the driver that connects to whichever host is found. */
export function clientOf(hosts: DatabaseHosts): typeof pg.Client {
  if (!hosts.hasChoice) return pg.Client;
  return class extends pg.Client {
    // The driver's pool calls it with a callback, all other callers without.
    override connect(): Promise<pg.Client>;
    override connect(callback: ConnectCallback): void;
    override connect(callback?: ConnectCallback): Promise<pg.Client> | undefined {
      const connected = this.#connect().then(() => this as pg.Client);
      if (callback === undefined) return connected;
      const tell = callback as (error: Error | null, client?: pg.Client) => void;
      connected.then(
        (client) => tell(null, client),
        (error: unknown) => tell(toError(error)),
      );
      return undefined;
    }

    async #connect(): Promise<void> {
      const { host, port } = new pg.Client({ connectionString: await hosts.find() });
      Object.assign(this, { host, port });
      this.once('error', () => hosts.forget());
      const { connection } = this as unknown as { connection: NodeJS.EventEmitter };
      connection.on('errorMessage', (message: { code?: string }) => {
        if (message.code !== readOnly) return;
        // It was a primary when it was found. Its end makes the pool replace it.
        hosts.forget();
        setImmediate(() => destroy(this as pg.Client));
      });
      try {
        await super.connect();
      } catch (error) {
        hosts.forget();
        throw error;
      }
    }
  };
}

function destroy(client: pg.Client): void {
  (client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy();
}
