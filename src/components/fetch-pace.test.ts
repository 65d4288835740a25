import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FetchPace } from './fetch-pace.ts';

const megabyte = 1024 * 1024;
const options = { signal: new AbortController().signal };

test('an owner whose builds fetch megabytes waits for the time that they take, and others do not', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  let nowMs = 0;
  const fetched: string[] = [];
  const pace = new FetchPace({
    fetchText: async (url) => {
      fetched.push(url);
      if (url === 'endless') throw Object.assign(new Error('too large'), { code: 'ERR_BODY_TOO_LARGE' });
      return { status: 200, body: Buffer.alloc(url === 'small' ? 10 : 2 * megabyte), url };
    },
    bytesMax: 4 * megabyte,
    nowMs: () => nowMs,
  });
  const own = pace.of('o_1');
  await own('large', options);
  const waits = own('small', options);
  await pace.of('o_2')('of another owner', options);
  assert.deepEqual(fetched, ['large', 'of another owner']);
  const pass = (ms: number) => {
    nowMs += ms;
    t.mock.timers.tick(ms);
  };
  pass(500);
  await waits;
  await assert.rejects(own('endless', options), /too large/);
  const next = own('next', options);
  pass(500);
  await Promise.resolve();
  assert.ok(!fetched.includes('next'), 'what was read of a file that is too large counts');
  pass(1_000);
  await next;
  assert.deepEqual(fetched, ['large', 'of another owner', 'small', 'endless', 'next']);
});
