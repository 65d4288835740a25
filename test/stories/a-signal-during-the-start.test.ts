import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readSettings } from '#config/read-settings.ts';
import { systemClock } from '#lib/clock.ts';
import { silentLogger } from '#lib/logger.ts';
import { startApp } from '../../src/app.ts';
import { createTempFolder } from '../support/temp-folder.ts';

test('a start ends when the service receives a signal to stop, and gives back what it had taken', async () => {
  await using folder = await createTempFolder();
  const settings = readSettings({ MILLRACE_DATA: folder.path, MILLRACE_PORT: '0' });
  const reason = new Error('told to stop');
  const start = () =>
    startApp({
      ...{ settings, environment: {}, clock: systemClock, logger: silentLogger },
      signal: AbortSignal.abort(reason),
    });
  await assert.rejects(start(), reason);
  // Not because the folder were still locked.
  await assert.rejects(start(), reason);
});
