import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type ActionFixture, startActionFixture } from '../../test/support/action-fixture.ts';
import { HttpReceiver } from '../../test/support/http-receiver.ts';
import type { FeedItem } from './feed-items.ts';

let fixture: ActionFixture;
let web: HttpReceiver;
before(async () => {
  fixture = await startActionFixture();
  web = await HttpReceiver.start({
    answer: ({ url = '' }) => (url === '/gone' ? { status: 410 } : { body: feedOf(url.slice(1).split(',')) }),
  });
});
after(async () => {
  await web?.close();
  await fixture?.close();
});

/** A feed with an item for each day of January 2026; `x` has no date. */
function feedOf(days: readonly string[]): string {
  const items = days.map((day) => {
    const date =
      day === 'x' ? '' : `<pubDate>${new Date(Date.UTC(2026, 0, Number(day))).toUTCString()}</pubDate>`;
    return `<item><title>${day}</title><guid isPermaLink="false">${day}</guid>${date}</item>`;
  });
  return `<?xml version="1.0"?><rss version="2.0"><channel><title>T</title>${items.join('')}</channel></rss>`;
}

const run = (props: Record<string, unknown>) => fixture.run('rss-merge-rss-feeds', props);
const titles = (items: unknown) => (items as FeedItem[]).map(({ title }) => title);

test('items of all feeds are one list, the newest first, those without a date last', async () => {
  const { ret, exports } = await run({ urls: [`${web.url}/3,1,x`, `${web.url}/2,4`] });
  assert.deepEqual(titles(ret), ['4', '3', '2', '1', 'x']);
  assert.equal(exports.$summary, 'Read 5 items of 2 feeds');
});

test('a limit, and a list for each feed', async () => {
  const urls = Array.from({ length: 7 }, (_, at) => `${web.url}/${at + 1},${at + 10}`);
  assert.deepEqual(titles((await run({ urls, limit: 2 })).ret), ['16', '15']);
  const lists = (await run({ urls, merge: false, limit: 1 })).ret as unknown[];
  assert.deepEqual(lists.map(titles), [['10'], ['11'], ['12'], ['13'], ['14'], ['15'], ['16']]);
});

test('a feed that cannot be read, and no feed, are errors that say so', async () => {
  const gone = await run({ urls: [`${web.url}/1`, `${web.url}/gone`] });
  assert.match(gone.error?.message ?? '', /^Could not read the feed at .*\/gone: it answered HTTP 410/);
  const none = await run({ urls: [] });
  assert.equal(none.error?.message, 'urls: found an array, expected a list of 1 to 100 addresses');
});
