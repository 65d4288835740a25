import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { build } from 'esbuild';
import { AddressPolicy } from '#egress/address-policy.ts';
import { HttpReceiver } from '../../test/support/http-receiver.ts';
import {
  exportsOf,
  type RunnerFixture,
  startRunnerFixture,
  stepRequest,
} from '../../test/support/runner-fixture.ts';
import type { FeedItem } from './feed-items.ts';

let fixture: RunnerFixture;
let code: string;
let web: HttpReceiver;
before(async () => {
  const [file] = (
    await build({
      entryPoints: [join(import.meta.dirname, 'actions/merge-rss-feeds.ts')],
      ...{ bundle: true, platform: 'node', format: 'cjs', write: false, logLevel: 'silent' },
    })
  ).outputFiles;
  code = file?.text ?? '';
  fixture = await startRunnerFixture({ policy: new AddressPolicy({ allow: ['local'], deny: () => [] }) });
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

const run = (props: object) =>
  fixture.runner.call(stepRequest(code, { deploymentId: 'd_merge', module: 'c_merge', props: { ...props } }));
const titles = (items: unknown) => (items as FeedItem[]).map(({ title }) => title);

test('items of all feeds are one list, the newest first, those without a date last', async () => {
  const exports = exportsOf(await run({ urls: [`${web.url}/3,1,x`, `${web.url}/2,4`] }));
  assert.deepEqual(titles(exports.$return_value), ['4', '3', '2', '1', 'x']);
  assert.equal(exports.$summary, 'Read 5 items of 2 feeds');
});

test('a limit, and a list for each feed', async () => {
  const urls = Array.from({ length: 7 }, (_, at) => `${web.url}/${at + 1},${at + 10}`);
  assert.deepEqual(titles(exportsOf(await run({ urls, limit: 2 })).$return_value), ['16', '15']);
  const lists = exportsOf(await run({ urls, merge: false, limit: 1 })).$return_value as unknown[];
  assert.deepEqual(lists.map(titles), [['10'], ['11'], ['12'], ['13'], ['14'], ['15'], ['16']]);
});

test('a feed that cannot be read, and no feed, are errors that say so', async () => {
  const gone = await run({ urls: [`${web.url}/1`, `${web.url}/gone`] });
  assert.match(gone.error?.message ?? '', /^Could not read the feed at .*\/gone: it answered HTTP 410/);
  const none = await run({ urls: [] });
  assert.equal(none.error?.message, 'urls: found [], expected a list of 1 to 100 addresses');
});
