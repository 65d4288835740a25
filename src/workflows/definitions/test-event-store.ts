import { type RawBuilder, sql } from 'kysely';
import { CallerError } from '#lib/errors.ts';
import { bytesText, countText } from '#lib/units.ts';
import { type Page, type PageRequest, pageOf } from '#storage/page.ts';
import type { Db, Tx } from '#storage/store.ts';
import type { TestEventTable } from '#storage/tables/workflow-tables.ts';

/** A workflow keeps this many: they are samples, not a history. */
const testEventsMax = 100;
/** JSON text of all test events of a workflow: a few of the largest. */
const testEventBytesMax = 20 * 1024 * 1024;

/** A test event as lists have it: a page of whole events would be hundreds of megabytes. */
export interface ListedTestEvent extends Omit<TestEventTable, 'event'> {
  bytes: number;
}

/** Read from the header of the row, without the text. */
const bytesOfEvent: RawBuilder<number> = sql<number>`octet_length(event)`;

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
): Promise<Page<ListedTestEvent>> {
  const query = db
    .selectFrom('test_events')
    .select(['id', 'workflow_id', 'owner_id', 'name', 'source_type', 'created_at_ms'])
    .select(bytesOfEvent.as('bytes'))
    .where('workflow_id', '=', workflowId);
  return pageOf(query, page, { table: 'test_events' });
}

/** One of the same name is replaced. Throws CallerError `invalid_parameter` when the workflow has as much as it may. */
export async function putTestEvent(tx: Tx, row: TestEventTable): Promise<void> {
  await deleteTestEvent(tx, row.workflow_id, row.name);
  const { count, bytes } = await tx
    .selectFrom('test_events')
    .select(({ fn }) => [fn.countAll().as('count'), fn.sum(bytesOfEvent).as('bytes')])
    .where('workflow_id', '=', row.workflow_id)
    .executeTakeFirstOrThrow();
  if (Number(count) >= testEventsMax)
    throw new CallerError(
      'invalid_parameter',
      `name: the workflow has ${testEventsMax} test events, and expected are fewer; delete some first`,
      { parameter: 'name' },
    );
  const found = Buffer.byteLength(row.event);
  if (Number(bytes) + found > testEventBytesMax)
    throw new CallerError(
      'invalid_parameter',
      `event: found ${countText(found)} bytes of JSON, expected at most ${countText(testEventBytesMax - Number(bytes))}: the test events of a workflow can have ${bytesText(testEventBytesMax)} together; delete some first`,
      { parameter: 'event' },
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
