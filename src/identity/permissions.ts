import { CallerError } from '#lib/errors.ts';
import type { Db } from '#storage/store.ts';
import type { Role } from '#storage/tables/identity-tables.ts';
import type { Scopes } from './key-scopes.ts';
import { isRole } from './membership.ts';
import { listMembershipsOf } from './workspace-store.ts';

/** The caller of a request. `isAdmin` is about the instance (creating users), never about other tenants' resources. */
export interface Caller {
  /** u_… of a user; for an access token oac_… of its OAuth client, which owns nothing itself. */
  userId: string;
  isAdmin: boolean;
  /** What the request came with: key_… or tok_…. */
  keyId: string;
  /** ses_… when it came with the cookie of a session; `keyId` is then the key that the session began with. */
  sessionId?: string;
  /** Set for an access token: it acts as a member of this workspace only. */
  workspaceId?: string;
  /** Set for a service account: its workspace, which owns what it makes. */
  homeId?: string;
  /** Scopes of the API key; null or absent: all. */
  scopes?: Scopes;
}

/** The owner of what the caller makes and means without naming a workspace. */
export function homeOf(caller: Caller): string {
  return caller.workspaceId ?? caller.homeId ?? caller.userId;
}

/** What a caller may do with things of each owner: themselves (u_…) and their workspaces (o_…). */
export class Ownership {
  readonly #roles: ReadonlyMap<string, Role>;

  constructor(rolesByOwner: ReadonlyMap<string, Role>) {
    this.#roles = rolesByOwner;
  }

  /** Every owner whose things the caller may read. */
  get ids(): string[] {
    return [...this.#roles.keys()];
  }

  roleIn(ownerId: string): Role | undefined {
    return this.#roles.get(ownerId);
  }

  mayRead(ownerId: string): boolean {
    return this.#roles.has(ownerId);
  }

  mayWrite(ownerId: string): boolean {
    const role = this.#roles.get(ownerId);
    return role === 'admin' || role === 'member';
  }

  mayAdminister(ownerId: string): boolean {
    return this.#roles.get(ownerId) === 'admin';
  }
}

export async function ownersOf(db: Db, caller: Pick<Caller, 'userId' | 'workspaceId'>): Promise<Ownership> {
  if (caller.workspaceId !== undefined) return new Ownership(new Map([[caller.workspaceId, 'member']]));
  const owners = new Map<string, Role>([[caller.userId, 'admin']]);
  for (const { workspace_id, role } of await listMembershipsOf(db, caller.userId)) {
    if (isRole(role)) owners.set(workspace_id, role);
  }
  return new Ownership(owners);
}

/** The same error for an object that does not exist and for one of another owner, so that a caller cannot tell them apart. */
export function notFound(what: string, id: string, parameter = 'id'): CallerError {
  return new CallerError('not_found', `no ${what} ${JSON.stringify(id)}`, { parameter });
}

function forbidden(what: string): CallerError {
  return new CallerError('forbidden', `your role in this workspace lets you only read its ${what}`);
}

/** Passes a record through when the caller may read it. Throws CallerError `not_found` otherwise, or when there is none. */
export async function readable<R extends { owner_id: string }>(
  db: Db,
  caller: Caller,
  record: R | undefined,
  name: { what: string; id: string; parameter?: string },
): Promise<R> {
  if (record !== undefined && (await mayRead(db, caller, record.owner_id))) return record;
  throw notFound(name.what, name.id, name.parameter);
}

/** As `readable`, for changing it: a viewer gets CallerError `forbidden`. */
export async function writable<R extends { owner_id: string }>(
  db: Db,
  caller: Caller,
  record: R | undefined,
  name: { what: string; id: string; parameter?: string },
): Promise<R> {
  if (record !== undefined) {
    if (record.owner_id === caller.userId) return record;
    const owners = await ownersOf(db, caller);
    if (owners.mayWrite(record.owner_id)) return record;
    if (owners.mayRead(record.owner_id)) throw forbidden(`${name.what.replace(/y$/, 'ie')}s`);
  }
  throw notFound(name.what, name.id, name.parameter);
}

export async function mayRead(db: Db, caller: Caller, ownerId: string): Promise<boolean> {
  return ownerId === caller.userId || (await ownersOf(db, caller)).mayRead(ownerId);
}

export async function mayWrite(db: Db, caller: Caller, ownerId: string): Promise<boolean> {
  return ownerId === caller.userId || (await ownersOf(db, caller)).mayWrite(ownerId);
}

/**
 * The owner of what a create makes: the workspace that was named, else the caller personally, or for an access token or a service account
 * its workspace. Throws CallerError `not_found` for a workspace the caller is not a member of, `forbidden` for a viewer of it.
 */
export async function resolveOwner(
  db: Db,
  caller: Caller,
  orgId: string | undefined,
  parameter = 'org_id',
): Promise<string> {
  const ownerId = orgId ?? homeOf(caller);
  // A service account may be a viewer of its workspace.
  if (ownerId === homeOf(caller) && caller.homeId === undefined) return ownerId;
  const owners = await ownersOf(db, caller);
  if (owners.mayWrite(ownerId)) return ownerId;
  if (owners.mayRead(ownerId)) throw forbidden('resources');
  throw notFound('workspace', ownerId, parameter);
}

/** A workspace that the caller is a member of, with at least this right. Throws `not_found` or `forbidden`. */
export async function requireWorkspace(
  db: Db,
  caller: Caller,
  workspaceId: string,
  right: 'read' | 'write' | 'administer',
  parameter = 'id',
): Promise<Ownership> {
  const owners = await ownersOf(db, caller);
  if (!workspaceId.startsWith('o_') || !owners.mayRead(workspaceId)) {
    throw notFound('workspace', workspaceId, parameter);
  }
  if (right === 'write' && !owners.mayWrite(workspaceId)) throw forbidden('resources');
  if (right === 'administer' && !owners.mayAdminister(workspaceId)) {
    throw new CallerError('forbidden', 'only an admin of this workspace may do this');
  }
  return owners;
}
