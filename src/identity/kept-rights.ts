import type { Db } from '#storage/store.ts';
import { type Caller, type Ownership, ownersOf } from './permissions.ts';

/** What a caller may do: as admin of the instance, and in each workspace. */
export interface CallerRights {
  isAdmin: boolean;
  owners: Ownership;
}

export async function rightsOf(db: Db, caller: Caller): Promise<CallerRights> {
  return { isAdmin: caller.isAdmin, owners: await ownersOf(db, caller) };
}

/** JSON to be kept with what these rights led to. */
export function encodeRights({ isAdmin, owners }: CallerRights): string {
  return JSON.stringify({ isAdmin, roles: owners.ids.map((id) => [id, owners.roleIn(id)]) });
}

/** True when a caller still has every right that `encodeRights` wrote down. */
export function hasStill({ isAdmin, owners }: CallerRights, kept: string): boolean {
  const then = JSON.parse(kept) as { isAdmin: boolean; roles: [string, string][] };
  if (then.isAdmin && !isAdmin) return false;
  return then.roles.every(([id, role]) => {
    if (role === 'admin') return owners.mayAdminister(id);
    return role === 'member' ? owners.mayWrite(id) : owners.mayRead(id);
  });
}
