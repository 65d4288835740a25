import { randomUUID } from 'node:crypto';
import type pg from 'pg';
import { toError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import { clientOf, type DatabaseHosts } from './database-hosts.ts';
import { connectionOptions, endWhenSilent, type Patience } from './postgres-connection.ts';
import type { NotifyChannel } from './store.ts';
import { asStoreError } from './store-errors.ts';

/** Between attempts to listen again after the server went away. */
const listenAgainMs = 500;

const notifyChannels: readonly NotifyChannel[] = [
  'millrace_jobs',
  'millrace_events',
  'millrace_replies',
  'millrace_variables',
  'millrace_access',
];

/** One connection of its own that listens; it comes back by itself, and the slow polls of its users cover the gap. */
export class NotificationListener {
  /** What this process sends with its own notifications: it knows already, and need not wake for them. */
  readonly self = randomUUID();
  readonly #hosts: DatabaseHosts;
  readonly #logger: Logger;
  readonly #patience: Patience;
  readonly #callbacks: ((channel: NotifyChannel, payload: string) => void)[] = [];
  #client: pg.Client | undefined;
  #again: NodeJS.Timeout | undefined;
  #ping: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(options: { hosts: DatabaseHosts; logger: Logger; patience: Patience }) {
    this.#hosts = options.hosts;
    this.#logger = options.logger;
    this.#patience = options.patience;
  }

  add(callback: (channel: NotifyChannel, payload: string) => void): void {
    this.#callbacks.push(callback);
  }

  async start(): Promise<void> {
    const Client = clientOf(this.#hosts);
    const client = new Client({
      ...connectionOptions(this.#hosts, this.#patience),
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
      endWhenSilent(client, this.#patience.silenceMs);
      for (const channel of notifyChannels) await client.query(`listen ${channel}`);
    } catch (error) {
      throw asStoreError(error);
    }
    if (this.#closed) return client.end();
    clearInterval(this.#ping);
    this.#ping = pingRegularly(client, this.#patience.listenerPingMs);
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#again);
    clearInterval(this.#ping);
    await this.#client?.end().catch(() => {});
  }

  #tell(channel: NotifyChannel, payload: string): void {
    for (const callback of this.#callbacks) callback(channel, payload);
  }

  #lost(client: pg.Client, error: Error): void {
    // The end of a connection that was replaced already says nothing about the one in use.
    if (this.#closed || this.#client !== client) return;
    this.#client = undefined;
    clearInterval(this.#ping);
    client.end().catch(() => {});
    this.#logger.warn({ error: error.message }, 'postgres.listener-lost');
    this.#listenAgain();
  }

  #listenAgain(): void {
    clearTimeout(this.#again);
    this.#again = setTimeout(() => {
      this.start().then(
        () => {
          // Notifications sent meanwhile were missed, so every listener looks once.
          for (const channel of notifyChannels) this.#tell(channel, '');
        },
        (cause: unknown) => {
          if (this.#client !== undefined) this.#lost(this.#client, toError(cause));
        },
      );
    }, listenAgainMs);
  }
}

/** A client that only listens cannot tell a quiet server from one that is gone. A failed ping shows as an error of the client. */
function pingRegularly(client: pg.Client, ms: number): NodeJS.Timeout {
  let waiting = false;
  return setInterval(() => {
    if (waiting) return;
    waiting = true;
    client.query('select 1').then(
      () => {
        waiting = false;
      },
      () => {},
    );
  }, ms);
}
