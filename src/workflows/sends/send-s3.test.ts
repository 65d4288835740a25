import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AddressPolicy } from '#egress/address-policy.ts';
import { createGuardedDispatcher } from '#egress/guarded-dispatcher.ts';
import { sendS3 } from './send-s3.ts';

test('a prefix of any length is judged at once, as this happens in the process that serves everybody', async () => {
  const dispatcher = createGuardedDispatcher({ policy: new AddressPolicy({ allow: [], deny: () => [] }) });
  const storage = { dispatcher, endpoint: 'http://127.0.0.1:1', region: 'r', accessKey: 'a', secretKey: 's' };
  const argument = { bucket: 'bucket', prefix: `a${'/'.repeat(100_000)}a`, payload: 1 };
  const send = { payload: JSON.stringify(argument), run_id: 'r', number: 1, created_at_ms: 0 };
  const startMs = performance.now();
  await assert.rejects(sendS3(storage, send, AbortSignal.timeout(60_000)), /prefix: expected at most/);
  await dispatcher.destroy();
  assert.ok(performance.now() - startMs < 1000);
});
