import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { HttpReceiver } from '../../../test/support/http-receiver.ts';
import { createTempFolder } from '../../../test/support/temp-folder.ts';

const limits = JSON.stringify(fileURLToPath(new URL('./limit-builder.ts', import.meta.url)));

/** What `code` prints, as JSON, in a process of its own: the limits hold for a whole process and cannot be taken back. */
async function resultsOf(code: string): Promise<unknown> {
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', code]);
  return JSON.parse(stdout);
}

function requestsFrom(allowed: string, urls: string[]): Promise<unknown> {
  return resultsOf(`
    import http from 'node:http';
    import { limitConnections } from ${limits};
    limitConnections(new Set([${JSON.stringify(allowed)}]));
    const ask = (url) => new Promise((resolve) =>
      http.get(url, (answer) => { answer.resume(); answer.on('end', () => resolve('answered')); })
        .on('error', (error) => resolve(error.code)));
    const results = [];
    for (const url of ${JSON.stringify(urls)}) results.push(await ask(url));
    console.log(JSON.stringify(results));
  `);
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

test('what a request may write is counted separately for each, and before the first nothing may be written', async () => {
  await using folder = await createTempFolder('writes');
  const code = `
    import fs from 'node:fs';
    import { promisify } from 'node:util';
    import { limitWrites } from ${limits};
    const bound = limitWrites(1);
    let files = 0;
    const write = async (text) => {
      try {
        const file = await promisify(fs.open)(${JSON.stringify(folder.path)} + '/' + files++, 'w');
        await promisify(fs.write)(file, Buffer.from(text), 0, text.length, null);
        return 'written';
      } catch (error) {
        return error.code;
      }
    };
    const ended = (check) => { try { check(); return 'ended'; } catch (error) { return error.code; } };
    const results = [await write('a')];
    for (const text of ['12345', '123456', '12345']) {
      const check = bound({ filesMax: 2, bytesMax: 10 });
      results.push([await write(text), await write(text), ended(check)]);
    }
    const check = bound({ filesMax: 2, bytesMax: 10 });
    results.push([await write('1'), await write('2'), await write('3'), ended(check)]);
    console.log(JSON.stringify(results));
  `;
  assert.deepEqual(await resultsOf(code), [
    'ETOOLARGE',
    ['written', 'written', 'ended'],
    ['written', 'ETOOLARGE', 'ETOOLARGE'],
    ['written', 'written', 'ended'],
    ['written', 'written', 'ETOOLARGE', 'ETOOLARGE'],
  ]);
});
