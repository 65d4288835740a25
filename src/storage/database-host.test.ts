import assert from 'node:assert/strict';
import { test } from 'node:test';
import { databaseHost } from './database-host.ts';

test('the host of a database is the one that the driver connects to', () => {
  const cases: [string, ReturnType<typeof databaseHost>][] = [
    ['postgres://u:p@db.example:6543/d', { host: 'db.example', port: 6543 }],
    ['postgres://u:p@db.example/d', { host: 'db.example', port: 5432 }],
    ['postgres://u:p@decoy.example:1/d?host=10.0.0.8&port=6000', { host: '10.0.0.8', port: 6000 }],
    ['postgres://u:p@[fd00::1]:6543/d', { host: 'fd00::1', port: 6543 }],
    ['postgres://u:p@%31%30.0.0.8/d', { host: '10.0.0.8', port: 5432 }],
    ['postgres:///d?host=/var/run/postgresql', undefined],
    ['postgres://u:p@%2Fvar%2Frun%2Fpostgresql/d', undefined],
    ['postgres:///d', { host: 'localhost', port: 5432 }],
  ];
  for (const [url, expected] of cases) assert.deepEqual(databaseHost(url), expected, url);
});
