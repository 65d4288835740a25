import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { HttpReceiver } from '../../../test/support/http-receiver.ts';

/** In a process of its own, since the limit holds for a whole process and cannot be taken back. */
async function requestsFrom(allowed: string, urls: string[]): Promise<string[]> {
  const file = fileURLToPath(new URL('./limit-builder.ts', import.meta.url));
  const code = `
    import http from 'node:http';
    import { limitConnections } from ${JSON.stringify(file)};
    limitConnections(new Set([${JSON.stringify(allowed)}]));
    const ask = (url) => new Promise((resolve) =>
      http.get(url, (answer) => { answer.resume(); answer.on('end', () => resolve('answered')); })
        .on('error', (error) => resolve(error.code)));
    const results = [];
    for (const url of ${JSON.stringify(urls)}) results.push(await ask(url));
    console.log(JSON.stringify(results));
  `;
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', code]);
  return JSON.parse(stdout) as string[];
}

test('the installer connects to the registry, and to no other port or host', async () => {
  await using registry = await HttpReceiver.start();
  await using other = await HttpReceiver.start();
  const urls = [`${registry.url}/a`, `${other.url}/b`, `http://localhost:${registry.port}/c`];
  assert.deepEqual(await requestsFrom(`127.0.0.1:${registry.port}`, urls), [
    'answered',
    'EREFUSEDHOST',
    'EREFUSEDHOST',
  ]);
  assert.equal(other.requests.length, 0);
});
