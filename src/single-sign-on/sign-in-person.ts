import { noteActor } from '#audit/audit-context.ts';
import { recordFurtherChange } from '#audit/record-change.ts';
import { insertApiKey } from '#identity/api-key-store.ts';
import { beginSession, isGoodSession, type SessionPlace } from '#identity/sessions.ts';
import { findUser, findUserByEmail, findUserByName, insertUser } from '#identity/user-store.ts';
import { newBase36Key, newId, newSecret } from '#lib/ids.ts';
import type { Tx } from '#storage/store.ts';
import { applyGroups, type GroupChanges, type GroupOptions } from './apply-groups.ts';
import {
  changeIdentity,
  findIdentity,
  insertIdentity,
  listIdentitiesOf,
  type UserIdentity,
} from './identity-store.ts';
import type { Person } from './read-person.ts';
import { SignInRefusal } from './sign-in-refusal.ts';

export interface SignInOptions extends GroupOptions {
  /** Name of the provider, for messages. */
  name: string;
  createUsers: 'off' | 'groups' | 'on';
  /** Only admins of the instance sign in with an API key. */
  isOnly: boolean;
  lifeMs: number;
}

export interface SignedIn {
  userId: string;
  isNewUser: boolean;
  session: { id: string; token: string; expiresAtMs: number };
  changes: GroupChanges;
}

/** Names that are tried for a new user before it is given up; each has six random characters. */
const namesTried = 5;

/**
 * Begins a session of the user whose identity this is, who may be created for it. `place` is where the session is used from. Throws SignInRefusal
 * and CallerError.
 */
export async function signInPerson(
  tx: Tx,
  options: SignInOptions,
  { person, place }: { person: Person; place: SessionPlace },
  nowMs: number,
): Promise<SignedIn> {
  const known = await findIdentity(tx, person);
  if (known !== undefined) await requireEnabled(tx, known.user_id);
  const identity = known ?? (await createPerson(tx, options, person, nowMs));
  const changes = await applyGroups(tx, options, { identity, groups: person.groups }, nowMs);
  await changeIdentity(tx, identity.id, { email: person.email ?? null, signed_in_at_ms: nowMs });
  const session = await beginSession(
    tx,
    { keyId: identity.key_id, endMs: nowMs + options.lifeMs, place },
    nowMs,
  );
  const userId = identity.user_id;
  noteActor({ kind: 'user', userId, keyId: null, sessionId: session.id }, userId);
  return { userId, isNewUser: known === undefined, session, changes };
}

async function requireEnabled(tx: Tx, userId: string): Promise<void> {
  if ((await findUser(tx, userId))?.disabled_at_ms == null) return;
  throw new SignInRefusal(
    'user_disabled',
    403,
    'Your user is disabled on this service. Ask the admin of this instance.',
  );
}

/** Links the identity to a user who asked for it, and is still signed in. Throws SignInRefusal. */
export async function linkPerson(
  tx: Tx,
  { name }: Pick<SignInOptions, 'name'>,
  { person, userId, sessionId }: { person: Person; userId: string; sessionId: string },
  nowMs: number,
): Promise<void> {
  if (!(await isGoodSession(tx, sessionId, nowMs))) {
    throw new SignInRefusal(
      'session_over',
      403,
      'You signed out before the provider answered, so nothing was linked. Sign in and link the account again.',
    );
  }
  const known = await findIdentity(tx, person);
  if (known !== undefined && known.user_id !== userId) {
    throw new SignInRefusal(
      'identity_taken',
      409,
      `This account of ${name} belongs to another user of this service. Sign in to ${name} with your own account, and link it then.`,
    );
  }
  if (known !== undefined) return noteActor({ kind: 'user', userId, keyId: null, sessionId }, userId);
  if ((await listIdentitiesOf(tx, userId)).some(({ issuer }) => issuer === person.issuer)) {
    throw new SignInRefusal(
      'identity_exists',
      409,
      `Another account of ${name} is linked to your user already. Unlink it first.`,
    );
  }
  await insertNewIdentity(tx, { userId, person }, nowMs);
  noteActor({ kind: 'user', userId, keyId: null, sessionId }, userId);
}

async function createPerson(
  tx: Tx,
  { name, createUsers, isOnly, grants, admitPerson }: SignInOptions,
  person: Person,
  nowMs: number,
): Promise<UserIdentity> {
  const hasGroup = grants.some(({ group }) => person.groups.includes(group));
  if (createUsers === 'off' || (createUsers === 'groups' && !hasGroup)) {
    throw new SignInRefusal(
      'no_user',
      403,
      `${name} signed you in, but this service has no user for you. If you have a user here, ${howToLink(name, isOnly)} Otherwise ask the operator for access.`,
    );
  }
  const email = person.isEmailVerified ? person.email : undefined;
  if (email !== undefined && (await findUserByEmail(tx, email)) !== undefined) {
    throw new SignInRefusal(
      'email_taken',
      409,
      `A user with your e-mail address exists already. If it is yours, ${howToLink(name, isOnly)}`,
    );
  }
  admitPerson();
  const username = await freeName(tx, person.username);
  // An address that is not verified could be that of another person, whom admins then add to their workspace by mistake.
  const placeholder = `${username}@no-verified-email.invalid`;
  const user = await insertUser(tx, { username, email: email ?? placeholder, isAdmin: false }, nowMs);
  await recordFurtherChange(tx, { kind: 'users', id: user.id, path: {}, ownerId: null, isNew: true });
  return insertNewIdentity(tx, { userId: user.id, person }, nowMs);
}

/** The end of a sentence for users who have a user here, to which no account is linked yet. */
function howToLink(name: string, isOnly: boolean): string {
  return isOnly
    ? `ask the operator to set MILLRACE_OIDC_ONLY=off until you have signed in with an API key and linked your account of ${name} under Workspace, Sign-in.`
    : `sign in with an API key and link your account of ${name} under Workspace, Sign-in.`;
}

async function insertNewIdentity(
  tx: Tx,
  { userId, person }: { userId: string; person: Person },
  nowMs: number,
): Promise<UserIdentity> {
  // Sessions belong to a key, and end with it. The text of this one is not kept: it can do nothing else.
  const key = await insertApiKey(tx, { userId, name: 'single sign-on', secret: newSecret() }, nowMs);
  const identity: UserIdentity = {
    id: newId('idn'),
    user_id: userId,
    issuer: person.issuer,
    subject: person.subject,
    email: person.email ?? null,
    key_id: key.id,
    admin_by_groups: 0,
    created_at_ms: nowMs,
    signed_in_at_ms: null,
  };
  await insertIdentity(tx, identity);
  return identity;
}

async function freeName(tx: Tx, wanted: string): Promise<string> {
  let name = wanted;
  for (let tried = 0; tried < namesTried; tried += 1) {
    if ((await findUserByName(tx, name)) === undefined) return name;
    name = `${wanted}-${newBase36Key(6)}`;
  }
  return name;
}
