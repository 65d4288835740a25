import { type SelectQueryBuilder, type SqlBool, sql } from 'kysely';
import { CallerError } from '#lib/errors.ts';
import type { Tables } from './tables.ts';

/** Which part of a list is wanted; `after` and `before` are record ids, at most one of them is given. */
export interface PageRequest {
  limit: number;
  after?: string;
  before?: string;
}

export interface Page<Row> {
  rows: Row[];
  /** Rows of the whole list. */
  totalCount: number;
}

/**
 * One page of a list that is ordered newest first: by `created_at_ms`, then `id`, both descending. `query` is filtered
 * and selects at least these two columns; order and limit are added here. `table` qualifies the two columns when the
 * query joins. A cursor is looked up inside the filtered list, so that ids of other tenants are as unknown as made-up
 * ones. Throws CallerError `unknown_cursor`.
 */
export async function pageOf<TB extends keyof Tables, O extends { id: string; created_at_ms: number }>(
  query: SelectQueryBuilder<Tables, TB, O>,
  page: PageRequest,
  options: { table?: string } = {},
): Promise<Page<O>> {
  const qualify = (column: string) =>
    sql.ref(options.table === undefined ? column : `${options.table}.${column}`);
  const id = qualify('id');
  const createdAt = qualify('created_at_ms');
  const counted = await query
    .clearSelect()
    .select(sql<number>`count(*)`.as('count'))
    .executeTakeFirstOrThrow();
  const totalCount = Number((counted as { count: number }).count);
  const cursorId = page.after ?? page.before;
  let part = query;
  if (cursorId !== undefined) {
    const cursor = await query.where(sql<SqlBool>`${id} = ${cursorId}`).executeTakeFirst();
    if (cursor === undefined) {
      const parameter = page.after === undefined ? 'before' : 'after';
      throw new CallerError('unknown_cursor', `${parameter} is not a cursor of this list`, { parameter });
    }
    const compare = page.after === undefined ? sql`>` : sql`<`;
    part = query.where(
      sql<SqlBool>`(${createdAt}, ${id}) ${compare} (${(cursor as O).created_at_ms}, ${cursorId})`,
    );
  }
  // `before` means the items just before the cursor: they are read from the cursor backwards and turned round.
  const direction = page.before === undefined ? 'desc' : 'asc';
  const rows = await part.orderBy(createdAt, direction).orderBy(id, direction).limit(page.limit).execute();
  return { rows: (direction === 'desc' ? rows : rows.reverse()) as O[], totalCount };
}
