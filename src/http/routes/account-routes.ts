import type { FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import { actorOf } from '#accounts/account-audit.ts';
import { recordAudit } from '#accounts/account-audit-store.ts';
import type { AccountCredentials } from '#accounts/account-credentials.ts';
import { requireAccount } from '#accounts/account-rights.ts';
import type { Account as AccountRow } from '#accounts/account-store.ts';
import { refuseInUse } from '#accounts/account-uses.ts';
import { clientGrantOf, type connectByClient } from '#accounts/connect/connect-by-client.ts';
import {
  type AccountOptions,
  createAccount,
  deleteAccount,
  updateAccount,
} from '#accounts/manage-accounts.ts';
import { openGrant } from '#accounts/open-grant.ts';
import { CredentialReader } from '#accounts/read-credentials.ts';
import { viewAccount } from '#accounts/view-account.ts';
import { newHealth } from '#health/health.ts';
import { healthOf } from '#health/health-store.ts';
import { type App, callerOf, DataOf, IdParams, NoContent, ownerForCreate } from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import { ownersOf } from '#identity/permissions.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import type { Vault } from '#vault/vault.ts';
import { Account } from './account-shapes.ts';
import { includeCredentials, isYes } from './include-credentials.ts';

const credentials = Type.Record(Type.String(), Type.Unknown(), {
  description: 'What a component reads as $auth, by field',
});
const name = Type.Union([Type.String(), Type.Null()], { description: 'Nickname' });

const NewAccount = Type.Object({
  app: Type.String({ description: 'Slug of the app, such as gitlab' }),
  name: Type.Optional(name),
  credentials: Type.Optional(credentials),
  grant: Type.Optional(
    Type.Enum(['client_credentials', 'refresh_token'], {
      description:
        "The provider is asked for a token with the owner's OAuth client for the app: as the client itself " +
        '(without a token in credentials), or with the oauth_refresh_token in credentials, which that client was ' +
        'given elsewhere. The account is refreshed from then on',
    }),
  ),
});

const AccountChange = Type.Object({ name: Type.Optional(name), credentials: Type.Optional(credentials) });

export interface AccountRouteOptions {
  store: Store;
  vault: Vault;
  clock: Clock;
  logger: Logger;
  accountCredentials: Pick<AccountCredentials, 'read'>;
  findApp: NonNullable<AccountOptions['findApp']>;
  /** Makes an account with tokens that the provider gives to the owner's own OAuth client. */
  connectByClient: (request: Parameters<typeof connectByClient>[1]) => Promise<AccountRow>;
  /** Revokes the grant of a deleted account at its provider. Never rejects. */
  revokeGrant: (deleted: AccountRow, credentials: Record<string, unknown>) => Promise<void>;
  /** Sources and workflows that use the account must run with what it is now. */
  onAccountChange: (accountId: string) => void;
}

/** Specification, section 4, Connected accounts; creating and changing them are additions. */
export function accountRoutes(app: App, options: AccountRouteOptions): void {
  const { store, clock } = options;
  const reader = new CredentialReader(options);

  const view = async (account: AccountRow, opened?: Record<string, unknown>) => {
    const health = await healthOf(store.read, 'account', [account.id], clock.now());
    return viewAccount(account, health.get(account.id) ?? newHealth('account'), opened);
  };

  app.post(
    '/accounts',
    {
      schema: {
        operationId: 'createAccount',
        tags: ['accounts', 'addition'],
        summary: 'Connect an account with credentials that you have, or with your OAuth client',
        body: NewAccount,
        response: { 200: DataOf(Account) },
      },
    },
    async (request) => {
      const account = await connectWith(request, options);
      return { data: selectFields(request, await view(account)) };
    },
  );

  app.get(
    '/accounts/:id',
    {
      schema: {
        operationId: 'getAccount',
        tags: ['accounts'],
        summary: 'A connected account, on request with its credentials',
        description:
          'Credentials have an access token that works now: it is refreshed first when that is due, and expires_at says how ' +
          'long it lasts. That they were read is in the audit of the account.',
        params: IdParams('apn_…'),
        querystring: Type.Object({ include_credentials: includeCredentials }),
        response: { 200: DataOf(Account) },
      },
    },
    async (request) => {
      const { id } = request.params;
      const caller = callerOf(request);
      if (!isYes(request.query.include_credentials)) {
        const account = await requireAccount(store.read, caller, id, 'see');
        return { data: selectFields(request, await view(account)) };
      }
      const opened = await reader.readOne(caller, id);
      return { data: selectFields(request, await view(opened.account, opened.credentials)) };
    },
  );

  app.put(
    '/accounts/:id',
    {
      schema: {
        operationId: 'updateAccount',
        tags: ['accounts', 'addition'],
        summary: 'Rename an account or replace its credentials',
        description:
          'Credentials are replaced as a whole. An account that was connected through OAuth becomes one with static ' +
          'credentials by that: it is no longer refreshed. To give it a new grant, connect it again.',
        params: IdParams('apn_…'),
        body: AccountChange,
        response: { 200: DataOf(Account) },
      },
    },
    async (request) => {
      const account = await changeAccount(request, options);
      return { data: selectFields(request, await view(account)) };
    },
  );

  app.delete(
    '/accounts/:id',
    {
      schema: {
        operationId: 'deleteAccount',
        tags: ['accounts', 'addition'],
        summary: 'Remove a connected account',
        description:
          'While active sources or workflows use it the answer is 409 account_in_use, which names them. With force=true it is ' +
          'removed all the same: their next runs end with an error event. The provider of an OAuth app that can be told is told ' +
          'to end the grant.',
        params: IdParams('apn_…'),
        querystring: Type.Object({
          force: Type.Optional(
            Type.Boolean({ description: 'Remove it also while active sources or workflows use it' }),
          ),
        }),
        response: { 204: NoContent },
      },
    },
    async (request, reply) => {
      await removeAccount(request, options, request.query.force === true);
      return reply.code(204).send(null);
    },
  );
}

/** Connects an account with the credentials in the body, or with tokens for the OAuth client of its owner. */
async function connectWith(
  request: FastifyRequest<{ Body: Static<typeof NewAccount> }>,
  options: AccountRouteOptions,
): Promise<AccountRow> {
  const { store, clock, logger } = options;
  const caller = callerOf(request);
  const { userId } = caller;
  const { app: slug, grant, credentials: brought, ...rest } = request.body;
  const owner = await ownerForCreate(store.read, request);
  const known = await options.findApp(slug, [owner], store.read);
  const byClient = clientGrantOf(known, { grant, credentials: brought });
  if (byClient !== undefined) {
    const asked = { caller, ownerId: owner, ...byClient, name: rest.name, credentials: brought ?? {} };
    const connected = await options.connectByClient(asked);
    const { app_slug: app } = connected;
    logger.info({ account: connected.id, owner, user: userId, app }, 'account.connected');
    return connected;
  }
  if (grant !== undefined) {
    const message = `grant: ${slug} is no app with OAuth 2, or its token was brought along`;
    throw new CallerError('invalid_parameter', message, { parameter: 'grant' });
  }
  if (brought === undefined) {
    throw new CallerError('missing_parameter', 'credentials: expected an object', {
      parameter: 'credentials',
    });
  }
  const account = await store.transaction(async (tx) => {
    const ownerId = await ownerForCreate(tx, request);
    const created = await createAccount(tx, options, {
      app: slug,
      name: rest.name,
      credentials: brought,
      ownerId,
      userId,
    });
    await recordAudit(tx, {
      account: created,
      action: 'created',
      actor: actorOf(caller),
      nowMs: clock.now(),
    });
    return created;
  });
  logger.info(
    { account: account.id, owner: account.owner_id, user: userId, app: account.app_slug },
    'account.created',
  );
  return account;
}

async function changeAccount(
  request: FastifyRequest<{ Params: { id: string }; Body: Static<typeof AccountChange> }>,
  options: AccountRouteOptions,
): Promise<AccountRow> {
  const { store, clock, logger } = options;
  const { id } = request.params;
  const caller = callerOf(request);
  const { body } = request;
  const account = await store.transaction(async (tx) => {
    const before = await requireAccount(tx, caller, id, 'change');
    const after = await updateAccount(tx, options, id, [before.owner_id], body);
    const entry = { account: after, actor: actorOf(caller), nowMs: clock.now() };
    if (after.name !== before.name)
      await recordAudit(tx, {
        ...entry,
        action: 'updated',
        details: { name: { from: before.name, to: after.name } },
      });
    if (body.credentials !== undefined) await recordAudit(tx, { ...entry, action: 'credentials_replaced' });
    return after;
  });
  options.onAccountChange(id);
  logger.info({ account: id, owner: account.owner_id, user: caller.userId }, 'account.updated');
  return account;
}

async function removeAccount(
  request: FastifyRequest<{ Params: { id: string } }>,
  options: AccountRouteOptions,
  force: boolean,
): Promise<void> {
  const { store, clock, logger } = options;
  const { id } = request.params;
  const caller = callerOf(request);
  const { account, granted } = await store.transaction(async (tx) => {
    const found = await requireAccount(tx, caller, id, 'change');
    if (!force) await refuseInUse(tx, id, (await ownersOf(tx, caller)).ids);
    const opened = await openGrant(tx, options, found);
    await deleteAccount(tx, id, [found.owner_id]);
    await recordAudit(tx, {
      account: found,
      action: 'deleted',
      actor: actorOf(caller),
      details: { name: found.name, force },
      nowMs: clock.now(),
    });
    return { account: found, granted: opened };
  });
  options.onAccountChange(id);
  logger.info({ account: id, owner: account.owner_id, user: caller.userId, force }, 'account.deleted');
  // Not waited for: it is gone here, whatever the provider says to it.
  if (granted !== undefined) void options.revokeGrant(account, granted);
}
