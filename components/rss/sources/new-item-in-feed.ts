import { createHash } from 'node:crypto';
import { type FeedItem, parseFeedItems } from '../feed-items.ts';
import { fetchFeed, type Validators } from '../fetch-feed.ts';
import rss from '../rss.app.ts';

/** Newest items emitted when a source is new; as many events as are kept readable. */
const firstItemsMax = 100;

/** What one run emits at most; the next run continues where it stopped. A run may emit 6 MB. */
const runItemsMax = 500;
const runBytesMax = 4 * 1024 * 1024;

/** Items remembered in addition to those in the feed now, for feeds that remove items and add them again. */
const rememberedMax = 1_000;

/** `this` of the source. */
interface Source {
  url: string;
  db: { get(key: string): unknown; set(key: string, value: unknown): void };
  $emit(event: FeedItem, metadata: { id: string; summary: string; ts?: number }): void;
}

/** Kept between runs, under the key `feed`. */
interface Memory {
  /** The feed that the state belongs to; another URL starts afresh. */
  url: string;
  validators: Validators;
  /** Short hashes of item ids, newest first. */
  seen: string[];
}

export default {
  key: 'rss-new-item-in-feed',
  name: 'New Item in Feed',
  version: '1.0.0',
  description: 'Emits each new item of an RSS, Atom or JSON feed',
  type: 'source',
  dedupe: 'unique',
  props: {
    url: { propDefinition: [rss, 'url'] },
    timer: { propDefinition: [rss, 'timer'] },
    db: '$.service.db',
  },
  hooks: {
    /** Reads the feed once, so that a wrong URL is reported to the user who enters it. */
    async activate(this: Source) {
      const fetched = await fetchFeed(this.url);
      if (fetched.status === 'fetched') parseFeedItems(fetched.text, fetched.url);
    },
  },
  async run(this: Source) {
    const memory = recall(this);
    const fetched = await fetchFeed(this.url, memory?.validators);
    if (fetched.status === 'not_modified') return;
    const items = parseFeedItems(fetched.text, fetched.url);
    const seen = new Set(memory?.seen);
    const news = oldestFirst(items).filter((item) => isNew(item, seen));
    const wanted = memory === undefined ? news.slice(-firstItemsMax) : news;
    const left = new Set(wanted.slice(emitSome(this, wanted)).map(hashOf));
    const known = new Set([...items.map(hashOf), ...(memory?.seen ?? [])].filter((hash) => !left.has(hash)));
    const next: Memory = {
      url: this.url,
      // Without them the server sends the feed again next time, with the items that are left.
      validators: left.size === 0 ? fetched.validators : {},
      seen: [...known].slice(0, items.length + rememberedMax),
    };
    this.db.set('feed', next);
  },
  sampleEmit: {
    permalink: 'https://example.com/posts/1',
    guid: 'https://example.com/posts/1',
    title: 'First post',
    link: 'https://example.com/posts/1',
    description: '<p>Hello</p>',
    summary: '<p>Hello</p>',
    author: 'Ada',
    categories: ['news'],
    comments: null,
    image: null,
    enclosures: [],
    pubdate: '2026-01-01T00:00:00.000Z',
    date: '2026-01-01T00:00:00.000Z',
    meta: { type: 'rss', title: 'Example', link: 'https://example.com/', description: '' },
  },
};

function recall(source: Source): Memory | undefined {
  const memory = source.db.get('feed') as Memory | undefined;
  return memory?.url === source.url ? memory : undefined;
}

/** Also within one feed, which may hold an item twice. */
function isNew(item: FeedItem, seen: Set<string>): boolean {
  const hash = hashOf(item);
  if (seen.has(hash)) return false;
  seen.add(hash);
  return true;
}

/** Emits from the start of `items` as many as one run may, and says how many. */
function emitSome(source: Source, items: FeedItem[]): number {
  let bytes = 0;
  for (const [index, item] of items.slice(0, runItemsMax).entries()) {
    bytes += Buffer.byteLength(JSON.stringify(item));
    if (bytes > runBytesMax && index > 0) return index;
    const metadata = { id: item.guid, summary: item.title || item.link || item.guid };
    source.$emit(item, item.pubdate === null ? metadata : { ...metadata, ts: Date.parse(item.pubdate) });
  }
  return Math.min(items.length, runItemsMax);
}

/** Feeds put the newest on top. Where every item has a date, the dates decide. */
function oldestFirst(items: FeedItem[]): FeedItem[] {
  const reversed = items.toReversed();
  if (items.some((item) => item.pubdate === null)) return reversed;
  return reversed.sort((a, b) => Date.parse(a.pubdate ?? '') - Date.parse(b.pubdate ?? ''));
}

function hashOf(item: FeedItem): string {
  return createHash('sha256').update(item.guid).digest('base64url').slice(0, 12);
}
