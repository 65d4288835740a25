import { createHash } from 'node:crypto';
import { type AnyFeed, parseFeed } from 'feedsmith';

/** More items than any reader keeps; the rest of a longer feed is not looked at. */
const itemsMax = 10_000;

/** Longest text of one field, in characters: an event is for saying what is new, not for carrying a book. */
const textMax = 200_000;
const titleMax = 1_000;

/** One entry of a feed, the same shape for every format. `permalink`, `guid`, `title`, `link` are always strings. */
export interface FeedItem {
  /** Address of this very entry; '' when the feed gives none. */
  permalink: string;
  /** What the feed recognises the entry by, else its link, else a hash of its content. */
  guid: string;
  title: string;
  link: string;
  /** HTML or text, as in the feed: the whole content where there is one, else the summary. */
  description: string;
  summary: string;
  author: string | null;
  categories: string[];
  comments: string | null;
  image: string | null;
  enclosures: { url: string; type: string | null; length: number | null }[];
  /** ISO 8601; null when missing or not a date. `date` is the last change. */
  pubdate: string | null;
  date: string | null;
  /** About the feed. */
  meta: { type: 'rss' | 'atom' | 'rdf' | 'json'; title: string; link: string; description: string };
}

/**
 * The entries of a feed, in the order they stand in it. `url` is the address of the feed, for links that are relative.
 * Throws an Error when `text` is not a whole RSS, Atom or JSON feed.
 */
export function parseFeedItems(text: string, url: string): FeedItem[] {
  const parsed = parse(text, url);
  const { items, meta } = readersByFormat(parsed);
  return items.map((item) => finish(item, meta, url));
}

function parse(text: string, url: string): AnyFeed {
  let parsed: AnyFeed;
  try {
    parsed = parseFeed(text, { maxItems: itemsMax });
  } catch (error) {
    const { name, cause } = error as Error;
    if (name === 'DetectError') {
      throw new Error(`What ${url} answers is not an RSS, Atom or JSON feed`, { cause: error });
    }
    const reason = cause instanceof Error ? cause.message : (error as Error).message;
    throw new Error(`The feed at ${url} is broken: ${cut(reason, 200)}`, { cause: error });
  }
  // The parser forgives an end that is missing. Half an entry must not pass as the entry.
  if (parsed.format !== 'json' && !/<\/(?:[\w.-]{1,50}:)?(?:rss|feed|rdf)\s*>/i.test(text.slice(-2_000))) {
    throw new Error(`The feed at ${url} is broken: it ends in the middle`);
  }
  return parsed;
}

/** An entry as its format has it, before fallbacks. */
interface RawItem {
  permalink?: string | undefined;
  guid?: string | undefined;
  title?: string | undefined;
  link?: string | undefined;
  content?: string | undefined;
  summary?: string | undefined;
  author?: string | undefined;
  categories?: (string | undefined)[] | undefined;
  comments?: string | undefined;
  image?: string | undefined;
  enclosures?:
    | { url?: string | undefined; type?: string | undefined; length?: number | undefined }[]
    | undefined;
  published?: string | undefined;
  updated?: string | undefined;
}

interface RawFeed {
  items: RawItem[];
  meta: FeedItem['meta'];
}

function readersByFormat(parsed: AnyFeed): RawFeed {
  switch (parsed.format) {
    case 'rss':
      return readRss(parsed.feed);
    case 'rdf':
      return readRdf(parsed.feed);
    case 'atom':
      return readAtom(parsed.feed);
    case 'json':
      return readJson(parsed.feed);
  }
}

type FeedOf<F extends AnyFeed['format']> = Extract<AnyFeed, { format: F }>['feed'];

function readRss(feed: FeedOf<'rss'>): RawFeed {
  const items = (feed.items ?? []).map((item): RawItem => {
    const guid = item.guid?.value;
    const guidIsLink = guid !== undefined && item.guid?.isPermaLink !== false && /^https?:\/\//i.test(guid);
    const author = item.authors?.[0];
    return {
      permalink: guidIsLink ? guid : item.link,
      guid,
      title: item.title,
      link: item.link,
      content: item.content?.encoded,
      summary: item.description,
      author: author?.name ?? author?.email ?? item.dc?.creators?.[0] ?? item.itunes?.author,
      categories: item.categories?.map((category) => category.name),
      comments: item.comments,
      image: item.itunes?.image ?? item.media?.thumbnails?.[0]?.url,
      enclosures: item.enclosures,
      published: item.pubDate ?? item.dc?.dates?.[0],
      updated: item.atom?.updated,
    };
  });
  return { items, meta: metaOf('rss', feed.title, feed.link, feed.description) };
}

function readRdf(feed: FeedOf<'rdf'>): RawFeed {
  const items = (feed.items ?? []).map(
    (item): RawItem => ({
      permalink: item.link,
      guid: item.rdf?.about,
      title: item.title,
      link: item.link,
      content: item.content?.encoded,
      summary: item.description,
      author: item.dc?.creators?.[0],
      categories: item.dc?.subjects,
      published: item.dc?.dates?.[0],
    }),
  );
  return { items, meta: metaOf('rdf', feed.title, feed.link, feed.description) };
}

