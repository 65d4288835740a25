import { Readable } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import type { FastifyReply } from 'fastify';
import { writeJson } from '#lib/write-json.ts';
import { encodeCursor, pageResponse } from './pagination.ts';

/** Maximum size of the items that are read and written at once, plus the one that exceeds it. */
const batchBytesMax = 2 * 1024 * 1024;

/** A row of a page as it was listed: without what makes its item large. */
interface ListedRow {
  id: string;
}

interface LargePage<Row extends ListedRow> {
  rows: readonly Row[];
  totalCount: number;
  /** Bytes of the item, as far as it can be large. */
  bytesOf: (row: Row) => number;
  /** Reads the items of these rows; without those that were deleted meanwhile. */
  itemsOf: (rows: readonly Row[]) => Promise<object[]>;
}

/**
 * Answers a page of items that may have megabytes each. They are read and sent a batch at a time, as fast as the caller takes
 * them: a whole page in memory would hold up every other request, and could exhaust it. Throws what reading the first batch
 * throws. The type is that of the answer that the route documents.
 */
export async function sendRows<Row extends ListedRow>(
  reply: FastifyReply,
  page: LargePage<Row>,
): Promise<never> {
  const batches = batchesOf(page);
  const cursors = page.rows.map(({ id }) => encodeCursor(id));
  const pageInfo = (items: object[]) => {
    const { page_info } = pageResponse(items, {
      totalCount: page.totalCount,
      cursorOf: (_item, index) => (index === 0 ? cursors[0] : cursors.at(-1)) ?? '',
    });
    return page_info;
  };
  const [first] = batches;
  const begun = first === undefined ? [] : await page.itemsOf(first);
  if (batches.length <= 1) return reply.send({ page_info: pageInfo(begun), data: begun }) as never;
  const text = async function* () {
    const sent = [...begun.map(() => ({}))];
    yield `{"data":[${begun.map((item) => writeJson(item)).join(',')}`;
    for (const batch of batches.slice(1)) {
      // Requests that came meanwhile go first.
      await setImmediate();
      const items = await page.itemsOf(batch);
      const comma = sent.length === 0 || items.length === 0 ? '' : ',';
      yield comma + items.map((item) => writeJson(item)).join(',');
      sent.push(...items.map(() => ({})));
    }
    yield `],"page_info":${JSON.stringify(pageInfo(sent))}}`;
  };
  reply.type('application/json; charset=utf-8');
  return reply.send(Readable.from(text())) as never;
}

function batchesOf<Row extends ListedRow>({ rows, bytesOf }: LargePage<Row>): Row[][] {
  const batches: Row[][] = [];
  let bytes = Number.POSITIVE_INFINITY;
  for (const row of rows) {
    if (bytes >= batchBytesMax) {
      batches.push([]);
      bytes = 0;
    }
    batches.at(-1)?.push(row);
    bytes += bytesOf(row);
  }
  return batches;
}
