import assert from 'node:assert/strict';
import { chmod, mkdir, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { createTempFolder } from '../../test/support/temp-folder.ts';
import { settleFolder } from './settle-folder.ts';

test('packages are readable by the users that processes run as, whatever the umask of the service, and writable by none', async () => {
  await using folder = await createTempFolder('settle');
  const at = (...names: string[]) => join(folder.path, ...names);
  await mkdir(at('a', 'b'), { recursive: true });
  await writeFile(at('a', 'b', 'text'), '12345');
  await writeFile(at('program'), '1');
  await chmod(at('a'), 0o700);
  await chmod(at('a', 'b', 'text'), 0o600);
  await chmod(at('program'), 0o4777);
  assert.equal(await settleFolder(folder.path), 6);
  const modes = await Promise.all(
    [at('a'), at('a', 'b', 'text'), at('program')].map(async (path) =>
      ((await stat(path)).mode & 0o7777).toString(8),
    ),
  );
  assert.deepEqual(modes, ['755', '644', '755']);
});

test('what is neither file nor folder is refused', async () => {
  await using folder = await createTempFolder('settle');
  await symlink('/etc/passwd', join(folder.path, 'link'));
  await assert.rejects(settleFolder(folder.path), { code: 'package_refused' });
});
