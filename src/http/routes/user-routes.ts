import { type Static, Type } from 'typebox';
import { encodeCursor, pageRequest, pageResponse } from '#http/pagination.ts';
import { type App, callerOf, DataOf, OneOf, PageOf, pageParameters } from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import { requireUnlimitedKey } from '#identity/api-keys.ts';
import { createUser } from '#identity/create-identity.ts';
import { notFound } from '#identity/permissions.ts';
import { findUser, pageOfUsers, type User } from '#identity/user-store.ts';
import type { Clock } from '#lib/clock.ts';
import { epochSeconds } from '#lib/clock.ts';
import { billingPeriod } from '#metering/billing-period.ts';
import type { QuotaGuard } from '#metering/quota-guard.ts';
import { ownerQuotasOf } from '#metering/quota-store.ts';
import { usageByDay } from '#metering/usage-store.ts';
import type { Store } from '#storage/store.ts';
import { userKinds } from '#storage/tables/identity-tables.ts';
import { apiKeyShown } from './api-key-shapes.ts';
import { Email, Username } from './identity-shapes.ts';
import { DailyUse, OwnWorkspace, ownWorkspaces } from './own-workspaces.ts';

export interface UserRouteOptions {
  store: Store;
  clock: Clock;
  quotas: QuotaGuard;
  /** Throws where only the first user may be admitted. */
  admitPerson: () => void;
}

const userFields = {
  id: Type.String({ description: 'u_…' }),
  username: Type.String(),
  email: Type.String(),
};

const FreeUser = Type.Object({
  ...userFields,
  ...DailyUse,
  orgs: Type.Array(OwnWorkspace),
});

/** The details of a user for whom the admin of the instance set the plan `paid`. */
const PaidUser = Type.Object({
  ...userFields,
  billing_period_start_ts: Type.Integer({ description: 'Epoch seconds, 00:00 UTC' }),
  billing_period_end_ts: Type.Integer({ description: 'Epoch seconds: when the next one begins' }),
  billing_period_credits: Type.Integer({
    description: 'Used by what belongs to the user, not to a workspace',
  }),
});

export const ListedUser = Type.Object({
  ...userFields,
  is_admin: Type.Boolean({ description: 'Whether the user is the admin of the instance' }),
  kind: OneOf(userKinds, { description: 'A person, or a service account of a workspace' }),
  workspace_id: Type.Union([Type.String(), Type.Null()], {
    description: 'o_… of a service account; null for a person',
  }),
  disabled_at: Type.Union([Type.Integer(), Type.Null()], {
    description: 'Since when keys and sessions of the user are refused; null: they are not',
  }),
  disabled_reason: Type.Union([Type.String(), Type.Null()], {
    description: 'What the admin of the instance gave as the reason',
  }),
  created_at: Type.Integer(),
});

export function userRoutes(app: App, options: UserRouteOptions): void {
  const { store, clock } = options;
  app.get(
    '/me',
    {
      schema: {
        operationId: 'getMe',
        summary: "The authenticated user, with workspaces and today's usage",
        tags: ['users'],
        response: { 200: DataOf(Type.Union([FreeUser, PaidUser])) },
      },
    },
    async (request) => {
      const { userId } = callerOf(request);
      const user = await findUser(store.read, userId);
      if (user === undefined) throw notFound('user', userId);
      return { data: selectFields(request, await userShape(options, user)) };
    },
  );

  app.post(
    '/',
    {
      config: { adminMay: 'create users' },
      schema: {
        operationId: 'createUser',
        summary: 'Creates a user; only for the admin of the instance',
        tags: ['users', 'addition'],
        body: Type.Object({ username: Username, email: Email }),
        response: { 200: DataOf(Type.Intersect([FreeUser, Type.Object(apiKeyShown)])) },
      },
    },
    async (request) => {
      // The answer has an API key without scopes and without an end.
      await requireUnlimitedKey(store.read, callerOf(request));
      options.admitPerson();
      const { user, secret } = await createUser(store, request.body, clock);
      const shape = await freeUser(options, user);
      return { data: selectFields(request, { ...shape, api_key: secret }) };
    },
  );

  app.get(
    '/',
    {
      config: { adminMay: 'see its users' },
      schema: {
        operationId: 'listUsers',
        summary: 'All users, newest first; only for the admin of the instance',
        tags: ['users', 'addition'],
        querystring: Type.Object({
          ...pageParameters,
          q: Type.Optional(
            Type.String({
              maxLength: 200,
              description: 'Only users with this in their name, e-mail address or id',
            }),
          ),
        }),
        response: { 200: PageOf(ListedUser) },
      },
    },
    async (request) => {
      const { rows, totalCount } = await pageOfUsers(store.read, request.query.q ?? '', pageRequest(request));
      return pageResponse(selectFields(request, rows.map(listedUser)), {
        totalCount,
        cursorOf: (_, index) => encodeCursor(rows[index]?.id ?? ''),
      });
    },
  );
}

async function userShape(
  options: UserRouteOptions,
  user: User,
): Promise<Static<typeof FreeUser> | Static<typeof PaidUser>> {
  const own = (await ownerQuotasOf(options.store.read, [user.id])).get(user.id);
  if (own === undefined || own.billing_period_start_ms === null) return freeUser(options, user);
  const nowMs = options.clock.now();
  const { startMs, endMs } = billingPeriod(own.billing_period_start_ms, nowMs);
  const days = await usageByDay(options.store.read, user.id, { fromMs: startMs, toMs: nowMs });
  return {
    id: user.id,
    username: user.username,
    email: user.email,
    billing_period_start_ts: epochSeconds(startMs),
    billing_period_end_ts: epochSeconds(endMs),
    billing_period_credits: days.reduce((sum, { credits }) => sum + credits, 0),
  };
}

async function freeUser(options: UserRouteOptions, user: User): Promise<Static<typeof FreeUser>> {
  const { id, username, email } = user;
  const { personal, workspaces } = await ownWorkspaces(options, id);
  return { id, username, email, ...personal, orgs: workspaces };
}

export function listedUser(user: User): Static<typeof ListedUser> {
  return {
    id: user.id,
    username: user.username,
    email: user.email,
    is_admin: user.is_admin === 1,
    kind: user.kind,
    workspace_id: user.workspace_id,
    disabled_at: user.disabled_at_ms === null ? null : epochSeconds(user.disabled_at_ms),
    disabled_reason: user.disabled_reason,
    created_at: epochSeconds(user.created_at_ms),
  };
}
