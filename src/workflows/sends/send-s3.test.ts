import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AddressPolicy } from '#egress/address-policy.ts';
import { createGuardedDispatcher } from '#egress/guarded-dispatcher.ts';
import { cpuMsOf } from '../../../test/support/cpu-time.ts';
import { sendS3 } from './send-s3.ts';

test('a prefix of any length is judged at once, as this happens in the process that serves all users', async () => {
  const dispatcher = createGuardedDispatcher({ policy: new AddressPolicy({ allow: [], deny: () => [] }) });
  const storage = {
    dispatcher,
    endpoint: 'http://127.0.0.1:1',
    region: 'r',
    accessKey: 'a',
    secretKey: 's',
    ownBucket: 'own',
  };
  const argument = { bucket: 'bucket', prefix: `a${'/'.repeat(100_000)}a`, payload: 1 };
  const send = { payload: JSON.stringify(argument), run_id: 'r', number: 1, created_at_ms: 0 };
  const tookMs = await cpuMsOf(() =>
    assert.rejects(sendS3(storage, send, AbortSignal.timeout(60_000)), /prefix: expected at most/),
  );
  await dispatcher.destroy();
  assert.ok(tookMs < 1000, `${tookMs} ms`);
});

test('a send that fails says why, and never what the HTTP library says, which may quote the signed header', async () => {
  const policy = new AddressPolicy({ allow: ['127.0.0.0/8'], deny: () => [] });
  const dispatcher = createGuardedDispatcher({ policy });
  const payload = JSON.stringify({ bucket: 'bucket', payload: 1 });
  const send = { payload, run_id: 'r', number: 1, created_at_ms: 0 };
  for (const [accessKey, error] of [
    ['hush\nkey', /^object storage: the request could not be made$/],
    ['hush', /^object storage: connect ECONNREFUSED 127\.0\.0\.1:1$/],
  ] as const) {
    const keys = { region: 'r', accessKey, secretKey: 's' };
    const storage = { ...keys, dispatcher, endpoint: 'http://127.0.0.1:1', ownBucket: 'own' };
    const { state, result } = await sendS3(storage, send, AbortSignal.timeout(60_000));
    assert.equal(state, 'failed');
    assert.match(String(result.error), error);
  }
  await dispatcher.destroy();
});

test('the bucket that has the files of the instance is no target of a send', async () => {
  const dispatcher = createGuardedDispatcher({ policy: new AddressPolicy({ allow: [], deny: () => [] }) });
  const keys = { region: 'r', accessKey: 'a', secretKey: 's' };
  const storage = { ...keys, dispatcher, endpoint: 'http://127.0.0.1:1', ownBucket: 'own-bucket' };
  const send = {
    run_id: 'r',
    number: 1,
    created_at_ms: 0,
    payload: JSON.stringify({ bucket: 'own-bucket', payload: 1 }),
  };
  await assert.rejects(
    sendS3(storage, send, AbortSignal.timeout(60_000)),
    /bucket: "own-bucket" has the files of the instance; use another bucket/,
  );
  await dispatcher.destroy();
});
