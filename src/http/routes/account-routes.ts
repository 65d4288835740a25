import { Type } from 'typebox';
import { openCredentials } from '#accounts/account-credentials.ts';
import {
  createAccount,
  deleteAccount,
  getAccount,
  listAccounts,
  updateAccount,
  viewAccount,
} from '#accounts/manage-accounts.ts';
import { ownersOf, requireWorkspace, writable } from '#auth/permissions.ts';
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
import type { Clock } from '#lib/clock.ts';
import type { Logger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import type { Vault } from '#vault/vault.ts';

/** Specification, section 2, Connected account. */
const Account = Type.Object(
  {
    id: Type.String({ description: 'apn_…' }),
    name: Type.Union([Type.String(), Type.Null()]),
    app: Type.Object({ id: Type.String(), name_slug: Type.String(), name: Type.String() }),
    healthy: Type.Boolean(),
    created_at: Type.String({ format: 'date-time' }),
    updated_at: Type.String({ format: 'date-time' }),
    expires_at: Type.Optional(Type.Union([Type.String({ format: 'date-time' }), Type.Null()])),
    credentials: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
  },
  { additionalProperties: true },
);

const credentials = Type.Record(Type.String(), Type.Unknown(), {
  description: 'What a component reads as $auth, by field',
});
const name = Type.Union([Type.String(), Type.Null()], { description: 'Nickname' });

const listParameters = {
  ...pageParameters,
  app: Type.Optional(Type.String({ description: 'Only accounts of this app: slug or app_ id' })),
  query: Type.Optional(Type.String({ description: 'The same as app' })),
};

export interface AccountRouteDeps {
  store: Store;
  vault: Vault;
  clock: Clock;
  logger: Logger;
  /** Sources that use the account must run with what it is now. */
  onAccountChange: (accountId: string) => void;
}

/** Specification, section 4, Connected accounts; creating and changing them are additions. */
export function accountRoutes(app: App, deps: AccountRouteDeps): void {
  const { store, vault, logger } = deps;

  const listOf = async (
    request: Parameters<typeof pageRequest>[0],
    ownerIds: readonly string[],
    appName: string | undefined,
  ) => {
    const page = await listAccounts(
      store.read,
      { ownerIds, ...(appName === undefined ? {} : { app: appName }) },
      pageRequest(request),
    );
    const cursors = page.rows.map((account) => encodeCursor(account.id));
    return pageResponse(
      selectFields(
        request,
        page.rows.map((account) => viewAccount(account)),
      ),
      {
        totalCount: page.totalCount,
        cursorOf: (_account, index) => cursors[index] ?? '',
      },
    );
  };

  app.get(
    '/accounts',
    {
      schema: {
        operationId: 'listAccounts',
        tags: ['accounts', 'addition'],
        summary: 'Connected accounts that the caller may use',
        querystring: Type.Object(listParameters),
        response: { 200: PageOf(Account) },
      },
    },
    async (request) => {
      const caller = callerOf(request);
      const appName = request.query.app ?? request.query.query;
      const workspace = namedWorkspace(request);
      if (workspace !== undefined) {
        await requireWorkspace(store.read, caller, workspace.id, 'read', workspace.parameter);
        return listOf(request, [workspace.id], appName);
      }
      return listOf(request, (await ownersOf(store.read, caller)).ids, appName);
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
      return listOf(request, [id], request.query.query ?? request.query.app);
    },
  );

  app.post(
    '/accounts',
    {
      schema: {
        operationId: 'createAccount',
        tags: ['accounts', 'addition'],
        summary: 'Connect an account with static credentials',
        body: Type.Object({
          app: Type.String({ description: 'Slug of the app, such as gitlab' }),
          name: Type.Optional(name),
          credentials,
        }),
        response: { 200: DataOf(Account) },
      },
    },
    async (request) => {
      const ownerId = await ownerForCreate(store.read, request);
      const { userId } = callerOf(request);
      const account = await store.transaction((tx) =>
        createAccount(tx, deps, { ...request.body, ownerId, userId }),
      );
      logger.info(
        { account: account.id, owner: ownerId, user: userId, app: account.app_slug },
        'account.created',
      );
      return { data: selectFields(request, viewAccount(account)) };
    },
  );

  app.get(
    '/accounts/:id',
    {
      schema: {
        operationId: 'getAccount',
        tags: ['accounts'],
        summary: 'A connected account, on request with its credentials',
        params: IdParams('apn_…'),
        querystring: Type.Object({
          include_credentials: Type.Optional(
            Type.Union([Type.Literal('0'), Type.Literal('1'), Type.Literal('true'), Type.Literal('false')], {
              description: '1 or true: with credentials; for those who may change the account',
            }),
          ),
        }),
        response: { 200: DataOf(Account) },
      },
    },
    async (request) => {
      const { id } = request.params;
      const caller = callerOf(request);
      const owners = await ownersOf(store.read, caller);
      const account = await getAccount(store.read, id, owners.ids);
      const withCredentials = ['1', 'true'].includes(request.query.include_credentials ?? '0');
      if (!withCredentials) return { data: selectFields(request, viewAccount(account)) };
      // To use an account and to read it are two rights.
      await writable(store.read, caller, account, { what: 'account', id });
      const opened = await openCredentials(store.read, vault, id, owners.ids);
      logger.info({ account: id, owner: account.owner_id, user: caller.userId }, 'account.credentials-read');
      return { data: selectFields(request, viewAccount(account, opened)) };
    },
  );

  app.put(
    '/accounts/:id',
    {
      schema: {
        operationId: 'updateAccount',
        tags: ['accounts', 'addition'],
        summary: 'Rename an account or replace its credentials',
        params: IdParams('apn_…'),
        body: Type.Object({ name: Type.Optional(name), credentials: Type.Optional(credentials) }),
        response: { 200: DataOf(Account) },
      },
    },
    async (request) => {
      const { id } = request.params;
      const caller = callerOf(request);
      const owners = await ownersOf(store.read, caller);
      await writable(store.read, caller, await getAccount(store.read, id, owners.ids), {
        what: 'account',
        id,
      });
      const account = await store.transaction((tx) => updateAccount(tx, deps, id, owners.ids, request.body));
      deps.onAccountChange(id);
      logger.info({ account: id, owner: account.owner_id, user: caller.userId }, 'account.updated');
      return { data: selectFields(request, viewAccount(account)) };
    },
  );

  app.delete(
    '/accounts/:id',
    {
      schema: {
        operationId: 'deleteAccount',
        tags: ['accounts', 'addition'],
        summary: 'Remove a connected account',
        params: IdParams('apn_…'),
        response: { 204: NoContent },
      },
    },
    async (request, reply) => {
      const { id } = request.params;
      const caller = callerOf(request);
      const owners = await ownersOf(store.read, caller);
      const account = await writable(store.read, caller, await getAccount(store.read, id, owners.ids), {
        what: 'account',
        id,
      });
      await store.transaction((tx) => deleteAccount(tx, id, owners.ids));
      deps.onAccountChange(id);
      logger.info({ account: id, owner: account.owner_id, user: caller.userId }, 'account.deleted');
      return reply.code(204).send(null);
    },
  );
}
