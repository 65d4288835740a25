import assert from 'node:assert/strict';
import { test } from 'node:test';
import { userAgentFamily } from './user-agent-family.ts';

test('a browser is named by its family and system, without versions, and other programs are not guessed', () => {
  const cases: [string | undefined, string | null][] = [
    ['Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0', 'Firefox on Linux'],
    [
      'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.4 Safari/605.1.15',
      'Safari on macOS',
    ],
    ['', null],
    [undefined, null],
    ['\u0000<script>', null],
  ];
  for (const [header, expected] of cases) assert.equal(userAgentFamily(header), expected, String(header));
  assert.ok((userAgentFamily(`Mozilla/5.0 ${'x'.repeat(100_000)}`) ?? '').length <= 80);
});
