import { sql } from 'kysely';
import type { Store } from './store.ts';

/** A store that takes longer than this to answer counts as unreachable. */
const pingTimeoutMs = 3000;

/** Resolves when the store answers a trivial query and takes writes; rejects when it does not in time. */
export async function pingStore(store: Pick<Store, 'read' | 'checkWritable'>): Promise<void> {
  const timeout = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => timeout.reject(new Error('the store did not answer in time')),
    pingTimeoutMs,
  );
  try {
    await Promise.race([sql`select 1`.execute(store.read), timeout.promise]);
    await Promise.race([store.checkWritable(), timeout.promise]);
  } finally {
    clearTimeout(timer);
  }
}