function readAtom(feed: FeedOf<'atom'>): RawFeed {
  const items = (feed.entries ?? []).map((entry): RawItem => {
    const links = entry.links ?? [];
    const link = pickLink(links);
    return {
      permalink: link,
      guid: entry.id,
      title: plainText(entry.title),
      link,
      content: entry.content?.value,
      summary: entry.summary?.value,
      author: entry.authors?.[0]?.name ?? feed.authors?.[0]?.name,
      categories: entry.categories?.map((category) => category.label ?? category.term),
      comments: links.find((candidate) => candidate.rel === 'replies')?.href,
      image: entry.media?.thumbnails?.[0]?.url ?? entry.media?.groups?.[0]?.thumbnails?.[0]?.url,
      enclosures: links
        .filter((candidate) => candidate.rel === 'enclosure')
        .map(({ href, type, length }) => ({ url: href, type, length })),
      published: entry.published ?? entry.updated,
      updated: entry.updated,
    };
  });
  return {
    items,
    meta: metaOf('atom', plainText(feed.title), pickLink(feed.links ?? []), plainText(feed.subtitle)),
  };
}

function readJson(feed: FeedOf<'json'>): RawFeed {
  const items = (feed.items ?? []).map(
    (item): RawItem => ({
      permalink: item.url ?? item.external_url,
      guid: item.id,
      title: item.title,
      link: item.url ?? item.external_url,
      content: item.content_html ?? item.content_text,
      summary: item.summary,
      author: item.authors?.[0]?.name ?? feed.authors?.[0]?.name,
      categories: item.tags,
      image: item.image ?? item.banner_image,
      enclosures: item.attachments?.map(({ url, mime_type, size_in_bytes }) => ({
        url,
        type: mime_type,
        length: size_in_bytes,
      })),
      published: item.date_published,
      updated: item.date_modified,
    }),
  );
  return { items, meta: metaOf('json', feed.title, feed.home_page_url, feed.description) };
}

function finish(item: RawItem, meta: FeedItem['meta'], feedUrl: string): FeedItem {
  const absolute = (address: string | undefined) => absoluteUrl(address, meta.link, feedUrl);
  const link = absolute(item.link) ?? absolute(item.permalink) ?? '';
  const summary = cut(item.summary ?? '', textMax);
  const description = cut(item.content ?? item.summary ?? '', textMax);
  const title = cut((item.title ?? '').trim(), titleMax);
  const published = isoDate(item.published) ?? isoDate(item.updated);
  return {
    permalink: absolute(item.permalink) ?? link,
    guid: cut(item.guid?.trim() || link || contentHash(title, description, published), titleMax),
    title,
    link,
    description,
    summary,
    author: item.author ?? null,
    categories: (item.categories ?? []).filter((category) => category !== undefined),
    comments: absolute(item.comments) ?? null,
    image: absolute(item.image) ?? null,
    enclosures: (item.enclosures ?? []).flatMap(({ url, type, length }) => {
      const address = absolute(url);
      return address === undefined ? [] : [{ url: address, type: type ?? null, length: length ?? null }];
    }),
    pubdate: published,
    date: isoDate(item.updated) ?? published,
    meta,
  };
}

function metaOf(
  type: FeedItem['meta']['type'],
  title: string | undefined,
  link: string | undefined,
  description: string | undefined,
): FeedItem['meta'] {
  return {
    type,
    title: cut(title ?? '', titleMax),
    link: link ?? '',
    description: cut(description ?? '', titleMax),
  };
}

function pickLink(links: readonly { href?: string; rel?: string }[]): string | undefined {
  const alternate = links.find(({ rel }) => rel === undefined || rel === 'alternate');
  return (alternate ?? links.find(({ rel }) => rel !== 'self' && rel !== 'enclosure'))?.href;
}

function absoluteUrl(address: string | undefined, siteUrl: string, feedUrl: string): string | undefined {
  const trimmed = address?.trim();
  if (trimmed === undefined || trimmed === '') return undefined;
  if (URL.canParse(trimmed)) return trimmed;
  // What is no address at all stays as the feed has it.
  return (URL.parse(trimmed, siteUrl) ?? URL.parse(trimmed, feedUrl))?.href ?? trimmed;
}

/** A title that is marked as HTML, without its tags. */
function plainText(text: { value?: string; type?: string } | undefined): string | undefined {
  if (text?.value === undefined || text.type === undefined || text.type === 'text') return text?.value;
  const entities: Record<string, string> = {
    amp: '&',
    lt: '<',
    gt: '>',
    quot: '"',
    apos: "'",
    nbsp: ' ',
    '#39': "'",
  };
  // Cut first: searching for the end of each of a million "<" would take its square in steps.
  return cut(text.value, titleMax)
    .replace(/<[^>]*>/g, '')
    .replace(/&(amp|lt|gt|quot|apos|nbsp|#39);/g, (whole, name: string) => entities[name] ?? whole);
}

function isoDate(text: string | undefined): string | null {
  const time = Date.parse(text ?? '');
  return Number.isNaN(time) ? null : new Date(time).toISOString();
}

function contentHash(...parts: (string | null)[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex');
}

function cut(text: string, charactersMax: number): string {
  return text.length > charactersMax ? text.slice(0, charactersMax) : text;
}
