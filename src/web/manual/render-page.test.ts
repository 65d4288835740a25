import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseContents } from './manual-contents.ts';
import { renderPage } from './render-page.ts';

const addresses: Readonly<Record<string, string>> = {
  'docs/other.md': '/docs/other',
  'CHANGELOG.md': '/docs/changelog',
};

function render(markdown: string) {
  return renderPage(markdown, { file: 'docs/guides/page.md', addressOf: (file) => addresses[file] });
}

test('raw HTML is shown as text, comments are dropped, and no link or image leads out but by https', () => {
  const { html } = render(
    [
      '# A <b onclick=alert(1)>title</b>',
      '<!-- not for readers -->',
      '<script>alert(1)</script>',
      '',
      'text <img src=x onerror=alert(1)> [a](javascript:alert(1)) [b](data:text/html,x) [c](//evil.example) [d](http://evil.example)',
      '![picture](https://evil.example/x.png) <javascript:alert(1)> &lt;i&gt; "quoted" [e](https://good.example/?a="><script>)',
      '',
      '```js file="><script>alert(1)</script>',
      '</code><script>alert(1)</script>',
      '```',
      '| <u>x</u> |',
      '| --- |',
      '| <script>alert(1)</script> |',
    ].join('\n'),
  );
  const tags = new Set([...html.matchAll(/<([a-z0-9]+)/g)].map(([, tag]) => tag));
  for (const tag of ['script', 'img', 'b', 'i', 'u']) assert.ok(!tags.has(tag), `${tag} in ${html}`);
  assert.doesNotMatch(html, /not for readers|(?:href|src)="(?!#|https:\/\/good\.example)|<[^>]* on\w+=/);
  assert.match(html, /&#60;script&#62;alert\(1\)&#60;\/script&#62;/);
  assert.match(html, /picture.*&#60;i&#62; &#34;quoted&#34;/);
});

test('links lead to pages and anchors; files that are no pages are named', () => {
  const { html } = render(
    '[a](../other.md#part) [b](../../CHANGELOG.md) [c](../../examples/x.mjs) [d](#here)',
  );
  assert.match(html, /<a href="\/docs\/other#part">a<\/a> <a href="\/docs\/changelog">b<\/a>/);
  assert.match(html, /<span class="file" title="examples\/x.mjs">c<\/span> <a href="#here">d<\/a>/);
});

test('anchors are those of GitHub, and each heading has its own', () => {
  const { title, headings, sections } = render(
    "# One\n\nfirst\n\n## `a_b`: what's *this*?\n\nsecond\n\n## Twice\n\n## Twice\n",
  );
  assert.equal(title, 'One');
  assert.deepEqual(
    headings.map(({ id }) => id),
    ['a_b-whats-this', 'twice', 'twice-1'],
  );
  assert.deepEqual(
    sections.map(({ heading, text }) => [heading, text]),
    [
      ['One', 'first'],
      ["a_b: what's this?", 'second'],
      ['Twice', ''],
      ['Twice', ''],
    ],
  );
});

test('code has its file, its output and its colours, and is otherwise as it is written', () => {
  const { html } = render("```js file=a.mjs\nconst a = '<b>'; // it\n```\n\n```text output\n1 < 2\n```\n");
  assert.match(html, /<figcaption>a\.mjs<\/figcaption>/);
  assert.match(
    html,
    /<span class="k">const<\/span> a = <span class="s">&#39;&#60;b&#62;&#39;<\/span>; <span class="c">\/\/ it<\/span>/,
  );
  assert.match(html, /<figure class="code output"><figcaption>prints<\/figcaption>.*1 &#60; 2/);
});

test('the first page is the table of contents', () => {
  const parts = parseContents(
    '# M\n\n- [no part](x.md)\n\n## A\n\n- [One](one.md): first\n  - [Below](b/two.md)\n- [Three](../CHANGELOG.md)\n\n## Empty\n',
  );
  assert.deepEqual(
    parts.map(({ name, pages }) => [name, pages.map((page) => [page.name, page.address, page.pages.length])]),
    [
      [
        'A',
        [
          ['One', '/docs/one', 1],
          ['Three', '/docs/changelog', 0],
        ],
      ],
    ],
  );
  assert.equal(parts[0]?.pages[0]?.pages[0]?.file, 'docs/b/two.md');
});
