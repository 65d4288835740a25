import { recordAudit } from '#accounts/account-audit-store.ts';
import { requireAccount } from '#accounts/account-rights.ts';
import { type Account, findAccount, findSealedAccount } from '#accounts/account-store.ts';
import type { AppDefinition } from '#accounts/apps/app-definition.ts';
import { type AccountGrant, replaceCredentials, storeAccount } from '#accounts/manage-accounts.ts';
import { noteSubject } from '#audit/audit-context.ts';
import { findClient } from '#identity/api-client-store.ts';
import { isStillValid } from '#identity/api-tokens.ts';
import { type Caller, mayWrite } from '#identity/permissions.ts';
import { findUser } from '#identity/user-store.ts';
import { CallerError } from '#lib/errors.ts';
import type { Db, Tx } from '#storage/store.ts';
import { openObject, type SealOptions } from '#vault/sealed-values.ts';
import { accountMissing, notAllowed, otherAccount } from './connect-failures.ts';
import type { ConnectFailure } from './connect-flow.ts';
import type { ConnectFlow } from './connect-flow-store.ts';

/** The outcome of a flow. */
export interface Gained {
  credentials: Record<string, unknown>;
  grant: AccountGrant;
  /** The id of the user at the provider. */
  uid: string | undefined;
}

/**
 * Stores what a browser brought: a new account, or credentials in the place of those of one. Everything that may have
 * changed since the link was made is looked at again here, in the transaction that stores.
 */
export function storeConnection(
  tx: Tx,
  options: SealOptions,
  flow: ConnectFlow,
  app: AppDefinition,
  gained: Gained,
): Promise<Account | ConnectFailure> {
  return flow.account_id === null
    ? storeNew(tx, options, flow, app, gained)
    : storeAgain(tx, options, flow, flow.account_id, gained);
}

async function storeNew(
  tx: Tx,
  options: SealOptions,
  flow: ConnectFlow,
  app: AppDefinition,
  { credentials, grant }: Gained,
): Promise<Account | ConnectFailure> {
  const caller = await callerOfFlow(tx, flow, options.clock.now());
  if (caller === undefined || !(await mayWrite(tx, caller, flow.owner_id))) return notAllowed;
  const account = await storeAccount(tx, options, {
    ownerId: flow.owner_id,
    userId: flow.user_id,
    app,
    name: flow.name,
    credentials,
    grant,
  });
  noteSubject({ kind: 'accounts', id: account.id, isNew: true });
  await audit(tx, options, flow, account, 'connected', grant);
  return account;
}

async function storeAgain(
  tx: Tx,
  options: SealOptions,
  flow: ConnectFlow,
  accountId: string,
  gained: Gained,
): Promise<Account | ConnectFailure> {
  const caller = await callerOfFlow(tx, flow, options.clock.now());
  if (caller === undefined) return notAllowed;
  try {
    await requireAccount(tx, caller, accountId, 'change');
  } catch (error) {
    if (!(error instanceof CallerError)) throw error;
    return (await findAccount(tx, accountId)) === undefined ? accountMissing : notAllowed;
  }
  const before = await findSealedAccount(tx, accountId);
  if (before === undefined) return accountMissing;
  const { sealed, ...account } = before;
  if (gained.grant.type !== 'keys') {
    const { oauth_uid: uid } = await openObject(tx, options.vault, {
      ownerId: before.owner_id,
      id: accountId,
      sealed,
    });
    if (typeof uid === 'string' && uid !== '' && uid !== gained.uid) return otherAccount(account);
  }
  const changed = await replaceCredentials(tx, options, account, {
    credentials: gained.credentials,
    grant: gained.grant,
    ...(flow.name !== null && { name: flow.name }),
  });
  await audit(tx, options, flow, changed, 'reconnected', gained.grant);
  return changed;
}

async function audit(
  tx: Tx,
  options: SealOptions,
  flow: ConnectFlow,
  account: Account,
  action: 'connected' | 'reconnected',
  grant: AccountGrant,
): Promise<void> {
  await recordAudit(tx, {
    account,
    action,
    // In a browser, with no key: the one that made the link was used earlier.
    actor: { userId: flow.user_id, keyId: null },
    details: { grant: grant.type, ...(grant.scopes !== null && { scopes: grant.scopes }) },
    nowMs: options.clock.now(),
  });
}

/**
 * The maker of the link, with present rights: a user, or an OAuth client of a workspace. Undefined when it is gone or disabled, or when the
 * key or token that made the link no longer works.
 */
async function callerOfFlow(db: Db, flow: ConnectFlow, nowMs: number): Promise<Caller | undefined> {
  const caller = await makerOfFlow(db, flow);
  return caller !== undefined && (await isStillValid(db, caller, nowMs)) ? caller : undefined;
}

async function makerOfFlow(db: Db, flow: ConnectFlow): Promise<Caller | undefined> {
  if (flow.user_id.startsWith('oac_')) {
    const client = await findClient(db, flow.user_id);
    if (client === undefined || client.revoked_at_ms !== null) return undefined;
    return { userId: client.id, isAdmin: false, keyId: flow.key_id, workspaceId: client.workspace_id };
  }
  const user = await findUser(db, flow.user_id);
  return user === undefined
    ? undefined
    : { userId: user.id, isAdmin: user.is_admin === 1, keyId: flow.key_id };
}
