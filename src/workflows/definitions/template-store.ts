import { sql } from 'kysely';
import { type Page, type PageRequest, pageOf } from '#storage/page.ts';
import type { Db, Tx } from '#storage/store.ts';
import type { TemplateTable } from '#storage/tables/workflow-tables.ts';

const templateColumns = ['id', 'owner_id', 'user_id', 'name', 'definition', 'created_at_ms'] as const;

/** A template by its id, of any maker: all of them made the same. Of several rows, the one of `owners`, or the oldest. */
export async function findTemplate(
  db: Db,
  id: string,
  owners: readonly string[] = [],
): Promise<TemplateTable | undefined> {
  const rows = await db
    .selectFrom('templates')
    .select(templateColumns)
    .where('id', '=', id)
    .orderBy('created_at_ms')
    .limit(sharersRead)
    .execute();
  return rows.find((row) => owners.includes(row.owner_id)) ?? rows[0];
}

/** Rows of one template that are looked at for one of the reader's own. */
const sharersRead = 100;

/** A template as it is listed, without its definition. */
export interface ListedTemplate extends Pick<TemplateTable, 'id' | 'created_at_ms'> {
  /** Size of its definition. */
  bytes: number;
}

/** Templates of these owners, newest first; one that several of them have is shown once. */
export async function pageOfTemplates(
  db: Db,
  ownerIds: readonly string[],
  page: PageRequest,
): Promise<Page<ListedTemplate>> {
  const query = templatesOf(db, ownerIds)
    .select(['id', 'created_at_ms'])
    .select(sql<number>`octet_length(definition)`.as('bytes'));
  return pageOf(query, page, { table: 'templates' });
}

/** Some templates of that list, by id. */
export async function findTemplates(
  db: Db,
  ownerIds: readonly string[],
  ids: readonly string[],
): Promise<Map<string, TemplateTable>> {
  const rows = await templatesOf(db, ownerIds)
    .select(templateColumns)
    .where('id', 'in', [...ids])
    .execute();
  return new Map(rows.map((row) => [row.id, row]));
}

function templatesOf(db: Db, ownerIds: readonly string[]) {
  return db
    .selectFrom('templates')
    .where('owner_id', 'in', [...ownerIds])
    .where((where) =>
      where.not(
        where.exists(
          where
            .selectFrom('templates as other')
            .select('other.id')
            .whereRef('other.id', '=', 'templates.id')
            .whereRef('other.owner_id', '<', 'templates.owner_id')
            .where('other.owner_id', 'in', [...ownerIds]),
        ),
      ),
    );
}

/** The same content of the same owner again is the row that is there. */
export async function insertTemplate(tx: Tx, row: TemplateTable): Promise<TemplateTable> {
  await tx
    .insertInto('templates')
    .values(row)
    .onConflict((conflict) => conflict.columns(['id', 'owner_id']).doNothing())
    .execute();
  return tx
    .selectFrom('templates')
    .select(templateColumns)
    .where('id', '=', row.id)
    .where('owner_id', '=', row.owner_id)
    .executeTakeFirstOrThrow();
}

/** Removes the rows that these owners have of it; false when there was none. */
export async function deleteTemplate(tx: Tx, id: string, ownerIds: readonly string[]): Promise<boolean> {
  if (ownerIds.length === 0) return false;
  const { numDeletedRows } = await tx
    .deleteFrom('templates')
    .where('id', '=', id)
    .where('owner_id', 'in', [...ownerIds])
    .executeTakeFirst();
  return Number(numDeletedRows) > 0;
}
