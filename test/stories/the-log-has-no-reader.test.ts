import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, openSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { freePort } from '../support/free-port.ts';
import { testApiKey } from '../support/millrace.ts';
import { createTempFolder } from '../support/temp-folder.ts';
import { patienceMs, waitFor, within } from '../support/wait-for.ts';

const mainFile = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
/** Every write to it fails as on a full disk. */
const fullDevice = '/dev/full';

test('a service whose output goes to a full disk works on, and stops with 0', {
  skip: existsSync(fullDevice) ? false : 'no /dev/full here',
}, async () => {
  await using folder = await createTempFolder();
  const port = await freePort();
  const full = openSync(fullDevice, 'w');
  const child = spawn(process.execPath, ['--disable-sigusr1', mainFile], {
    env: {
      PATH: process.env.PATH,
      MILLRACE_PORT: String(port),
      MILLRACE_DATA: folder.path,
      MILLRACE_API_KEY: testApiKey,
      MILLRACE_LOG_LEVEL: 'debug',
    },
    stdio: ['ignore', full, full],
  });
  try {
    const exited = once(child, 'exit');
    const me = () =>
      fetch(`http://127.0.0.1:${port}/v1/users/me`, { headers: { authorization: `Bearer ${testApiKey}` } });
    await waitFor(async () => (await me()).status === 200, { what: 'an answer' });
    for (let request = 0; request < 50; request += 1) assert.equal((await me()).status, 200);
    assert.equal(child.exitCode, null);
    child.kill('SIGTERM');
    const [code] = (await within(exited, patienceMs, 'the exit')) as [number | null];
    assert.equal(code, 0);
  } finally {
    child.kill('SIGKILL');
  }
});
