import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { actorOf } from '#accounts/account-audit.ts';
import { recordAudit } from '#accounts/account-audit-store.ts';
import { type AccountCredentials, openCredentials } from '#accounts/account-credentials.ts';
import { requireAccount } from '#accounts/account-rights.ts';
import type { AccountFilter, Account as AccountRow } from '#accounts/account-store.ts';
import { refuseInUse } from '#accounts/account-uses.ts';
import { clientGrantOf, type connectByClient } from '#accounts/connect/connect-by-client.ts';
import {
  type AccountOptions,
  createAccount,
  deleteAccount,
  listAccounts,
  updateAccount,
} from '#accounts/manage-accounts.ts';
import { CredentialReader } from '#accounts/read-credentials.ts';
import { viewAccount } from '#accounts/view-account.ts';
import { type HealthState, newHealth } from '#health/health.ts';
import { healthOf } from '#health/health-store.ts';
import { encodeCursor, pageRequest, pageResponse } from '#http/pagination.ts';
import {
  type App,
  callerOf,
  DataOf,
  IdParams,
  NoContent,
  namedWorkspace,
  ownerForCreate,
  PageOf,
  pageParameters,
} from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import { ownersOf, requireWorkspace } from '#identity/permissions.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError, UnavailableError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { Store, Tx } from '#storage/store.ts';
import type { Vault } from '#vault/vault.ts';
import { Account } from './account-shapes.ts';
import { healthParameter } from './health-shapes.ts';

const credentials = Type.Record(Type.String(), Type.Unknown(), {
  description: 'What a component reads as $auth, by field',
});
const name = Type.Union([Type.String(), Type.Null()], { description: 'Nickname' });

const includeCredentials = Type.Optional(
  Type.Enum(['0', '1', 'true', 'false'], {
    description:
      '1 or true: with credentials, of accounts that you created (while you are a member of their workspace) or administer',
  }),
);

