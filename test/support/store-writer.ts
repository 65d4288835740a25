import { silentLogger } from '#lib/logger.ts';
import type { BatchWrite } from '#storage/group-commit.ts';
import { openPostgresStore } from '#storage/postgres-store.ts';
import { openSqliteStore } from '#storage/sqlite-store.ts';

/**
 * A program for durability tests: writes emitters through the group commit, as fast as it can, and prints an id only
 * when its write was acknowledged. It continues until it is killed.
 */
const [dialect, location = '', prefix = ''] = process.argv.slice(2);

const store =
  dialect === 'sqlite'
    ? await openSqliteStore({ folder: location })
    : await openPostgresStore({ url: location, logger: silentLogger });

const insert: BatchWrite<string, string> = {
  name: 'insert',
  async run(tx, ids) {
    await tx
      .insertInto('emitters')
      .values(ids.map((id) => ({ id, owner_id: 'o_1', last_ms: 0, last_seq: 0, dedupe: '{}' })))
      .execute();
    return ids;
  },
};

let last = 0;

async function writeOn(): Promise<never> {
  for (;;) {
    last += 1;
    process.stdout.write(`${await store.writes.submit(insert, `${prefix}-${last}`)}\n`);
  }
}

await Promise.all(Array.from({ length: 8 }, writeOn));
