import assert from 'node:assert/strict';
import { request as httpRequest } from 'node:http';
import { text } from 'node:stream/consumers';
import { before, describe, test } from 'node:test';
import { useSharedService } from '../support/millrace.ts';
import { projectFiles, readProjectFile } from '../support/project-files.ts';

/** Files of docs that are pages on a service too, in addition to those from elsewhere in the project. */
const written = projectFiles().filter((file) => /^docs\/.*\.md$/.test(file));

describe('the manual on a service', () => {
  const fixture = useSharedService();
  /** HTML by address, of every page that can be reached from the first. */
  const pages = new Map<string, string>();

  before(async () => {
    const wanted = ['/docs'];
    for (let address = wanted.pop(); address !== undefined; address = wanted.pop()) {
      if (pages.has(address)) continue;
      const response = await fetch(fixture.service.url + address);
      assert.equal(response.status, 200, address);
      const html = await response.text();
      pages.set(address, html);
      for (const link of linksOf(html)) {
        const path = link.replace(/#.*$/, '');
        if (path.startsWith('/docs') && !path.startsWith('/docs/assets/')) wanted.push(path);
      }
    }
  });

  test('has every page of docs, reached by its contents', () => {
    const missing = written.filter((file) => {
      const address = `/${file.replace(/\.md$/, '').replace(/\/index$/, '')}`;
      return !pages.has(address);
    });
    assert.deepEqual(missing, [], 'docs/index.md is the table of contents: give it a line there');
    assert.ok(pages.has('/docs/changelog') && pages.has('/docs/architecture'));
  });

  test('has no link that leads nowhere, nor to an anchor that is not there', () => {
    const problems: string[] = [];
    for (const [address, html] of pages) {
      for (const link of linksOf(html)) {
        if (link.startsWith('https://') || link === '/' || link.startsWith('/docs/assets/')) continue;
        const [path = '', anchor] = link.split('#');
        const target = pages.get(path === '' ? address : path);
        if (target === undefined) problems.push(`${address}: ${link}`);
        else if (anchor !== undefined && !target.includes(` id="${anchor}"`))
          problems.push(`${address}: ${link}`);
      }
    }
    assert.deepEqual(problems, []);
  });

  test('names a file that is no page only where there is one', () => {
    const files = new Set(projectFiles());
    const folders = new Set([...files].map((file) => file.replace(/\/[^/]*$/, '')));
    for (const [address, html] of pages) {
      for (const [, file = ''] of html.matchAll(/<span class="file" title="([^"]*)"/g))
        assert.ok(files.has(file) || folders.has(file.replace(/\/$/, '')), `${address}: ${file}`);
    }
  });

  test('loads nothing from elsewhere, runs nothing that stands in the page, and is one heading and a title', async () => {
    const loaded = new Set<string>();
    for (const [address, html] of pages) {
      // Another program, with a test of its own: stories/api-manners.test.ts.
      if (address === '/docs/api') continue;
      for (const [, what = ''] of html.matchAll(/\s(?:src|data-index)="([^"]*)"|<link [^>]*href="([^"]*)"/g))
        if (what !== '') loaded.add(what);
      assert.doesNotMatch(
        html,
        /<script(?! (?:type="module" )?src=)|<style|\sstyle="|<[^>]*\son\w+=/,
        address,
      );
      assert.equal([...html.matchAll(/<h1[ >]/g)].length, 1, address);
      assert.match(html, /<title>[^<]+<\/title>/, address);
    }
    assert.ok(loaded.size >= 4);
    for (const address of loaded) {
      assert.match(address, /^\/docs\/assets\/[a-z]+-[\w-]+\.(?:js|svg|json|css)$/);
      const response = await fetch(fixture.service.url + address);
      assert.equal(response.status, 200, address);
      assert.match(response.headers.get('cache-control') ?? '', /immutable/);
      const content = await response.text();
      if (!address.endsWith('.json'))
        assert.doesNotMatch(content, /https?:\/\/(?!www\.w3\.org\/2000\/svg)/, address);
    }
  });

  test('needs no key, has a policy, is asked for again, and is not sent again when it is the same', async () => {
    const response = await fetch(`${fixture.service.url}/docs/tutorial`, {
      headers: { 'accept-encoding': 'gzip' },
    });
    const policy = response.headers.get('content-security-policy') ?? '';
    assert.match(policy, /^default-src 'none'; script-src 'self'; style-src 'self';/);
    assert.doesNotMatch(policy, /unsafe|https?:|\*/);
    assert.equal(response.headers.get('x-content-type-options'), 'nosniff');
    assert.equal(response.headers.get('cache-control'), 'no-cache');
    assert.equal(response.headers.get('content-encoding'), 'gzip');
    const etag = response.headers.get('etag') ?? '';
    const again = await fetch(`${fixture.service.url}/docs/tutorial`, { headers: { 'if-none-match': etag } });
    assert.deepEqual([again.status, await again.text()], [304, '']);
    const head = await fetch(`${fixture.service.url}/docs/tutorial/`, { method: 'HEAD' });
    assert.deepEqual([head.status, head.headers.get('etag')], [200, etag]);
  });

  test('has the pages that the dashboard leads to, and a place for each error', async () => {
    const links = projectFiles()
      .filter((file) => file.startsWith('dashboard/src/') && file.endsWith('.tsx'))
      .flatMap((file) => [...readProjectFile(file).matchAll(/<ReadMore page="([^"]+)"/g)])
      .map(([, page]) => `/docs/${page}`);
    assert.ok(links.length > 4, `${links.length}`);
    for (const link of links) assert.ok(pages.has(link), link);
    assert.match(pages.get('/docs/reference/errors') ?? '', /<tr id="code-hook_failed">/);
  });

  test('leads from addresses of the Markdown, and of pages that have moved, to its pages', async () => {
    for (const [from, to] of [
      ['/docs/guides/webhooks.md', '/docs/guides/webhooks'],
      ['/docs/index.md', '/docs'],
      ['/docs/behaviour', '/docs/how-it-works'],
      ['/docs/behaviour/', '/docs/how-it-works'],
      ['/docs/behaviour.md', '/docs/how-it-works'],
    ]) {
      const response = await fetch(fixture.service.url + from, { redirect: 'manual' });
      assert.deepEqual([response.status, response.headers.get('location')], [301, to]);
    }
  });

  test('suggests pages to readers, and answers programs with 404', async () => {
    const path = '/docs/guide/webhook<script>alert(1)</script>';
    const page = await fetch(fixture.service.url + path, { headers: { accept: 'text/html' } });
    const html = await page.text();
    assert.equal(page.status, 404);
    assert.match(page.headers.get('content-security-policy') ?? '', /default-src 'none'/);
    assert.match(html, /Did you mean[\s\S]*\/docs\/guides\/webhooks/);
    assert.doesNotMatch(html, /<script>alert/);
    const answer = await fixture.service.api('GET', '/docs/nothing');
    assert.deepEqual([answer.status, answer.body.code], [404, 'unknown_path']);
  });

  test('names settings, metrics and commands that there are', async () => {
    const metrics = await (await fetch(`${fixture.service.url}/metrics`)).text();
    const known = [
      readProjectFile('docs/reference/settings.md'),
      readProjectFile('docs/reference/cli.md'),
      [...metrics.matchAll(/^# TYPE (\w+)/gm)].map(([, name]) => name).join(' '),
    ].join(' ');
    const commands = new Set(
      [...readProjectFile('docs/reference/cli.md').matchAll(/^###? ([a-z-]+)|^\| `([a-z]+)` \|/gm)].map(
        ([, heading, row]) => heading ?? row,
      ),
    );
    assert.ok(commands.size > 20, [...commands].join(' '));
    for (const file of [...written, 'README.md']) {
      if (file.startsWith('docs/reference/cli')) continue;
      const text = readProjectFile(file);
      // The command line makes their names of names of the user's.
      for (const [name] of text.matchAll(
        /\bMILLRACE_[A-Z0-9_]+[A-Z0-9]\b|\bmillrace_(?!session)[a-z]+_[a-z_0-9]+/g,
      ))
        if (!/^MILLRACE_(SECRET|API_KEY|URL)_/.test(name))
          assert.match(
            known,
            // Prometheus gives the series of a histogram these endings.
            new RegExp(`\\b${name.replace(/_(?:bucket|sum|count)$/, '')}\\b`),
            `${file}: ${name}`,
          );
      for (const [, command = ''] of text.matchAll(
        /(?:^|[`|]|&& |npm run )millrace (?:-- )?([a-z][a-z-]*)/gm,
      ))
        assert.ok(commands.has(command) || command === 'help', `${file}: millrace ${command}`);
    }
  });

  test('gives away no other file, however it is asked for', async () => {
    for (const path of [
      ...[
        '/docs/../package.json',
        '/docs/%2e%2e/package.json',
        '/docs/..%2fpackage.json',
        '/docs/....//package.json',
      ],
      ...['/docs//etc/passwd', '/docs/%2fetc%2fpasswd', '/docs/site/manual.css', '/docs/index.md%00.html'],
      ...[
        '/docs/assets/../../package.json',
        '/docs/__proto__',
        '/docs/constructor',
        '/docs/assets/..%5c..%5cpackage.json',
      ],
    ]) {
      for (const accept of ['text/html', 'application/json']) {
        const { status, body } = await rawGet(fixture.service.url, path, accept);
        assert.ok(status === 404 || status === 400, `${path}: ${status}`);
        assert.doesNotMatch(body, /"dependencies"|root:|scroll-padding/, path);
      }
    }
  });

  test('says in its pages of the API what the document says', async () => {
    const { body: document } = await fixture.service.api('GET', '/openapi.json');
    const reference = [...pages].filter(([address]) => address.startsWith('/docs/reference/api/'));
    const all = reference.map(([, html]) => html).join('\n');
    for (const [path, item] of Object.entries<Record<string, { summary: string }>>(document.paths)) {
      for (const [method, { summary }] of Object.entries(item)) {
        assert.ok(all.includes(`<code>${method.toUpperCase()} ${path}</code>`), `${method} ${path}`);
        assert.ok(summary.length > 0);
      }
    }
  });
});

function linksOf(html: string): string[] {
  return [...html.matchAll(/<a [^>]*?href="([^"]*)"/g)].map(([, link = '']) =>
    link.replaceAll(/&#(\d+);/g, (_, code: string) => String.fromCharCode(Number(code))),
  );
}

/** As it is written, without what fetch does to paths. */
async function rawGet(url: string, path: string, accept: string): Promise<{ status: number; body: string }> {
  const { hostname, port } = new URL(url);
  const answered = Promise.withResolvers<{ status: number; body: string }>();
  httpRequest({ hostname, port, path, headers: { accept } }, (response) => {
    text(response).then(
      (body) => answered.resolve({ status: response.statusCode ?? 0, body }),
      answered.reject,
    );
  })
    .on('error', answered.reject)
    .end();
  return answered.promise;
}

test('the manual is written in Markdown that GitHub shows: no page has HTML of its own', () => {
  for (const file of written) {
    const outside = readProjectFile(file)
      .replaceAll(/^( *)```[\s\S]*?^\1```$/gm, '')
      .replaceAll(/`[^`\n]*`/g, '')
      .replaceAll(/<!--[\s\S]*?-->|<https?:[^>]*>|\\</g, '');
    assert.doesNotMatch(outside, /<\/?[a-z][^>]*>/i, file);
  }
});
