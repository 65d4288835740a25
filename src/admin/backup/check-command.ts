import type { AdminCommands } from '#admin/admin-command-line.ts';
import { sessionUrlOf } from '#config/database-url.ts';
import { silentLogger } from '#lib/logger.ts';
import { checkSqliteStore } from '#storage/check-store.ts';
import { openStore } from '#storage/open-store.ts';
import { restoreAdvice } from '#storage/store-errors.ts';
import { holdFolder } from './backup-commands.ts';
import { BackupError } from './backup-error.ts';

/** Commands on a store as a whole. */
export const checkCommands: AdminCommands = {
  'store check': {
    required: {},
    optional: {},
    summary:
      'reads all of the embedded store and says whether it is damaged, also while the service runs; PostgreSQL has pg_amcheck',
    api: null,
    runOffline: async ({ settings }) => {
      if (settings.databaseUrl !== '')
        throw new BackupError('MILLRACE_DATABASE_URL is set: check a PostgreSQL database with pg_amcheck');
      const faults = await checkSqliteStore(settings.data);
      if (faults === undefined)
        throw new BackupError(`there is no store in ${settings.data}: set MILLRACE_DATA, as for the service`);
      if (faults.length > 0) {
        throw new BackupError(
          `the store in ${settings.data} is damaged: ${faults.join('; ')}. What to do: ${restoreAdvice}`,
        );
      }
      return { data: { whole: true }, lines: [`The store in ${settings.data} is whole.`] };
    },
  },
  'store migrate': {
    required: {},
    optional: {},
    summary:
      'brings the tables to this version, as a start does; the service must be stopped, on PostgreSQL all nodes',
    api: null,
    runOffline: async ({ settings, version }) => {
      const { databaseUrl, data } = settings;
      const release = databaseUrl === '' ? holdFolder(data) : () => {};
      try {
        const store = await openStore({
          databaseUrl: sessionUrlOf(settings),
          folder: data,
          logger: silentLogger,
        });
        await store.close();
      } finally {
        release();
      }
      return { data: { version }, lines: [`The tables are those of Millrace ${version}.`] };
    },
  },
};
