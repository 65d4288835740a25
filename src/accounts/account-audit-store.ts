import { newId } from '#lib/ids.ts';
import type { Tx } from '#storage/store.ts';
import type { Account } from './account-store.ts';

/** Who did it: a person with a key, or the service itself. */
export interface Actor {
  userId: string | null;
  keyId: string | null;
}

/** The service itself, such as a refresh that was due. */
export const theService: Actor = { userId: null, keyId: null };

export type AuditAction =
  | 'created'
  | 'connected'
  | 'reconnected'
  | 'read_credentials'
  | 'updated'
  | 'credentials_replaced'
  | 'became_unhealthy'
  | 'became_healthy'
  | 'deleted';

/** In the transaction of what was done, so that neither is there without the other. `details` must hold no secret. */
export async function recordAudit(
  tx: Tx,
  entry: {
    account: Pick<Account, 'id' | 'owner_id' | 'app_slug'>;
    action: AuditAction;
    actor: Actor;
    details?: Record<string, unknown>;
    nowMs: number;
  },
): Promise<void> {
  const { account, action, actor, details = {}, nowMs } = entry;
  await tx
    .insertInto('account_audit')
    .values({
      id: newId('aud'),
      owner_id: account.owner_id,
      account_id: account.id,
      app_slug: account.app_slug,
      action,
      user_id: actor.userId,
      key_id: actor.keyId,
      details: JSON.stringify(details),
      created_at_ms: nowMs,
    })
    .execute();
}
