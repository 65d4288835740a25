import { type SqlBool, sql } from 'kysely';
import { CallerError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import { type Page, type PageRequest, pageOf } from '#storage/page.ts';
import type { Db, Store, Tx } from '#storage/store.ts';
import { isUniqueViolation } from '#storage/store-errors.ts';
import type { UserTable } from '#storage/tables/identity-tables.ts';

export type User = UserTable;

const columns = ['id', 'username', 'email', 'is_admin', 'created_at_ms'] as const;

export function findUser(db: Db, id: string): Promise<User | undefined> {
  return db.selectFrom('users').select(columns).where('id', '=', id).executeTakeFirst();
}

export function findUserByEmail(db: Db, email: string): Promise<User | undefined> {
  return db.selectFrom('users').select(columns).where('email', '=', email).executeTakeFirst();
}

export function findUserByName(db: Db, username: string): Promise<User | undefined> {
  return db.selectFrom('users').select(columns).where('username', '=', username).executeTakeFirst();
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

export async function hasSeveralUsers(db: Db): Promise<boolean> {
  return (await db.selectFrom('users').select('id').limit(2).execute()).length > 1;
}

/** Throws CallerError `conflict` when the username or the e-mail address is taken. */
export async function insertUser(
  tx: Tx,
  values: { username: string; email: string; isAdmin: boolean },
  nowMs: number,
): Promise<User> {
  const taken = await tx
    .selectFrom('users')
    .select(['username'])
    .where((eb) => eb.or([eb('username', '=', values.username), eb('email', '=', values.email)]))
    .executeTakeFirst();
  if (taken !== undefined) throw userTaken(taken.username === values.username ? 'username' : 'email');
  const user: User = {
    id: newId('u'),
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

function userTaken(parameter: 'username' | 'email'): CallerError {
  return new CallerError('conflict', `a user with this ${parameter} exists already`, { parameter });
}

/** Holds the user until the end of the transaction: changes of one user's keys take turns. */
export async function lockUser(tx: Tx, store: Pick<Store, 'lockRows'>, id: string): Promise<void> {
  await store.lockRows(tx.selectFrom('users').select('users.id as id').where('users.id', '=', id)).execute();
}
