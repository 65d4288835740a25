import { Type } from 'typebox';
import { OneOf } from '#http/route-support.ts';
import { auditActions } from '#storage/tables/account-tables.ts';
import { Health } from './health-shapes.ts';

const DateTime = Type.String({ format: 'date-time' });
const when = (description: string) => Type.Union([DateTime, Type.Null()], { description });
const TextOrNull = Type.Union([Type.String(), Type.Null()]);

/** Specification, section 2, Connected account; what is beyond it is marked so. */
export const Account = Type.Object(
  {
    id: Type.String({ description: 'apn_…' }),
    user_id: Type.String({ description: 'Addition: who connected it' }),
    owner_id: Type.String({ description: 'Addition: u_… or o_…' }),
    name: Type.Union([Type.String(), Type.Null()], { description: 'Nickname' }),
    app: Type.Object({ id: Type.String(), name_slug: Type.String(), name: Type.String() }),
    health: Health,
    healthy: Type.Boolean({ description: 'Whether the last test request succeeded' }),
    dead: Type.Boolean({
      description: 'Addition: the provider refused it for good; it has to be connected again',
    }),
    error: Type.Union([Type.String(), Type.Null()], { description: 'Addition: why it is unhealthy or dead' }),
    authorized_scopes: Type.Union([Type.Array(Type.String()), Type.Null()], {
      description: 'Addition: null when it is not known',
    }),
    last_refreshed_at: when('Addition: when the provider last gave another access token'),
    next_refresh_at: when('Addition: null when it is not refreshed by itself'),
    checked_at: when('Addition: when it was last tested; null: not since its credentials are these'),
    created_at: DateTime,
    updated_at: DateTime,
    expires_at: Type.Optional(when('With credentials: when the access token ends; null: it does not')),
    credentials: Type.Optional(
      Type.Record(Type.String(), Type.Unknown(), {
        description: 'What a component reads as $auth, by field',
      }),
    ),
  },
  { additionalProperties: true },
);

const AccountUser = Type.Object({
  id: Type.String({ description: 'dc_… or p_…' }),
  name: Type.String(),
  active: Type.Boolean(),
});

export const AccountUses = Type.Object({
  sources: Type.Array(AccountUser, { description: 'At most 100 that you may read, oldest first' }),
  workflows: Type.Array(AccountUser, { description: 'Those whose present version uses it' }),
  more: Type.Object(
    { sources: Type.Integer(), workflows: Type.Integer() },
    { description: 'How many are not listed: they belong to others, or there are too many' },
  ),
  used: Type.Array(
    Type.Object({
      id: Type.String({
        description:
          'dc_… or p_… that was given the credentials; sc_…: when it was asked for options or props',
      }),
      name: Type.Union([Type.String(), Type.Null()], { description: 'null: it is gone, or a component' }),
      day: Type.String({ format: 'date', description: 'UTC' }),
      uses: Type.Integer({ description: 'Times the credentials were handed out on that day' }),
      first_used_at: DateTime,
      last_used_at: DateTime,
    }),
    { description: 'At most 100 days of sources and workflows, latest first' },
  ),
});

export const AuditAction = OneOf(auditActions);

export const AuditEntry = Type.Object({
  id: Type.String({ description: 'aud_…' }),
  account_id: Type.String(),
  app: Type.Object({ id: Type.String(), name_slug: Type.String() }),
  action: AuditAction,
  user_id: Type.Union([Type.String(), Type.Null()], { description: 'null: the service itself' }),
  key_id: TextOrNull,
  details: Type.Record(Type.String(), Type.Unknown(), { description: 'Never a secret' }),
  created_at: DateTime,
});
