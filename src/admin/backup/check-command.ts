import type { AdminCommands } from '#admin/admin-command-line.ts';
import { checkSqliteStore } from '#storage/check-store.ts';
import { restoreAdvice } from '#storage/store-errors.ts';
import { BackupError } from './backup-error.ts';

/** Checks that the embedded store can be read to its last byte. */
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
};
