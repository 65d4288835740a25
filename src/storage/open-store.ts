import type { Logger } from '#lib/logger.ts';
import type { WriteShares } from './group-commit.ts';
import { openPostgresStore } from './postgres-store.ts';
import { openSqliteStore } from './sqlite-store.ts';
import type { Store } from './store.ts';

/** Opens the store that the settings name; tables are there and current when it resolves. `shares` learns whose writes are refused. */
export function openStore(options: {
  databaseUrl: string;
  /** Without the pooler that `databaseUrl` leads to; empty or not given: there is none. */
  databaseSessionUrl?: string;
  folder: string;
  logger: Logger;
  shares?: WriteShares;
}): Promise<Store> {
  const { databaseUrl: url, databaseSessionUrl: sessionUrl = '', folder, logger, shares } = options;
  if (url === '') return openSqliteStore({ folder, logger, shares });
  return openPostgresStore({ url, logger, shares, ...(sessionUrl === '' ? {} : { sessionUrl }) });
}
