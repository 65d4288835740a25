import { type SqlBool, sql } from 'kysely';
import { CallerError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import { type Page, type PageRequest, pageOf } from '#storage/page.ts';
import type { Db, Store, Tx } from '#storage/store.ts';
import { isUniqueViolation } from '#storage/store-errors.ts';
import type { UserTable } from '#storage/tables/identity-tables.ts';

export type User = UserTable;

const columns = [
  ...(['id', 'kind', 'username', 'email', 'is_admin', 'created_at_ms'] as const),
  ...(['workspace_id', 'created_by', 'disabled_at_ms', 'disabled_reason'] as const),
] as const;

export function findUser(db: Db, id: string): Promise<User | undefined> {
  return db.selectFrom('users').select(columns).where('id', '=', id).executeTakeFirst();
}

export function findUserByEmail(db: Db, email: string): Promise<User | undefined> {
  return findByText(db, 'email', email);
}

export function findUserByName(db: Db, username: string): Promise<User | undefined> {
  return findByText(db, 'username', username);
}

/** In any case of letters, as people write them. Users of earlier versions may differ in case only: the exact text counts first. */
function findByText(db: Db, column: 'username' | 'email', text: string): Promise<User | undefined> {
  return db
    .selectFrom('users')
    .select(columns)
    .where(isText(column, text))
    .orderBy((eb) => eb.case().when(column, '=', text).then(0).else(1).end())
    .orderBy('created_at_ms')
    .executeTakeFirst();
}

/** SQLite lowers ASCII letters only, so the text as it is counts too. */
function isText(column: 'username' | 'email', text: string) {
  const found = sql.ref(column);
  return sql<SqlBool>`(${found} = ${text} or lower(${found}) = ${text.toLowerCase()})`;
}

/** The oldest admin of the instance: the user that the first start made. */
export function findFirstAdmin(db: Db): Promise<User | undefined> {
  return db
    .selectFrom('users')
    .select(columns)
    .where('is_admin', '=', 1)
    .orderBy('created_at_ms')
    .orderBy('id')
    .executeTakeFirst();
}

/** Oldest first, `limit` of them. */
export function listUsers(db: Db, limit: number): Promise<User[]> {
  return db.selectFrom('users').select(columns).orderBy('created_at_ms').orderBy('id').limit(limit).execute();
}

/** Names of users by id; users who do not exist are not in it. */
export async function usernamesOf(db: Db, ids: readonly string[]): Promise<Map<string, string>> {
  if (ids.length === 0) return new Map();
  const rows = await db
    .selectFrom('users')
    .select(['id', 'username'])
    .where('id', 'in', [...ids])
    .execute();
  return new Map(rows.map(({ id, username }) => [id, username]));
}

/** Newest first; with `words` those that have them in their name, e-mail address or id. */
export async function pageOfUsers(db: Db, words: string, page: PageRequest): Promise<Page<User>> {
  const query = db.selectFrom('users').select(columns);
  const sought = words.trim().toLowerCase();
  if (sought === '') return pageOf(query, page);
  const pattern = `%${sought.replaceAll(/[\\%_]/g, '\\$&')}%`;
  const has = (column: 'username' | 'email' | 'id') =>
    sql<SqlBool>`lower(${sql.ref(column)}) like ${pattern} escape '\\'`;
  return pageOf(
    query.where((where) => where.or([has('username'), has('email'), has('id')])),
    page,
  );
}

export async function hasUsers(db: Db): Promise<boolean> {
  return (await db.selectFrom('users').select('id').limit(1).executeTakeFirst()) !== undefined;
}

/** True when more than one person uses the instance. */
export async function hasSeveralUsers(db: Db): Promise<boolean> {
  const people = db.selectFrom('users').select('id').where('kind', '=', 'person').limit(2);
  return (await people.execute()).length > 1;
}

/** Where a service account belongs, and who made it. */
export interface ServiceOrigin {
  workspaceId: string;
  createdBy: string;
}

/** Throws CallerError `conflict` when the username or the e-mail address is taken, in any case of letters. */
export async function insertUser(
  tx: Tx,
  values: { username: string; email: string; isAdmin: boolean; service?: ServiceOrigin },
  nowMs: number,
): Promise<User> {
  const taken = await tx
    .selectFrom('users')
    .select(['username'])
    .where((eb) => eb.or([isText('username', values.username), isText('email', values.email)]))
    .executeTakeFirst();
  if (taken !== undefined) throw userTaken(isSame(taken.username, values.username) ? 'username' : 'email');
  const user: User = {
    id: newId('u'),
    kind: values.service === undefined ? 'person' : 'service',
    workspace_id: values.service?.workspaceId ?? null,
    created_by: values.service?.createdBy ?? null,
    disabled_at_ms: null,
    disabled_reason: null,
    username: values.username,
    email: values.email,
    is_admin: values.isAdmin ? 1 : 0,
    created_at_ms: nowMs,
  };
  try {
    await tx.insertInto('users').values(user).execute();
  } catch (error) {
    // Another node was faster between the two statements.
    if (isUniqueViolation(error)) throw userTaken('username');
    throw error;
  }
  return user;
}

/** Throws CallerError `conflict` when another user has the e-mail address, in any case of letters. */
export async function setUserEmail(tx: Tx, id: string, email: string): Promise<void> {
  const taken = tx.selectFrom('users').select('id').where(isText('email', email)).where('id', '!=', id);
  if ((await taken.executeTakeFirst()) !== undefined) throw userTaken('email');
  try {
    await tx.updateTable('users').set({ email }).where('id', '=', id).execute();
  } catch (error) {
    // Another node was faster between the two statements.
    if (isUniqueViolation(error)) throw userTaken('email');
    throw error;
  }
}

function isSame(one: string, other: string): boolean {
  return one.toLowerCase() === other.toLowerCase();
}

function userTaken(parameter: 'username' | 'email'): CallerError {
  return new CallerError('conflict', `a user with this ${parameter} exists already`, { parameter });
}

/** Makes a user an admin of the instance, or takes that away. */
export async function setInstanceAdmin(tx: Tx, id: string, isAdmin: boolean): Promise<void> {
  await tx
    .updateTable('users')
    .set({ is_admin: isAdmin ? 1 : 0 })
    .where('id', '=', id)
    .execute();
}

/** Holds the user until the end of the transaction: changes of one user's keys take turns. */
export async function lockUser(tx: Tx, store: Pick<Store, 'lockRows'>, id: string): Promise<void> {
  await store.lockRows(tx.selectFrom('users').select('users.id as id').where('users.id', '=', id)).execute();
}

/** Keeps a user from being disabled or deleted before the end of the transaction. */
export function keepUser(
  tx: Tx,
  store: Pick<Store, 'keepRows'>,
  id: string,
): Promise<Pick<User, 'disabled_at_ms'> | undefined> {
  return store
    .keepRows(tx.selectFrom('users').select('users.disabled_at_ms').where('users.id', '=', id))
    .executeTakeFirst();
}

/** Holds all admins of the instance until the end of the transaction, in one order, before any other user is held. */
export async function lockInstanceAdmins(tx: Tx, store: Pick<Store, 'lockRows'>): Promise<void> {
  const admins = tx.selectFrom('users').select('users.id as id').where('users.is_admin', '=', 1);
  await store.lockRows(admins.orderBy('users.id')).execute();
}

/** How many admins of the instance there are beside this user, disabled ones not counted. */
export async function otherInstanceAdmins(db: Db, id: string): Promise<number> {
  const { count } = await db
    .selectFrom('users')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('is_admin', '=', 1)
    .where('disabled_at_ms', 'is', null)
    .where('id', '!=', id)
    .executeTakeFirstOrThrow();
  return Number(count);
}

export async function disableUserRow(
  tx: Tx,
  id: string,
  disabled: { nowMs: number; reason: string | null },
): Promise<void> {
  await tx
    .updateTable('users')
    .set({ disabled_at_ms: disabled.nowMs, disabled_reason: disabled.reason })
    .where('id', '=', id)
    .execute();
}

export async function enableUserRow(tx: Tx, id: string): Promise<void> {
  await tx
    .updateTable('users')
    .set({ disabled_at_ms: null, disabled_reason: null })
    .where('id', '=', id)
    .execute();
}
