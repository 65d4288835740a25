import type { PageInfo } from './generated/api-types.ts';

/** One page of a list, as the service answers it. */
export interface Page<Item> {
  readonly page_info: PageInfo;
  readonly data: Item[];
}

/** The most that the service puts on a page, and what iteration asks for where the query has no `limit`. */
const itemsOfPageMax = 100;

/**
 * A list of the service, nothing of which was asked for yet. `for await` goes through all its items, page by page; `limit` of
 * the query is then the size of a page. With `before` it goes backwards, page by page, each page in the order of the list.
 */
export class Paged<Item> implements AsyncIterable<Item> {
  readonly #query: Readonly<Record<string, unknown>>;
  readonly #ask: (query: Readonly<Record<string, unknown>>) => Promise<Page<Item>>;

  constructor(
    query: Readonly<Record<string, unknown>>,
    ask: (query: Readonly<Record<string, unknown>>) => Promise<Page<Item>>,
  ) {
    this.#query = query;
    this.#ask = ask;
  }

  /** The page that the query asks for, of 10 items where it has no `limit`. */
  firstPage(): Promise<Page<Item>> {
    return this.#ask(this.#query);
  }

  /** Every page, the last one included; a list without items has one page without items. */
  async *pages(): AsyncGenerator<Page<Item>, void, undefined> {
    const { limit, before } = this.#query;
    const size = typeof limit === 'number' ? Math.min(limit, itemsOfPageMax) : itemsOfPageMax;
    let place: string | undefined;
    let cursor: Readonly<Record<string, unknown>> = {};
    for (;;) {
      const page = await this.#ask({ ...this.#query, limit: size, ...cursor });
      yield page;
      const { start_cursor: start, end_cursor: end } = page.page_info;
      const next = before === undefined ? end : start;
      // The same place again would be asked for without end.
      if (page.data.length < size || next === undefined || next === place) return;
      place = next;
      cursor = before === undefined ? { after: next } : { before: next };
    }
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Item, void, undefined> {
    for await (const page of this.pages()) yield* page.data;
  }

  /** The first items, `itemsMax` at most. */
  async take(itemsMax: number): Promise<Item[]> {
    const items: Item[] = [];
    if (itemsMax < 1) return items;
    for await (const item of this) {
      items.push(item);
      if (items.length >= itemsMax) break;
    }
    return items;
  }
}
