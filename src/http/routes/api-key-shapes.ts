import { type Static, Type } from 'typebox';
import { OneOf } from '#http/route-support.ts';
import type { ApiKey } from '#identity/api-key-store.ts';
import type { NewKey } from '#identity/api-keys.ts';
import { decodeScopes } from '#identity/key-scopes.ts';
import { epochSeconds } from '#lib/clock.ts';
import { keyScopes } from '#storage/tables/identity-tables.ts';
import { KeyName } from './identity-shapes.ts';

const Scope = OneOf(keyScopes);
/** The year 9999: later times are no dates. */
const expiresAtMax = 253_402_300_799;

export const ApiKeyShape = Type.Object({
  id: Type.String({ description: 'key_…' }),
  name: Type.String(),
  hint: Type.String({ description: 'The last four characters' }),
  scopes: Type.Union([Type.Array(Scope), Type.Null()], { description: 'null: all' }),
  expires_at: Type.Union([Type.Integer(), Type.Null()], {
    description: 'Epoch seconds: refused from then on; null: no end',
  }),
  created_at: Type.Integer(),
  last_used_at: Type.Union([Type.Integer(), Type.Null()]),
});

export const apiKeyShown = { api_key: Type.String({ description: 'Shown once, here' }) };

export const NewApiKey = Type.Object({
  name: Type.Optional(KeyName),
  scopes: Type.Optional(
    Type.Union([Type.Array(Scope, { minItems: 1, uniqueItems: true }), Type.Null()], {
      description: 'What the key may be used for. Absent: all, which only a key with all scopes may give',
    }),
  ),
  expires_at: Type.Optional(
    Type.Union([Type.Integer({ minimum: 0, maximum: expiresAtMax }), Type.Null()], {
      description: 'Epoch seconds. Absent: no end, which only a key without an end may give',
    }),
  ),
});

/** What the body of a request says of a new key; what it leaves out is undefined. */
export function newKeyOf(body: Static<typeof NewApiKey>): Omit<NewKey, 'userId'> {
  const { name = '', scopes, expires_at: expiresAt } = body;
  return {
    name,
    ...(scopes === undefined ? {} : { scopes }),
    ...(expiresAt === undefined ? {} : { expiresAtMs: expiresAt === null ? null : expiresAt * 1000 }),
  };
}

export function apiKeyShape(key: ApiKey): Static<typeof ApiKeyShape> {
  const seconds = (ms: number | null) => (ms === null ? null : epochSeconds(ms));
  const scopes = decodeScopes(key.scopes);
  return {
    id: key.id,
    name: key.name,
    hint: key.key_hint,
    scopes: scopes === null ? null : [...scopes],
    expires_at: seconds(key.expires_at_ms),
    created_at: epochSeconds(key.created_at_ms),
    last_used_at: seconds(key.last_used_at_ms),
  };
}
