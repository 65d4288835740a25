import type { FastifyRequest } from 'fastify';
import { CallerError } from '#lib/errors.ts';
import type { PageRequest } from '#storage/page.ts';
import { parameterOf } from './route-support.ts';

const limitDefault = 10;
const limitMax = 100;

/**
 * The page a request asks for, parameters from query or body. Cursors of records are unpadded base64url of the id;
 * `cursors: 'plain'` leaves them as they are (event ids). Throws CallerError `invalid_parameter` or `unknown_cursor`.
 */
export function pageRequest(
  request: Pick<FastifyRequest, 'query' | 'body'>,
  options: { cursors?: 'record' | 'plain' } = {},
): PageRequest {
  const limit = parameterOf(request, 'limit') ?? limitDefault;
  if (typeof limit !== 'number' || !Number.isInteger(limit) || limit < 1) {
    throw new CallerError('invalid_parameter', 'limit: expected an integer of at least 1', {
      parameter: 'limit',
    });
  }
  const after = cursorParameter(request, 'after', options.cursors);
  const before = cursorParameter(request, 'before', options.cursors);
  if (after !== undefined && before !== undefined) {
    throw new CallerError('invalid_parameter', 'after and before cannot be given together', {
      parameter: 'before',
    });
  }
  return {
    limit: Math.min(limit, limitMax),
    ...(after !== undefined && { after }),
    ...(before !== undefined && { before }),
  };
}

function cursorParameter(
  request: Pick<FastifyRequest, 'query' | 'body'>,
  parameter: 'after' | 'before',
  cursors: 'record' | 'plain' = 'record',
): string | undefined {
  const text = parameterOf(request, parameter);
  if (text === undefined) return undefined;
  const id = typeof text !== 'string' ? '' : cursors === 'plain' ? text : decodeCursor(text);
  if (id === '')
    throw new CallerError('unknown_cursor', `${parameter} is not a cursor of this list`, { parameter });
  return id;
}

export function encodeCursor(id: string): string {
  return Buffer.from(id, 'utf8').toString('base64url');
}

/** The id in a cursor, or '' when it is none. Only the one exact spelling counts. */
function decodeCursor(cursor: string): string {
  const id = Buffer.from(cursor, 'base64url').toString('utf8');
  // biome-ignore lint/suspicious/noControlCharactersInRegex: a NUL cannot be asked of PostgreSQL.
  return encodeCursor(id) === cursor && !/\u0000/.test(id) ? id : '';
}

/** The paginated answer. `cursorOf` gives an item's cursor; by default that of a record with an id. */
export function pageResponse<Item extends object>(
  items: Item[],
  options: { totalCount?: number; cursorOf: (item: Item, index: number) => string },
) {
  const first = items[0];
  const last = items.at(-1);
  return {
    page_info: {
      ...(options.totalCount !== undefined && { total_count: options.totalCount }),
      count: items.length,
      ...(first !== undefined && { start_cursor: options.cursorOf(first, 0) }),
      ...(last !== undefined && { end_cursor: options.cursorOf(last, items.length - 1) }),
    },
    data: items,
  };
}

/** One page of a list that is all there; cursors are what `idOf` says. Throws CallerError `unknown_cursor`. */
export function listPart<Item>(items: Item[], page: PageRequest, idOf: (item: Item) => string): Item[] {
  const cursor = page.after ?? page.before;
  if (cursor === undefined) return items.slice(0, page.limit);
  const at = items.findIndex((item) => idOf(item) === cursor);
  if (at === -1) {
    const parameter = page.after === undefined ? 'before' : 'after';
    throw new CallerError('unknown_cursor', `${parameter} is not a cursor of this list`, { parameter });
  }
  if (page.after !== undefined) return items.slice(at + 1, at + 1 + page.limit);
  return items.slice(Math.max(0, at - page.limit), at);
}
