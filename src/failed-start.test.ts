import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SettingsError } from '#config/read-settings.ts';
import { startFailure } from './failed-start.ts';

const fault = (message: string, fields: object) => Object.assign(new Error(message), fields);

test('a fault that the operator can fix is one line that names the setting; any other is a stack', () => {
  assert.equal(
    startFailure(new SettingsError('cannot start with these settings'), {}),
    'cannot start with these settings',
  );
  for (const [error, setting] of [
    [
      fault('listen EADDRINUSE: address already in use 127.0.0.1:8080', { code: 'EADDRINUSE', port: 8080 }),
      /MILLRACE_PORT$/,
    ],
    [
      fault('listen EACCES: permission denied 127.0.0.1:80', { code: 'EACCES', port: 80 }),
      /may not listen there; choose a port from 1024 on with MILLRACE_PORT$/,
    ],
    [
      fault("ENOENT: no such file or directory, open '/ca.pem'", { code: 'ENOENT', path: '/ca.pem' }),
      /open '\/ca\.pem'$/,
    ],
    [
      fault("EACCES: permission denied, open '/x.key'", { code: 'EACCES', path: '/x.key' }),
      /'\/x\.key': MILLRACE_DATA has to be a folder/,
    ],
    [
      fault('the disk is full: nothing was stored', { code: 'storage_full' }),
      /^the service has not started, because the disk of \/.+ is full: free space there/,
    ],
    [
      fault('the disk of the database is full: nothing was stored', { code: 'storage_full' }),
      /because the disk of the database is full/,
    ],
    [fault('listen EADDRNOTAVAIL: 203.0.113.9:8080', { code: 'EADDRNOTAVAIL' }), /with MILLRACE_HOST$/],
    [
      fault("EEXIST: file already exists, mkdir '/x'", { code: 'EEXIST', path: '/x' }),
      /'\/x': MILLRACE_DATA has to be a folder/,
    ],
    [
      fault("EACCES: permission denied, mkdir '/x'", { code: 'EACCES', path: '/x' }),
      /the user of the service \(.+\) owns/,
    ],
    [
      fault('unable to open database file', { code: 'ERR_SQLITE_ERROR' }),
      /: MILLRACE_DATA has to be a folder/,
    ],
  ] as const) {
    assert.match(startFailure(error, { MILLRACE_DATA: '/x' }), setting);
    assert.ok(
      !startFailure(error, { MILLRACE_DATA: '/x' }).includes('\n'),
      startFailure(error, { MILLRACE_DATA: '/x' }),
    );
  }
  assert.match(startFailure(new Error('a bug'), {}), /a bug\n +at /);
});
