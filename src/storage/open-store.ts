import type { Logger } from '#lib/logger.ts';
import { openPostgresStore } from './postgres-store.ts';
import { openSqliteStore } from './sqlite-store.ts';
import type { Store } from './store.ts';

/** Opens the store that the settings name; tables are there and current when it resolves. */
export function openStore(options: { databaseUrl: string; folder: string; logger: Logger }): Promise<Store> {
  return options.databaseUrl === ''
    ? openSqliteStore({ folder: options.folder })
    : openPostgresStore({ url: options.databaseUrl, logger: options.logger });
}
