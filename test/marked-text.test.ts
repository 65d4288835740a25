import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type Mark, marksOf, plainWords, safeHref } from '../dashboard/src/parts/marks.ts';

const text = (value: string): Mark => ({ kind: 'text', text: value });
const link = (href: string, ...marks: Mark[]): Mark => ({ kind: 'link', href, marks });

test('links, code, strong text and emphasis of a description are found, and the rest is text', () => {
  assert.deepEqual(marksOf('Sends. [See the **docs**](https://example.com/a_b_(c)?x=1 "Docs") or `curl`'), [
    text('Sends. '),
    link('https://example.com/a_b_(c)?x=1', text('See the '), { kind: 'strong', marks: [text('docs')] }),
    text(' or '),
    { kind: 'code', text: 'curl' },
  ]);
  assert.deepEqual(marksOf('**[docs](http://a.example/)** and *soon* _later_, snake_case_name 2 * 3 * 4'), [
    { kind: 'strong', marks: [link('http://a.example/', text('docs'))] },
    text(' and '),
    { kind: 'emphasis', marks: [text('soon')] },
    text(' '),
    { kind: 'emphasis', marks: [text('later')] },
    text(', snake_case_name 2 * 3 * 4'),
  ]);
  assert.deepEqual(marksOf('at https://a.example/b_c_d. Or <mailto:a@b.example>'), [
    text('at '),
    link('https://a.example/b_c_d', text('https://a.example/b_c_d')),
    text('.'),
    text(' Or '),
    link('mailto:a@b.example', text('mailto:a@b.example')),
  ]);
  assert.equal(plainWords('[See the *docs*](https://a.example/) of `this`'), 'See the docs of this');
});

test('only http, https and mailto lead anywhere, whatever a description tries', () => {
  for (const address of [
    'javascript:alert(1)',
    'JaVaScRiPt:alert(1)',
    'java\tscript:alert(1)',
    '\u0001javascript:alert(1)',
    'data:text/html,<script>alert(1)</script>',
    'vbscript:x',
    'file:///etc/passwd',
    'blob:https://a.example/x',
    '//evil.example/',
    '/v1/users/me',
    'https:javascript:alert(1)',
    'http://',
    'view-source:https://a.example/',
  ])
    assert.equal(safeHref(address), undefined, address);
  assert.deepEqual(marksOf('[x](javascript:alert(1))'), [text('x'), text(' (javascript:alert(1))')]);
  assert.deepEqual(marksOf('<img src=x onerror=alert(1)>'), [text('<img src=x onerror=alert(1)>')]);
  assert.deepEqual(marksOf('[x](https://a.example/"onmouseover="alert(1))'), [
    link('https://a.example/%22onmouseover=%22alert(1)', text('x')),
  ]);
});

test('no mixture of marks makes another link, and a long hostile one is split at once', () => {
  const part = fc.constantFrom(
    '[',
    ']',
    '(',
    ')',
    '*',
    '_',
    '`',
    '<',
    '>',
    'a',
    ' ',
    'javascript:',
    'https://a.b/',
  );
  const hrefsOf = (mark: Mark): string[] =>
    'text' in mark ? [] : [...(mark.kind === 'link' ? [mark.href] : []), ...mark.marks.flatMap(hrefsOf)];
  fc.assert(
    fc.property(fc.array(part, { maxLength: 40 }), (parts) => {
      for (const href of marksOf(parts.join('')).flatMap(hrefsOf)) assert.match(href, /^https:\/\/a\.b\//);
    }),
  );
  for (const unit of ['[', '**', '*a', '_a', '`', '[a](', '<https://', '((', '[a](('])
    assert.ok(marksOf(unit.repeat(4_000)).length > 0);
});
