import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { originOf, readOrigin, readRepositoryRef, readRepositoryUrl } from './repository-url.ts';

describe('the address of a Git repository', () => {
  test('is an https URL or an absolute path, without what would make two of one', () => {
    assert.equal(
      readRepositoryUrl('https://GitHub.com/example/components/'),
      'https://github.com/example/components',
    );
    assert.equal(readRepositoryUrl('/srv/clone/'), '/srv/clone');
    assert.equal(readRepositoryUrl('file:///srv/clone'), '/srv/clone');
  });

  for (const text of [
    ...['', 'components', './clone', '-u', '--upload-pack=touch /tmp/x', 'ext::sh -c touch% /tmp/x'],
    ...['git@example.com:a/b.git', 'ssh://example.com/a', 'git://example.com/a', 'http://example.com/a'],
    ...[
      'https://user@example.com/a',
      'https://user:secret@example.com/a',
      'https://example.com/a?b',
      'file://host/a',
    ],
    ...[
      'https://example.com/a\n',
      '/srv/a\0b',
      'file:///srv/a%2Fb',
      'file:///srv/a%00b',
      'file:///srv/a%0Ab',
    ],
  ])
    test(`is not ${JSON.stringify(text)}`, () => {
      assert.throws(() => readRepositoryUrl(text), { code: 'invalid_parameter', message: /^url: / });
    });

  test('is not shown with a password when it is refused', () => {
    for (const text of [
      'https://user:sec/ret@example.com:99999/a',
      'user:sec/ret@example.com:a',
      'x:// user:ret@h',
    ])
      assert.throws(
        () => readRepositoryUrl(text),
        (error: Error) => /^url: /.test(error.message) && !error.message.includes('ret'),
      );
  });

  test('has a ref by the rules of Git', () => {
    for (const ref of ['', 'main', 'v1.2', 'feature/a-b', 'refs/heads/main', 'a'.repeat(40)])
      assert.equal(readRepositoryRef(ref), ref);
    for (const ref of [
      '-x',
      '--upload-pack=x',
      'a..b',
      'a b',
      'a~1',
      'a^',
      'a:b',
      '/a',
      'a/',
      '.a',
      'a.lock',
      'a@{1}',
    ])
      assert.throws(() => readRepositoryRef(ref), { code: 'invalid_parameter' }, ref);
  });

  test('is stored with a component so that it can be read again', () => {
    const commit = '0123456789abcdef0123456789abcdef01234567';
    for (const url of ['https://example.com/a', '/srv/a#b']) {
      const origin = { url, commit, path: 'components/a/actions/b/b.mjs' };
      assert.deepEqual(readOrigin(originOf(origin)), origin);
    }
    assert.equal(readOrigin('https://example.com/a.mjs'), null);
    assert.equal(readOrigin(null), null);
  });
});
