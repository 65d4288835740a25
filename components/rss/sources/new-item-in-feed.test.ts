import assert from 'node:assert/strict';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, beforeEach, describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import type { FeedItem } from '../feed-items.ts';
import source from './new-item-in-feed.ts';

type Answer = (response: ServerResponse, headers: IncomingHttpHeaders, path: string) => void;

let origin = '';
let answer: Answer;
let requests: IncomingHttpHeaders[] = [];
const server = createServer((request, response) => {
  requests.push(request.headers);
  answer(response, request.headers, request.url ?? '');
});

before(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
after(() => {
  server.closeAllConnections();
  server.close();
});
beforeEach(() => {
  requests = [];
});

const serve = (body: string | Buffer, headers: Record<string, string> = {}): Answer => {
  return (response) => response.writeHead(200, headers).end(body);
};
const rssOf = (items: string, root = '<rss version="2.0">') =>
  `<?xml version="1.0"?>${root}<channel><title>Site</title><link>https://site.test/</link>${items}</channel></rss>`;
const itemOf = (n: number | string, more = '') =>
  `<item><title>Post ${n}</title><link>https://site.test/${n}</link><guid>https://site.test/${n}</guid>${more}</item>`;

interface Emitted {
  event: FeedItem;
  metadata: { id: string; summary: string; ts?: number };
}

/** `this` of the component, with a db that keeps JSON as the service does. */
function deploy(url = `${origin}/feed`) {
  const stored = new Map<string, string>();
  const emitted: Emitted[] = [];
  const self = {
    url,
    db: {
      get: (key: string): unknown => {
        const text = stored.get(key);
        return text === undefined ? undefined : JSON.parse(text);
      },
      set: (key: string, value: unknown) => void stored.set(key, JSON.stringify(value)),
    },
    $emit: (event: FeedItem, metadata: Emitted['metadata']) => void emitted.push({ event, metadata }),
  };
  return {
    self,
    emitted,
    activate: () => source.hooks.activate.call(self),
    /** What this run emitted. */
    run: async () => {
      emitted.length = 0;
      await source.run.call(self);
      return [...emitted];
    },
  };
}

const titles = (emitted: Emitted[]) => emitted.map(({ event }) => event.title);

async function firstItem(): Promise<Emitted> {
  const [item] = await deploy().run();
  assert.ok(item);
  return item;
}

describe('formats', () => {
  test('an RSS 2.0 item becomes an event with permalink, guid, title, link and the other common fields', async () => {
    answer = serve(
      rssOf(
        `<item><title>A &amp; B</title><link>/a</link><guid isPermaLink="false">id-1</guid>
        <pubDate>Tue, 10 Mar 2026 04:00:00 GMT</pubDate><description>&lt;p&gt;short&lt;/p&gt;</description>
        <content:encoded><![CDATA[<p>long</p>]]></content:encoded><dc:creator>Ada</dc:creator>
        <category>x</category><category>y</category><comments>/a#c</comments>
        <enclosure url="https://cdn.test/a.mp3" length="3" type="audio/mpeg"/></item>`,
        '<rss version="2.0" xmlns:content="http://purl.org/rss/1.0/modules/content/" xmlns:dc="http://purl.org/dc/elements/1.1/">',
      ),
    );
    const { event, metadata } = await firstItem();
    assert.deepEqual(event, {
      permalink: 'https://site.test/a',
      guid: 'id-1',
      title: 'A & B',
      link: 'https://site.test/a',
      description: '<p>long</p>',
      summary: '<p>short</p>',
      author: 'Ada',
      categories: ['x', 'y'],
      comments: 'https://site.test/a#c',
      image: null,
      enclosures: [{ url: 'https://cdn.test/a.mp3', type: 'audio/mpeg', length: 3 }],
      pubdate: '2026-03-10T04:00:00.000Z',
      date: '2026-03-10T04:00:00.000Z',
      meta: { type: 'rss', title: 'Site', link: 'https://site.test/', description: '' },
    });
    assert.deepEqual(metadata, { id: 'id-1', summary: 'A & B', ts: Date.UTC(2026, 2, 10, 4) });
  });

  test('an RSS 1.0 item', async () => {
    answer =
      serve(`<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/"
      xmlns:dc="http://purl.org/dc/elements/1.1/"><channel rdf:about="https://site.test/"><title>Site</title>
      <link>https://site.test/</link><description>d</description></channel>
      <item rdf:about="https://site.test/1"><title>One</title><link>https://site.test/1</link>
      <dc:date>2026-01-02T03:04:05Z</dc:date></item></rdf:RDF>`);
    const { event } = await firstItem();
    assert.equal(event.guid, 'https://site.test/1');
    assert.equal(event.permalink, 'https://site.test/1');
    assert.equal(event.title, 'One');
    assert.equal(event.pubdate, '2026-01-02T03:04:05.000Z');
    assert.equal(event.meta.type, 'rdf');
  });

  test('an Atom entry, its title without markup and its links made absolute', async () => {
    answer =
      serve(`<feed xmlns="http://www.w3.org/2005/Atom"><title>Site</title><author><name>Ada</name></author>
      <link rel="self" href="/feed"/><entry><id>urn:1</id><title type="html">Say &lt;b&gt;hi&lt;/b&gt; &amp;amp; go</title>
      <link rel="enclosure" href="/a.mp3" type="audio/mpeg"/><link href="/1"/>
      <updated>2026-01-02T00:00:00Z</updated><published>2026-01-01T00:00:00Z</published>
      <summary>s</summary><content type="html">&lt;p&gt;c&lt;/p&gt;</content></entry></feed>`);
    const { event, metadata } = await firstItem();
    assert.equal(event.guid, 'urn:1');
    assert.equal(event.title, 'Say hi & go');
    assert.equal(event.link, `${origin}/1`);
    assert.equal(event.permalink, `${origin}/1`);
    assert.equal(event.author, 'Ada');
    assert.equal(event.description, '<p>c</p>');
    assert.equal(event.summary, 's');
    assert.equal(event.pubdate, '2026-01-01T00:00:00.000Z');
    assert.equal(event.date, '2026-01-02T00:00:00.000Z');
    assert.deepEqual(event.enclosures, [{ url: `${origin}/a.mp3`, type: 'audio/mpeg', length: null }]);
    assert.equal(metadata.ts, Date.UTC(2026, 0, 1));
  });

  test('a JSON Feed item', async () => {
    const feed = {
      version: 'https://jsonfeed.org/version/1.1',
      title: 'Site',
      home_page_url: 'https://site.test/',
      items: [
        {
          id: '1',
          url: 'https://site.test/1',
          title: 'One é',
          content_html: '<p>c</p>',
          date_published: '2026-01-01T00:00:00+01:00',
          tags: ['t'],
          attachments: [{ url: 'https://cdn.test/x.pdf', mime_type: 'application/pdf', size_in_bytes: 9 }],
        },
      ],
    };
    answer = serve(JSON.stringify(feed), { 'content-type': 'application/feed+json' });
    const { event } = await firstItem();
    assert.equal(event.guid, '1');
    assert.equal(event.title, 'One é');
    assert.equal(event.link, 'https://site.test/1');
    assert.equal(event.description, '<p>c</p>');
    assert.equal(event.pubdate, '2025-12-31T23:00:00.000Z');
    assert.deepEqual(event.categories, ['t']);
    assert.deepEqual(event.enclosures, [
      { url: 'https://cdn.test/x.pdf', type: 'application/pdf', length: 9 },
    ]);
  });

  test('an item with nearly nothing still has its four strings and an id', async () => {
    answer = serve(rssOf('<item><description>only this</description><pubDate>yesterday</pubDate></item>'));
    const { event, metadata } = await firstItem();
    for (const field of ['permalink', 'guid', 'title', 'link'] as const)
      assert.equal(typeof event[field], 'string');
    assert.match(event.guid, /^[0-9a-f]{64}$/);
    assert.equal(event.pubdate, null);
    assert.deepEqual(metadata, { id: event.guid, summary: event.guid });
  });
});

describe('what is new', () => {
  test('emits each item once, oldest first', async () => {
    const source = deploy();
    answer = serve(rssOf(itemOf(2) + itemOf(1)));
    assert.deepEqual(titles(await source.run()), ['Post 1', 'Post 2']);
    answer = serve(rssOf(itemOf(4) + itemOf(3) + itemOf(2) + itemOf(1)));
    assert.deepEqual(titles(await source.run()), ['Post 3', 'Post 4']);
    assert.deepEqual(await source.run(), []);
  });

  test('dates decide the order where every item has one', async () => {
    const dated = (n: number) => itemOf(n, `<pubDate>0${n} Jan 2026 00:00:00 GMT</pubDate>`);
    answer = serve(rssOf(dated(1) + dated(3) + dated(2)));
    assert.deepEqual(titles(await deploy().run()), ['Post 1', 'Post 2', 'Post 3']);
  });

  test('an item that stands twice in the feed is one', async () => {
    answer = serve(rssOf(itemOf(1) + itemOf(1)));
    assert.equal((await deploy().run()).length, 1);
  });

  test('an item that leaves the feed and comes back is not new', async () => {
    const source = deploy();
    answer = serve(rssOf(itemOf(1) + itemOf(2)));
    await source.run();
    answer = serve(rssOf(itemOf(2)));
    await source.run();
    answer = serve(rssOf(itemOf(1) + itemOf(2)));
    assert.deepEqual(await source.run(), []);
  });

  test('a feed of more than 100 items emits its newest 100 first, and none of them again', async () => {
    const source = deploy();
    const many = Array.from({ length: 3_000 }, (_, n) => itemOf(3_000 - n)).join('');
    answer = serve(rssOf(many));
    const first = await source.run();
    assert.equal(first.length, 100);
    assert.equal(first.at(-1)?.event.title, 'Post 3000');
    answer = serve(rssOf(itemOf('new') + many));
    assert.deepEqual(titles(await source.run()), ['Post new']);
  });

  test('more new items than one run may emit come in the next runs, none lost and none twice', async () => {
    const source = deploy();
    answer = serve(rssOf(itemOf('old')), { etag: '"1"' });
    await source.run();
    const many = Array.from({ length: 1_100 }, (_, n) => itemOf(1_100 - n)).join('');
    answer = (response, headers) => {
      if (headers['if-none-match'] === '"2"') response.writeHead(304).end();
      else response.writeHead(200, { etag: '"2"' }).end(rssOf(many + itemOf('old')));
    };
    const runs = [await source.run(), await source.run(), await source.run(), await source.run()];
    assert.deepEqual(
      runs.map((run) => run.length),
      [500, 500, 100, 0],
    );
    const expected = Array.from({ length: 1_100 }, (_, n) => `Post ${n + 1}`);
    assert.deepEqual(titles(runs.flat()), expected);
    assert.equal(requests.at(-1)?.['if-none-match'], '"2"');
  });

  test('what one run emits stays under 6 MB, and the rest comes later', async () => {
    const source = deploy();
    const big = `<description>${'x'.repeat(300_000)}</description>`;
    answer = serve(rssOf(Array.from({ length: 30 }, (_, n) => itemOf(30 - n, big)).join('')));
    const runs: Emitted[][] = [
      await source.run(),
      await source.run(),
      await source.run(),
      await source.run(),
    ];
    for (const run of runs) assert.ok(Buffer.byteLength(JSON.stringify(run)) < 6_000_000);
    assert.equal(new Set(titles(runs.flat())).size, 30);
    assert.equal(runs.flat().length, 30);
    assert.equal(runs[0]?.[0]?.event.description.length, 200_000);
  });

  test('another URL starts afresh', async () => {
    const source = deploy();
    answer = serve(rssOf(itemOf(1)), { etag: '"1"' });
    await source.run();
    source.self.url = `${origin}/other`;
    answer = serve(rssOf(itemOf(1) + itemOf(2)));
    assert.equal((await source.run()).length, 2);
    assert.equal(requests.at(-1)?.['if-none-match'], undefined);
  });
});

describe('asking', () => {
  test('sends back ETag and Last-Modified, and emits nothing when the feed did not change', async () => {
    const source = deploy();
    const lastModified = 'Wed, 21 Oct 2026 07:28:00 GMT';
    answer = (response, headers) => {
      if (headers['if-none-match'] === 'W/"v1"' && headers['if-modified-since'] === lastModified) {
        response.writeHead(304).end();
      } else {
        response.writeHead(200, { etag: 'W/"v1"', 'last-modified': lastModified }).end(rssOf(itemOf(1)));
      }
    };
    await source.activate();
    assert.equal((await source.run()).length, 1, 'activate must not use up the feed');
    assert.equal((await source.run()).length, 0);
    assert.equal((await source.run()).length, 0);
    assert.deepEqual(
      requests.map((headers) => headers['if-none-match']),
      [undefined, undefined, 'W/"v1"', 'W/"v1"'],
    );
  });

  test('follows redirects', async () => {
    answer = (response, _headers, path) => {
      if (path === '/moved/feed')
        response.end(rssOf('<item><title>T</title><link>b</link></item>').replace('https://site.test/', ''));
      else response.writeHead(302, { location: '/moved/feed' }).end();
    };
    const { event } = await firstItem();
    assert.equal(event.link, `${origin}/moved/b`);
  });

  test('sends name and password of the URL as a header, and reveals them nowhere', async () => {
    answer = (response) => response.writeHead(403).end();
    const source = deploy(`${origin.replace('://', '://ada:s3cr%20et@')}/feed`);
    await assert.rejects(
      source.activate(),
      (error: Error) => /HTTP 403/.test(error.message) && !/s3cr/.test(error.message),
    );
    assert.equal(requests[0]?.authorization, `Basic ${Buffer.from('ada:s3cr et').toString('base64')}`);
  });

  for (const [name, body, headers] of [
    ['UTF-8 by default', Buffer.from(rssOf(itemOf('é€'))), {}],
    [
      'latin1 by content-type',
      Buffer.from(rssOf(itemOf('é')), 'latin1'),
      { 'content-type': 'text/xml; charset=ISO-8859-1' },
    ],
    [
      'latin1 by the XML declaration',
      Buffer.from(
        rssOf(itemOf('é')).replace('<?xml version="1.0"?>', "<?xml version='1.0' encoding='iso-8859-1'?>"),
        'latin1',
      ),
      { 'content-type': 'application/rss+xml' },
    ],
    [
      'a byte order mark over a wrong content-type',
      Buffer.from(`\uFEFF${rssOf(itemOf('é'))}`),
      { 'content-type': 'text/xml; charset=latin1' },
    ],
    ['UTF-16', Buffer.from(`\uFEFF${rssOf(itemOf('é'))}`, 'utf16le'), {}],
    [
      'an unknown charset read as UTF-8',
      Buffer.from(rssOf(itemOf('é'))),
      { 'content-type': 'text/xml; charset=klingon' },
    ],
    ['gzip', gzipSync(rssOf(itemOf('é'))), { 'content-encoding': 'gzip' }],
  ] as [string, Buffer, Record<string, string>][]) {
    test(`encoding: ${name}`, async () => {
      answer = serve(body, headers);
      assert.match((await firstItem()).event.title, /^Post é€?$/);
    });
  }
});

describe('bad feeds', () => {
  const refused = async (expected: RegExp, url?: string) => {
    const source = deploy(url);
    await assert.rejects(source.activate(), expected);
    await assert.rejects(source.run(), expected);
    assert.deepEqual(source.emitted, []);
  };

  test('a server that is not there', async () => {
    const gone = createServer();
    await new Promise<void>((resolve) => gone.listen(0, '127.0.0.1', resolve));
    const { port } = gone.address() as AddressInfo;
    await new Promise((resolve) => gone.close(resolve));
    const url = `http://127.0.0.1:${port}/`;
    await refused(/Could not read the feed at http:\/\/127\.0\.0\.1:\d+\/: .*ECONNREFUSED/, url);
  });

  test('something that is no web address', async () => {
    await refused(/Not the URL of a feed: "file:\/\/\/etc\/passwd"/, 'file:///etc/passwd');
    await refused(/Not the URL of a feed: "news"/, 'news');
  });

  test('a status that is an error', async () => {
    answer = (response) => response.writeHead(404).end(rssOf(itemOf(1)));
    await refused(/Could not read the feed at .*: it answered HTTP 404 Not Found/);
  });

  test('redirects without end', async () => {
    answer = (response) => response.writeHead(302, { location: '/feed' }).end();
    await refused(/Could not read the feed at .*redirect count exceeded/);
  });

  test('an answer that breaks off', async () => {
    answer = (response) => {
      response.writeHead(200, { 'content-length': '1000' }).write('<rss version="2.0">');
      setImmediate(() => response.destroy());
    };
    await refused(/Could not read the feed/);
  });

  for (const [name, body] of [
    ['a web page', '<!doctype html><html><body>hello</body></html>'],
    ['JSON that is no feed', '{"items":[]}'],
    ['text', 'hello'],
    ['nothing', ''],
    ['bytes', Buffer.from([0, 1, 2, 3, 255, 254])],
  ] as [string, string | Buffer][]) {
    test(`${name}`, async () => {
      answer = serve(body);
      await refused(/is not an RSS, Atom or JSON feed/);
    });
  }

  test('a feed that ends in the middle emits nothing, rather than half an item', async () => {
    const whole = rssOf(itemOf(1) + itemOf(2));
    answer = serve(whole.slice(0, whole.indexOf('<guid>https://site.test/2')));
    await refused(/broken: it ends in the middle/);
  });

  test('a hundred thousand nested elements', async () => {
    answer = serve(`<rss version="2.0"><channel>${'<item>'.repeat(100_000)}</channel></rss>`);
    await refused(/The feed at .* is broken: /);
  });

  test('an entity bomb is not expanded', async () => {
    const entities = Array.from(
      { length: 12 },
      (_, n) => `<!ENTITY e${n + 1} "${`&e${n};`.repeat(10)}">`,
    ).join('');
    answer = serve(
      `<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e0 "boom">${entities}]>
      <rss version="2.0"><channel><item><title>&e12;</title><guid>g</guid></item></channel></rss>`,
    );
    const { event } = await firstItem();
    assert.ok(event.title.length < 100);
  });

  test('an external entity is not read', async () => {
    answer = serve(
      `<?xml version="1.0"?><!DOCTYPE x [<!ENTITY f SYSTEM "file:///etc/passwd">]>
      <rss version="2.0"><channel><item><title>&f;</title><guid>g</guid></item></channel></rss>`,
    );
    await refused(/broken: External entities are not supported/);
  });

  test('a feed over 10 MB is given up, also when it is compressed', async () => {
    let sent = 0;
    answer = (response) => {
      const chunk = Buffer.alloc(1024 * 1024, ' ');
      const more = () => {
        while (!response.destroyed && sent < 100 * chunk.length) {
          sent += chunk.length;
          if (!response.write(chunk)) return void response.once('drain', more);
        }
        response.end();
      };
      more();
    };
    await assert.rejects(deploy().activate(), /it is larger than 10 MB/);
    assert.ok(sent < 100 * 1024 * 1024, `${sent} bytes were asked for`);
    answer = serve(gzipSync(Buffer.alloc(50 * 1024 * 1024, ' ')), { 'content-encoding': 'gzip' });
    await refused(/it is larger than 10 MB/);
  });

  test('keys such as __proto__ change nothing', async () => {
    answer = serve(rssOf('<item><__proto__><polluted>1</polluted></__proto__><title>T</title></item>'));
    await deploy()
      .run()
      .catch(() => undefined);
    assert.equal(({} as { polluted?: unknown }).polluted, undefined);
  });
});
