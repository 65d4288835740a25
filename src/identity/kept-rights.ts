import type { Db } from '#storage/store.ts';
import { findApiKey } from './api-key-store.ts';
import { isWithin, type Scopes } from './key-scopes.ts';
import { type Caller, type Ownership, ownersOf } from './permissions.ts';

/** What a caller may do: as admin of the instance, and in each workspace. */
export interface CallerRights {
  isAdmin: boolean;
  owners: Ownership;
  /** Null: all. */
  scopes: Scopes;
  /** When the key of the request ends, epoch ms; null: never, or it is an access token. */
  expiresAtMs: number | null;
}

export async function rightsOf(db: Db, caller: Caller): Promise<CallerRights> {
  const key = caller.workspaceId === undefined ? await findApiKey(db, caller.keyId) : undefined;
  return {
    isAdmin: caller.isAdmin,
    owners: await ownersOf(db, caller),
    scopes: caller.scopes ?? null,
    expiresAtMs: key?.expires_at_ms ?? null,
  };
}

/** What `encodeRights` writes; fields that an earlier version did not write are absent. */
interface KeptRights {
  isAdmin: boolean;
  scopes?: Scopes;
  expiresAtMs?: number | null;
  roles: [string, string][];
}

/** JSON to be kept with what these rights led to. */
export function encodeRights({ isAdmin, owners, scopes, expiresAtMs }: CallerRights): string {
  const roles = owners.ids.map((id) => [id, owners.roleIn(id)]);
  return JSON.stringify({ isAdmin, scopes, expiresAtMs, roles });
}

/** True when a caller still has every right that `encodeRights` wrote down. */
export function hasStill({ isAdmin, owners, scopes, expiresAtMs }: CallerRights, kept: string): boolean {
  const then = JSON.parse(kept) as KeptRights;
  if (then.isAdmin && !isAdmin) return false;
  // The answer may show a new key with the scopes and the end of the key that asked for it.
  if (!isWithin(then.scopes ?? null, scopes)) return false;
  if (expiresAtMs !== null && (then.expiresAtMs ?? Number.POSITIVE_INFINITY) > expiresAtMs) return false;
  return then.roles.every(([id, role]) => {
    if (role === 'admin') return owners.mayAdminister(id);
    return role === 'member' ? owners.mayWrite(id) : owners.mayRead(id);
  });
}
