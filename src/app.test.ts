import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readSettings } from '#config/read-settings.ts';
import { systemClock } from '#lib/clock.ts';
import { silentLogger } from '#lib/logger.ts';
import { createTempFolder } from '../test/support/temp-folder.ts';
import { startApp } from './app.ts';

test('the service starts from top to bottom, and stops from bottom to top', async () => {
  await using folder = await createTempFolder();
  const settings = readSettings({ MILLRACE_DATA: folder.path, MILLRACE_PORT: '0' });
  const app = await startApp({ settings, environment: {}, clock: systemClock, logger: silentLogger });
  try {
    assert.deepEqual(app.parts, [
      'lock of the data folder',
      'service door',
      'package folders',
      'sandbox',
      'store',
      'database clock',
      'outgoing connections',
      'component builder',
      'files of Git repositories',
      'package fetcher',
      'traces',
      'object storage',
      'deliveries under way',
      'sources',
      'deployments',
      'outgoing mail',
      'repeated requests',
      'requests',
      'runs and deliveries',
      'file bucket',
      'source deployer',
      'event pruner',
      'run pruner',
      'data store pruner',
      'file pruner',
      'audit pruner',
      'variable audit pruner',
      'idempotency key pruner',
      'npm cache pruner',
      'component pruner',
      'delivery pruner',
      'retention pruner',
      'accounts',
      'scheduler',
      'timers due soon',
      'dashboard build',
      'HTTP server',
      'mail server',
    ]);
  } finally {
    await app.stop();
  }
  assert.equal(app.stopWaitsFor(), undefined);
});
