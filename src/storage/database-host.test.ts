import assert from 'node:assert/strict';
import { test } from 'node:test';
import { databaseHosts } from './database-host.ts';

test('the hosts of a database are those that the driver connects to', () => {
  const cases: [string, ReturnType<typeof databaseHosts>][] = [
    ['postgres://u:p@db.example:6543/d', [{ host: 'db.example', port: 6543 }]],
    ['postgres://u:p@db.example/d', [{ host: 'db.example', port: 5432 }]],
    ['postgres://u:p@decoy.example:1/d?host=10.0.0.8&port=6000', [{ host: '10.0.0.8', port: 6000 }]],
    ['postgres://u:p@[fd00::1]:6543/d', [{ host: 'fd00::1', port: 6543 }]],
    ['postgres://u:p@%31%30.0.0.8/d', [{ host: '10.0.0.8', port: 5432 }]],
    ['postgres:///d?host=/var/run/postgresql', []],
    ['postgres://u:p@%2Fvar%2Frun%2Fpostgresql/d', []],
    [
      'postgres://u:p@h1:1,h2/d',
      [
        { host: 'h1', port: 1 },
        { host: 'h2', port: 5432 },
      ],
    ],
    ['postgres:///d', [{ host: 'localhost', port: 5432 }]],
  ];
  for (const [url, expected] of cases) assert.deepEqual(databaseHosts(url), expected, url);
});
