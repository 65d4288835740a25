import { type Static, Type } from 'typebox';
import { encodeCursor, pageRequest, pageResponse } from '#http/pagination.ts';
import {
  type App,
  callerOf,
  DataOf,
  IdParams,
  NoContent,
  OneOf,
  PageOf,
  PageQuery,
} from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import {
  createServiceAccount,
  createServiceAccountKey,
  listServiceAccountKeys,
  listServiceAccounts,
  removeServiceAccount,
  revokeServiceAccountKey,
  type ServiceAccount,
  updateServiceAccount,
} from '#identity/service-accounts.ts';
import { type Clock, epochSeconds } from '#lib/clock.ts';
import type { Logger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import { roles } from '#storage/tables/identity-tables.ts';
import { ApiKeyShape, apiKeyShape, apiKeyShown, NewApiKey, newKeyOf } from './api-key-shapes.ts';

export interface ServiceAccountRouteOptions {
  store: Store;
  clock: Clock;
  logger: Logger;
  /** Called when access has ended: streams check at once whether their readers may still read. */
  onAccessEnd: () => void;
}

const AccountShape = Type.Object({
  id: Type.String({ description: 'u_…' }),
  username: Type.String({ description: 'The name that was given, a dot, and an ending of its own' }),
  workspace_id: Type.String({ description: 'o_…' }),
  role: OneOf(roles),
  created_by: Type.Union([Type.String(), Type.Null()], { description: 'The user who made it' }),
  disabled_at: Type.Union([Type.Integer(), Type.Null()]),
  created_at: Type.Integer(),
});
const AccountParams = Type.Object({
  id: Type.String({ description: 'o_…' }),
  account_id: Type.String({ description: 'u_…' }),
});
const KeyParams = Type.Object({
  ...AccountParams.properties,
  key_id: Type.String({ description: 'key_…' }),
});
const AccountName = Type.String({
  minLength: 1,
  maxLength: 50,
  pattern: '^[A-Za-z0-9][A-Za-z0-9._-]*$',
  description: 'Letters, digits, dot, hyphen and underscore',
});
const tags = ['service accounts', 'addition'];
const path = '/workspaces/:id/service_accounts';

/** Additions: users of a workspace that no person signs in as, for its admins. */
export function serviceAccountRoutes(app: App, options: ServiceAccountRouteOptions): void {
  const { store, clock, logger, onAccessEnd } = options;

  app.get(
    path,
    {
      schema: {
        operationId: 'listServiceAccounts',
        tags,
        summary: 'All service accounts of a workspace, oldest first; for its admins',
        params: IdParams('o_…'),
        response: { 200: DataOf(Type.Array(AccountShape)) },
      },
    },
    async (request) => {
      const accounts = await listServiceAccounts(store.read, callerOf(request), request.params.id);
      return { data: selectFields(request, accounts.map(accountShape)) };
    },
  );

  app.post(
    path,
    {
      schema: {
        operationId: 'createServiceAccount',
        tags,
        summary: 'Creates a service account: a user of the workspace for a program; for its admins',
        description:
          'It comes in with API keys only, and cannot sign in to the dashboard. What it makes belongs to the workspace, without `org_id`. It ' +
          'stays when the user who made it leaves.',
        params: IdParams('o_…'),
        body: Type.Object({
          name: AccountName,
          role: Type.Optional(OneOf(roles, { default: 'member' })),
        }),
        response: { 200: DataOf(AccountShape) },
      },
    },
    async (request) => {
      const caller = callerOf(request);
      const { name, role = 'member' } = request.body;
      const account = await createServiceAccount(
        store,
        caller,
        { workspaceId: request.params.id, name, role },
        clock,
      );
      logger.info({ user: account.user.id, by: caller.userId }, 'service-account.created');
      return { data: selectFields(request, accountShape(account)) };
    },
  );

  app.put(
    `${path}/:account_id`,
    {
      schema: {
        operationId: 'updateServiceAccount',
        tags,
        summary: 'Changes the role of a service account; for admins of the workspace',
        params: AccountParams,
        body: Type.Object({ role: OneOf(roles) }),
        response: { 200: DataOf(AccountShape) },
      },
    },
    async (request) => {
      const { id: workspaceId, account_id: accountId } = request.params;
      const { role } = request.body;
      const change = { workspaceId, accountId, role };
      const account = await updateServiceAccount(store, callerOf(request), change, clock);
      onAccessEnd();
      return { data: selectFields(request, accountShape(account)) };
    },
  );

  app.delete(
    `${path}/:account_id`,
    {
      schema: {
        operationId: 'deleteServiceAccount',
        tags,
        summary: 'Removes a service account; its keys and streams end at once, and what it made stays',
        params: AccountParams,
        response: { 204: NoContent },
      },
    },
    async (request, reply) => {
      const caller = callerOf(request);
      const { id: workspaceId, account_id: accountId } = request.params;
      await removeServiceAccount(store, caller, { workspaceId, accountId }, clock);
      onAccessEnd();
      logger.info({ user: accountId, by: caller.userId }, 'service-account.removed');
      return reply.code(204).send(null);
    },
  );

  serviceAccountKeyRoutes(app, options);
}

function serviceAccountKeyRoutes(
  app: App,
  { store, clock, logger, onAccessEnd }: ServiceAccountRouteOptions,
): void {
  app.get(
    `${path}/:account_id/keys`,
    {
      schema: {
        operationId: 'listServiceAccountKeys',
        tags,
        summary: 'API keys of a service account that are not revoked, newest first',
        params: AccountParams,
        querystring: PageQuery,
        response: { 200: PageOf(ApiKeyShape) },
      },
    },
    async (request) => {
      const { id: workspaceId, account_id: accountId } = request.params;
      const named = { workspaceId, accountId };
      const page = pageRequest(request);
      const { rows, totalCount } = await listServiceAccountKeys(store.read, callerOf(request), named, page);
      return pageResponse(selectFields(request, rows.map(apiKeyShape)), {
        totalCount,
        cursorOf: (_, index) => encodeCursor(rows[index]?.id ?? ''),
      });
    },
  );

  app.post(
    `${path}/:account_id/keys`,
    {
      schema: {
        operationId: 'createServiceAccountKey',
        tags,
        summary: 'Creates an API key for a service account',
        description:
          'The key has no scope that the key of this request does not have, and does not outlive it.',
        params: AccountParams,
        body: NewApiKey,
        response: { 200: DataOf(Type.Intersect([ApiKeyShape, Type.Object(apiKeyShown)])) },
      },
    },
    async (request) => {
      const caller = callerOf(request);
      const { id: workspaceId, account_id: accountId } = request.params;
      const values = { workspaceId, accountId, key: newKeyOf(request.body) };
      const { key, secret } = await createServiceAccountKey(store, caller, values, clock);
      logger.info({ user: accountId, key: key.id, by: caller.userId }, 'service-account.key-created');
      return { data: selectFields(request, { ...apiKeyShape(key), api_key: secret }) };
    },
  );

  app.delete(
    `${path}/:account_id/keys/:key_id`,
    {
      schema: {
        operationId: 'revokeServiceAccountKey',
        tags,
        summary: 'Revokes an API key of a service account at once',
        params: KeyParams,
        response: { 204: NoContent },
      },
    },
    async (request, reply) => {
      const { id: workspaceId, account_id: accountId, key_id: keyId } = request.params;
      await revokeServiceAccountKey(store, callerOf(request), { workspaceId, accountId, keyId }, clock);
      onAccessEnd();
      return reply.code(204).send(null);
    },
  );
}

function accountShape({ user, role }: ServiceAccount): Static<typeof AccountShape> {
  return {
    id: user.id,
    username: user.username,
    workspace_id: user.workspace_id ?? '',
    role,
    created_by: user.created_by,
    disabled_at: user.disabled_at_ms === null ? null : epochSeconds(user.disabled_at_ms),
    created_at: epochSeconds(user.created_at_ms),
  };
}
