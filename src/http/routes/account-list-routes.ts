import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import type { AccountCredentials } from '#accounts/account-credentials.ts';
import type { AccountFilter } from '#accounts/account-store.ts';
import { listAccounts } from '#accounts/manage-accounts.ts';
import { CredentialReader } from '#accounts/read-credentials.ts';
import { viewAccount } from '#accounts/view-account.ts';
import { type HealthState, newHealth } from '#health/health.ts';
import { healthOf } from '#health/health-store.ts';
import { encodeCursor, pageRequest, pageResponse } from '#http/pagination.ts';
import { type App, callerOf, IdParams, namedWorkspace, PageOf, pageParameters } from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import { ownersOf, requireWorkspace } from '#identity/permissions.ts';
import type { Clock } from '#lib/clock.ts';
import type { Logger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import type { Vault } from '#vault/vault.ts';
import { Account } from './account-shapes.ts';
import { healthParameter } from './health-shapes.ts';
import { includeCredentials, isYes } from './include-credentials.ts';

const listParameters = {
  ...pageParameters,
  app: Type.Optional(Type.String({ description: 'Only accounts of this app: slug or app_ id' })),
  query: Type.Optional(Type.String({ description: 'The same as app' })),
  health: healthParameter,
};

export interface AccountListRouteOptions {
  store: Store;
  vault: Vault;
  clock: Clock;
  logger: Logger;
  accountCredentials: Pick<AccountCredentials, 'read'>;
}

/** Connected accounts of a caller, and of a workspace. */
export function accountListRoutes(app: App, options: AccountListRouteOptions): void {
  const { store, clock } = options;
  const reader = new CredentialReader(options);

  const healthFilter = (state: HealthState | undefined) =>
    state === undefined ? {} : { health: { state, nowMs: clock.now() } };

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
}
