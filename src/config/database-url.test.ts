import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readDatabaseUrl } from './database-url.ts';

test('a URL with several hosts is read as libpq reads it', () => {
  const cases: [string, string[], string][] = [
    ['postgres://u:p@h/d', ['postgres://u:p@h/d'], 'any'],
    ['postgres:///d?host=/var/run/postgresql', ['postgres:///d?host=/var/run/postgresql'], 'any'],
    [
      'postgres://u@h/d?target_session_attrs=primary',
      ['postgres://u@h/d?target_session_attrs=primary'],
      'read-write',
    ],
    [
      'postgres://u:p@h1:5432,h2:5433/d?target_session_attrs=read-write&sslmode=disable',
      ['postgres://u:p@h1:5432/d?sslmode=disable', 'postgres://u:p@h2:5433/d?sslmode=disable'],
      'read-write',
    ],
    ['postgresql://h1,h2:6000', ['postgresql://h1', 'postgresql://h2:6000'], 'read-write'],
    [
      'postgres://u:a%40b@[fd00::1]:1,h2/d?target_session_attrs=any',
      ['postgres://u:a%40b@[fd00::1]:1/d', 'postgres://u:a%40b@h2/d'],
      'any',
    ],
    [
      'postgres://u:p@/d?host=h1,h2&port=1,2',
      ['postgres://u:p@h1:1/d', 'postgres://u:p@h2:2/d'],
      'read-write',
    ],
    ['postgres:///d?host=fd00::1,h2&port=7', ['postgres://[fd00::1]:7/d', 'postgres://h2:7/d'], 'read-write'],
  ];
  for (const [text, urls, target] of cases) assert.deepEqual(readDatabaseUrl(text), { urls, target }, text);
});

test('the error of an invalid URL says what is wrong with it, without its password', () => {
  const cases: [string, RegExp][] = [
    ['mysql://u:p@h/d', /^expected a URL that starts with postgres:\/\/ or postgresql:\/\/$/],
    ['postgres://u:geheim@h1:5432,h2:x/d', /^found the port "x", expected 1 to 65535$/],
    ['postgres://u:geheim@h1:99999/d', /^found the port "99999", expected 1 to 65535$/],
    ['postgres://u:geheim@h1,,h3/d', /^found an empty host, expected postgres:/],
    ['postgres://u:geheim@h 1,h2/d', /^found the host "h 1", expected postgres:/],
    [
      'postgres://h1,h2/d?port=1,2,3',
      /^found 3 ports for 2 hosts, expected one port for each or one for all$/,
    ],
    [
      'postgres://u:geheim@h1,h2/d?target_session_attrs=standby',
      /^found target_session_attrs=standby, expected any, /,
    ],
    [
      'postgres://u:ge/heim@h1,h2/d',
      /^user or password have characters that need encoding, such as %40 for @ and %2F/,
    ],
  ];
  for (const [text, message] of cases) {
    assert.throws(
      () => readDatabaseUrl(text),
      (error: Error) => {
        assert.match(error.message, message, text);
        return !error.message.includes('geheim');
      },
    );
  }
});
