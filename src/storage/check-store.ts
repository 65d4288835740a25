import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { faultText, SqliteConnection } from './sqlite-connection.ts';
import { asStoreError } from './store-errors.ts';

/** Faults that are reported. */
const faultsMax = 20;

/**
 * Reads all of the embedded store and compares every index with its table. Returns the problems, in SQLite's words; undefined:
 * there is no store. A service may be running on it: the write-ahead log grows by what is written meanwhile.
 */
export async function checkSqliteStore(folder: string): Promise<string[] | undefined> {
  const file = join(folder, 'millrace.sqlite');
  if (!existsSync(file)) return undefined;
  const connection = new SqliteConnection({ file, readOnly: true });
  try {
    const { rows } = await connection.run(`pragma integrity_check(${faultsMax})`, []);
    const faults = rows.map(faultText);
    return faults[0] === 'ok' ? [] : faults;
  } catch (error) {
    if (connection.damage !== undefined) return [connection.damage.message];
    throw asStoreError(error);
  } finally {
    await connection.close();
  }
}
