import { type ActionRun, badInput, counted } from '../../action.ts';
import { type FeedItem, parseFeedItems } from '../feed-items.ts';
import { fetchFeed } from '../fetch-feed.ts';

/** Feeds that are read at the same time, and all together. */
const feedsAtOnce = 5;
const feedsMax = 100;

export default {
  key: 'rss-merge-rss-feeds',
  name: 'Merge RSS Feeds',
  version: '1.0.0',
  description:
    'Reads RSS, Atom and JSON feeds, and returns their items as one list, the newest first. Example: the feeds of two blogs become one list of posts',
  type: 'action',
  props: {
    urls: { type: 'string[]', label: 'Feed URLs', description: 'Addresses of the feeds' },
    merge: {
      type: 'boolean',
      label: 'Merge',
      description: 'Return one list; else a list for each feed',
      optional: true,
      default: true,
    },
    limit: {
      type: 'integer',
      label: 'Limit',
      description: 'How many items to return at most, of each list',
      optional: true,
      min: 1,
    },
  },
  async run(this: { urls: string[]; merge?: boolean; limit?: number }, { $ }: ActionRun) {
    const { urls, merge = true, limit } = this;
    if (!Array.isArray(urls) || urls.length === 0 || urls.length > feedsMax)
      throw badInput('urls', urls, `a list of 1 to ${feedsMax} addresses`);
    const feeds: FeedItem[][] = [];
    for (let at = 0; at < urls.length; at += feedsAtOnce)
      feeds.push(...(await Promise.all(urls.slice(at, at + feedsAtOnce).map(readItems))));
    const lists = (merge ? [feeds.flat()] : feeds).map((items) => newestFirst(items).slice(0, limit));
    const count = lists.reduce((sum, items) => sum + items.length, 0);
    $.export('$summary', `Read ${counted(count, 'item')} of ${counted(urls.length, 'feed')}`);
    return merge ? lists[0] : lists;
  },
};

async function readItems(url: string): Promise<FeedItem[]> {
  const fetched = await fetchFeed(url);
  return fetched.status === 'fetched' ? parseFeedItems(fetched.text, fetched.url) : [];
}

/** Items without a date come last, in the order of their feeds. */
function newestFirst(items: FeedItem[]): FeedItem[] {
  return items.toSorted(
    (a, b) => Date.parse(b.pubdate ?? '') - Date.parse(a.pubdate ?? '') || missing(a) - missing(b),
  );
}

function missing({ pubdate }: FeedItem): number {
  return pubdate === null ? 1 : 0;
}