const listParameters = {
  ...pageParameters,
  app: Type.Optional(Type.String({ description: 'Only accounts of this app: slug or app_ id' })),
  query: Type.Optional(Type.String({ description: 'The same as app' })),
  health: healthParameter,
};

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
  const { store, logger, clock } = options;
  const reader = new CredentialReader(options);

  const healthFilter = (state: HealthState | undefined) =>
    state === undefined ? {} : { health: { state, nowMs: clock.now() } };

  /** What can be revoked; undefined also where it cannot be opened, which must not keep the account from being deleted. */
  const grantOf = async (tx: Tx, { id, owner_id: ownerId, grant_type: type }: AccountRow) => {
    if (type === 'keys') return undefined;
    try {
      return await openCredentials(tx, options.vault, id, [ownerId]);
    } catch (error) {
      if (!(error instanceof UnavailableError) || !unopened.has(error.code)) throw error;
      logger.warn({ account: id, error: error.message }, 'account.grant-not-revoked');
      return undefined;
    }
  };

  const view = async (account: AccountRow, opened?: Record<string, unknown>) => {
    const health = await healthOf(store.read, 'account', [account.id], clock.now());
    return viewAccount(account, health.get(account.id) ?? newHealth('account'), opened);
  };

  const listOf = async (
    request: FastifyRequest,
    filter: AccountFilter,
    options: { withCredentials: boolean },
  ) => {
    const page = await listAccounts(store.read, filter, pageRequest(request));
    const opened = options.withCredentials
      ? await reader.readSome(callerOf(request), page.rows)
      : new Map<string, never>();
    const cursors = page.rows.map((account) => encodeCursor(account.id));
    const ids = page.rows.map(({ id }) => id);
    const health = await healthOf(store.read, 'account', ids, clock.now());
    const views = page.rows.map((row) => {
      const one = opened.get(row.id);
      const known = health.get(row.id) ?? newHealth('account');
      return one === undefined ? viewAccount(row, known) : viewAccount(one.account, known, one.credentials);
    });
    return pageResponse(selectFields(request, views), {
      totalCount: page.totalCount,
      cursorOf: (_account, index) => cursors[index] ?? '',
    });
  };

  app.get(
    '/accounts',
    {
      schema: {
        operationId: 'listAccounts',
        tags: ['accounts', 'addition'],
        summary: 'Connected accounts that the caller may see',
        description:
          'Personal ones and those of all workspaces of the caller, or of one workspace (org_id). With include_credentials, those ' +
          'that the caller may read have credentials and expires_at; an account that cannot be opened just now has none.',
        querystring: Type.Object({
          ...listParameters,
          oauth_app_id: Type.Optional(
            Type.String({ description: 'Only accounts connected through this OAuth client: oa_ id' }),
          ),
          owner_id: Type.Optional(
            Type.String({
              description: 'Addition: only accounts of this owner, u_… or o_…, that the caller may see',
            }),
          ),
          include_credentials: includeCredentials,
        }),
        response: { 200: PageOf(Account) },
      },
    },
    async (request) => {
      const caller = callerOf(request);
      const { app: slug, query, oauth_app_id: oauthClientId, include_credentials: include } = request.query;
      const { health } = request.query;
      const appName = slug ?? query;
      const workspace = namedWorkspace(request);
      if (workspace !== undefined)
        await requireWorkspace(store.read, caller, workspace.id, 'read', workspace.parameter);
      const seen = workspace === undefined ? (await ownersOf(store.read, caller)).ids : [workspace.id];
      const { owner_id: only } = request.query;
      const ownerIds = only === undefined ? seen : seen.filter((id) => id === only);
      const filter = {
        ownerIds,
        ...(appName === undefined ? {} : { app: appName }),
        ...(oauthClientId === undefined ? {} : { oauthClientId }),
        ...healthFilter(health),
      };
      return listOf(request, filter, { withCredentials: isYes(include) });
    },
  );

  app.get(
    '/workspaces/:id/accounts',
    {
      schema: {
        operationId: 'listWorkspaceAccounts',
        tags: ['accounts'],
        summary: 'Connected accounts of a workspace',
        params: IdParams('o_…'),
        querystring: Type.Object(listParameters),
        response: { 200: PageOf(Account) },
      },
    },
    async (request) => {
      const { id } = request.params;
      await requireWorkspace(store.read, callerOf(request), id, 'read');
      const appName = request.query.query ?? request.query.app;
      const { health } = request.query;
      const filter = {
        ownerIds: [id],
        ...(appName === undefined ? {} : { app: appName }),
        ...healthFilter(health),
      };
      return listOf(request, filter, { withCredentials: false });
    },
  );

  app.post(
    '/accounts',
    {
      schema: {
        operationId: 'createAccount',
        tags: ['accounts', 'addition'],
        summary: 'Connect an account with credentials that you have, or with your OAuth client',
        body: Type.Object({
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
        }),
        response: { 200: DataOf(Account) },
      },
    },
    async (request) => {
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
        return { data: selectFields(request, await view(connected)) };
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
        body: Type.Object({ name: Type.Optional(name), credentials: Type.Optional(credentials) }),
        response: { 200: DataOf(Account) },
      },
    },
    async (request) => {
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
        if (body.credentials !== undefined)
          await recordAudit(tx, { ...entry, action: 'credentials_replaced' });
        return after;
      });
      options.onAccountChange(id);
      logger.info({ account: id, owner: account.owner_id, user: caller.userId }, 'account.updated');
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
      const { id } = request.params;
      const caller = callerOf(request);
      const force = request.query.force === true;
      const { account, granted } = await store.transaction(async (tx) => {
        const found = await requireAccount(tx, caller, id, 'change');
        if (!force) await refuseInUse(tx, id, (await ownersOf(tx, caller)).ids);
        const opened = await grantOf(tx, found);
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
      return reply.code(204).send(null);
    },
  );
}

/** Why credentials cannot be opened although the store answers. */
const unopened: ReadonlySet<string> = new Set(['wrong_encryption_key', 'sealed_value_damaged']);

function isYes(parameter: string | undefined): boolean {
  return parameter === '1' || parameter === 'true';
}
