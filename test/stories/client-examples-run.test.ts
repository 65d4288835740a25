import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { useSharedService } from '../support/millrace.ts';
import { projectRoot, readProjectFile } from '../support/project-files.ts';
import { createTempFolder, type TempFolder } from '../support/temp-folder.ts';

let folder: TempFolder;
const fixture = useSharedService();
before(async () => {
  folder = await createTempFolder('client-examples');
});
after(async () => {
  await folder?.remove();
});

/** The blocks of TypeScript of a page, as one program that imports the client from its sources. */
function programOf(page: string): string {
  const blocks = [...readProjectFile(page).matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code = '']) => code);
  assert.ok(blocks.length > 0, `${page} has no examples`);
  const source = (file: string) => pathToFileURL(join(projectRoot, 'sdk', 'src', file)).href;
  return blocks
    .join('\n')
    .replaceAll("'@millrace/client'", `'${source('millrace.ts')}'`)
    .replaceAll("'@millrace/client/webhooks'", `'${source('verify-webhook.ts')}'`);
}

test('the examples of docs/client.md run as one program, and do what the page says', async () => {
  const { service } = fixture;
  const secretText = 'the secret of a test, not of a webhook';
  const timestamp = String(Math.floor(Date.now() / 1000));
  const signature = createHmac('sha256', secretText)
    .update(`dlv_1.${timestamp}.{"order":2}`)
    .digest('base64');
  const request = `new Request('http://127.0.0.1/', { method: 'POST', body: '{"order":2}', headers: {
    'webhook-id': 'dlv_1', 'webhook-timestamp': '${timestamp}', 'webhook-signature': 'v1,${signature}' } })`;
  const secret = `whsec_${Buffer.from(secretText).toString('base64')}`;
  const file = join(folder.path, 'examples.ts');
  await writeFile(
    file,
    `${programOf('docs/client.md')}
    console.log((await receive(${request}, '${secret}')).status, (await receive(${request})).status);`,
  );
  const { stdout } = await promisify(execFile)(process.execPath, [file], {
    env: { URL: service.url, KEY: service.key },
  });
  const { body } = await service.api('GET', '/v1/users/me');
  // Reported or not, depending on whether the event was stored already when the stream was opened.
  const lines = stdout
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('events may be missing: '));
  assert.deepEqual(lines, [
    `I am ${body.data.username}`,
    'inbox is active',
    'dc_… inbox',
    'true',
    'order 1',
    '400 invalid_parameter: name',
    'dlv_1: order 2',
    '204 400',
  ]);
});
