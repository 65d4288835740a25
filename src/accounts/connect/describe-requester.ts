import { findAccount } from '#accounts/account-store.ts';
import { findClient } from '#identity/api-client-store.ts';
import { findUser } from '#identity/user-store.ts';
import { findWorkspace } from '#identity/workspace-store.ts';
import type { Db } from '#storage/store.ts';
import type { ConnectFlow } from './connect-flow-store.ts';

/**
 * Describes the user who made a link and the owner of the account, for the user who opens it. A provider that
 * knows the OAuth client already may agree without asking; then only this text says who receives the account.
 */
export async function describeRequester(
  db: Db,
  flow: Pick<ConnectFlow, 'owner_id' | 'user_id' | 'account_id'>,
): Promise<string> {
  const who = (await nameOf(db, flow.user_id)) ?? 'A user who no longer exists';
  if (flow.owner_id === flow.user_id)
    return `${who} asks for this. The account will be theirs: they can use it, and read its tokens.`;
  const workspace = await findWorkspace(db, flow.owner_id);
  // An account that is connected again can be read by its creator, and not by the user who asks now.
  const account = flow.account_id === null ? undefined : await findAccount(db, flow.account_id);
  const maker = account === undefined ? who : ((await nameOf(db, account.user_id)) ?? 'who made it');
  return (
    `${who} asks for this. The account will belong to the workspace “${workspace?.name ?? flow.owner_id}”: its members can use it, ` +
    `its admins and ${maker} can read its tokens.`
  );
}

async function nameOf(db: Db, userId: string): Promise<string | undefined> {
  if (!userId.startsWith('oac_')) return (await findUser(db, userId))?.email;
  const client = await findClient(db, userId);
  return client && `The application “${client.name}”`;
}
