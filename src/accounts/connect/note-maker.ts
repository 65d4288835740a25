import { noteActor } from '#audit/audit-context.ts';
import { findUser } from '#identity/user-store.ts';
import type { Db } from '#storage/store.ts';
import type { ConnectFlow } from './connect-flow-store.ts';

/** What a browser does with a link is recorded as done by the maker of the link, whose rights it uses. */
export async function noteMaker(
  db: Db,
  { user_id: userId, owner_id: ownerId }: Pick<ConnectFlow, 'user_id' | 'owner_id'>,
): Promise<void> {
  const isClient = userId.startsWith('oac_');
  const kind = isClient
    ? 'oauth_client'
    : (await findUser(db, userId))?.kind === 'service'
      ? 'service_account'
      : 'user';
  noteActor({ kind, userId, keyId: null, sessionId: null }, ownerId);
}
