import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { test } from 'node:test';

const code = `
  import { closeForeignDescriptors } from ${JSON.stringify(new URL('close-foreign-descriptors.ts', import.meta.url).href)};
  import { fstatSync, readlinkSync } from 'node:fs';
  import { spawnSync } from 'node:child_process';
  const closed = closeForeignDescriptors(process.env);
  const left = spawnSync(process.execPath, ['-e', "console.log(require('fs').readdirSync('/proc/self/fd').filter((fd) => { try { return ['/etc', '/etc/passwd', '/dev/null'].includes(require('fs').readlinkSync('/proc/self/fd/' + fd)) && fd > 2; } catch { return false; } }).join())"]).stdout.toString().trim();
  process.send({ closed, left });
`;

test('descriptors that were left open by the parent are closed, the channel to the parent is not', {
  skip: process.platform !== 'linux',
}, async () => {
  const file = openSync('/etc/passwd', 'r');
  const folder = openSync('/etc', 'r');
  const stdio: ('ignore' | 'pipe' | 'inherit' | 'ipc' | number)[] = Array.from(
    { length: 302 },
    () => 'ignore',
  );
  stdio[2] = 'inherit';
  stdio[3] = 'ipc';
  stdio[40] = file;
  stdio[300] = 'pipe';
  stdio[301] = folder;
  const child = spawn(process.execPath, ['--input-type=module', '-e', code], { stdio });
  closeSync(file);
  closeSync(folder);
  const said = await new Promise<{ closed: number[]; left: string }>((resolve, reject) => {
    child.once('message', (message) => resolve(message as { closed: number[]; left: string }));
    child.once('exit', (exitCode) => reject(new Error(`it ended with ${exitCode}`)));
  });
  for (const descriptor of [40, 300, 301])
    assert.ok(said.closed.includes(descriptor), `${descriptor} is closed`);
  assert.equal(said.closed.includes(3), false);
  assert.equal(said.left, '', 'what it starts has none of them');
  child.disconnect();
});
