import { sql } from 'kysely';
import type { Db } from './store.ts';

/** Longer than this and the store is not there for anybody. */
const pingTimeoutMs = 3000;

/** Resolves when the store answers a trivial query; rejects when it does not in time. */
export async function pingStore(db: Db): Promise<void> {
  const timeout = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => timeout.reject(new Error('the store did not answer in time')),
    pingTimeoutMs,
  );
  try {
    await Promise.race([sql`select 1`.execute(db), timeout.promise]);
  } finally {
    clearTimeout(timer);
  }
}
