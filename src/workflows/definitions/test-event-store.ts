import { CallerError } from '#lib/errors.ts';
import { type Page, type PageRequest, pageOf } from '#storage/page.ts';
import type { Db, Tx } from '#storage/store.ts';
import type { TestEventTable } from '#storage/tables/workflow-tables.ts';

/** A workflow keeps this many: they are samples, not a history. */
const testEventsMax = 100;

const columns = ['id', 'workflow_id', 'owner_id', 'name', 'event', 'source_type', 'created_at_ms'] as const;

export async function findTestEvent(
  db: Db,
  workflowId: string,
  name: string,
): Promise<TestEventTable | undefined> {
  return db
    .selectFrom('test_events')
    .select(columns)
    .where('workflow_id', '=', workflowId)
    .where('name', '=', name)
    .executeTakeFirst();
}

/** Newest first. */
export async function pageOfTestEvents(
  db: Db,
  workflowId: string,
  page: PageRequest,
): Promise<Page<TestEventTable>> {
  return pageOf(db.selectFrom('test_events').select(columns).where('workflow_id', '=', workflowId), page, {
    table: 'test_events',
  });
}

/** One of the same name is replaced. Throws CallerError `invalid_parameter` when the workflow has as many as it may. */
export async function putTestEvent(tx: Tx, row: TestEventTable): Promise<void> {
  await deleteTestEvent(tx, row.workflow_id, row.name);
  const { count } = await tx
    .selectFrom('test_events')
    .select(({ fn }) => fn.countAll().as('count'))
    .where('workflow_id', '=', row.workflow_id)
    .executeTakeFirstOrThrow();
  if (Number(count) >= testEventsMax)
    throw new CallerError(
      'invalid_parameter',
      `name: the workflow has ${testEventsMax} test events, and expected are fewer; delete some first`,
      { parameter: 'name' },
    );
  await tx.insertInto('test_events').values(row).execute();
}

/** False when there was none. */
export async function deleteTestEvent(tx: Tx, workflowId: string, name: string): Promise<boolean> {
  const { numDeletedRows } = await tx
    .deleteFrom('test_events')
    .where('workflow_id', '=', workflowId)
    .where('name', '=', name)
    .executeTakeFirst();
  return numDeletedRows > 0n;
}

export async function deleteTestEventsOf(tx: Tx, workflowId: string): Promise<void> {
  await tx.deleteFrom('test_events').where('workflow_id', '=', workflowId).execute();
}
