import { sql } from 'kysely';
import type { Db, Tx } from '#storage/store.ts';
import type { SealedColumn } from './sealed-columns.ts';

/** The content of a sealed column of one row. */
export interface SealedCell {
  /** Values of the primary key. */
  key: string[];
  ownerId: string;
  content: string;
}

/** Cells that are not null, in the order of the primary key, from behind `after`; of one owner, or of all (null). */
export async function listSealedCells(
  db: Db,
  { table, column, key }: Pick<SealedColumn, 'table' | 'column' | 'key'>,
  page: { after: readonly string[] | undefined; ownerId: string | null; limit: number },
): Promise<SealedCell[]> {
  const keys = sql.join(key.map((name) => sql.ref(name)));
  const from =
    page.after === undefined
      ? sql``
      : sql`and (${keys}) > (${sql.join(page.after.map((value) => sql`${value}`))})`;
  const owner = page.ownerId === null ? sql`` : sql`and owner_id = ${page.ownerId}`;
  const { rows } = await sql<Record<string, string>>`
    select ${keys}, owner_id as cell_owner, ${sql.ref(column)} as cell_content from ${sql.table(table)}
    where ${sql.ref(column)} is not null ${from} ${owner} order by ${keys} limit ${page.limit}`.execute(db);
  return rows.map((row) => ({
    key: key.map((name) => String(row[name])),
    ownerId: String(row.cell_owner),
    content: String(row.cell_content),
  }));
}

/** Replaces the content if it still is what was read: a value that was stored meanwhile stays. */
export async function replaceSealedCell(
  tx: Tx,
  { table, column, key }: Pick<SealedColumn, 'table' | 'column' | 'key'>,
  cell: SealedCell,
  content: string,
): Promise<boolean> {
  const row = sql.join(
    key.map((name, index) => sql`${sql.ref(name)} = ${cell.key[index] ?? ''}`),
    sql` and `,
  );
  const { numAffectedRows } = await sql`
    update ${sql.table(table)} set ${sql.ref(column)} = ${content}
    where ${row} and ${sql.ref(column)} = ${cell.content}`.execute(tx);
  return Number(numAffectedRows) === 1;
}
