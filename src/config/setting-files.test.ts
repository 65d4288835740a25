import assert from 'node:assert/strict';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { createTempFolder } from '../../test/support/temp-folder.ts';
import { readSettings } from './read-settings.ts';
import { viewSettings } from './view-settings.ts';

const key = 'k'.repeat(43);

test('a secret is read from the file that its variable with _FILE names, and is shown to come from there', async () => {
  await using folder = await createTempFolder('settings');
  const file = join(folder.path, 'key');
  const url = join(folder.path, 'database');
  await writeFile(file, `${key}\n`);
  await writeFile(url, 'postgres://user:secret@db.example:5432/millrace\r\n');
  const environment = { MILLRACE_API_KEY_FILE: file, MILLRACE_DATABASE_URL_FILE: url };
  const settings = readSettings(environment);
  assert.equal(settings.apiKey, key);
  assert.equal(settings.databaseUrl, 'postgres://user:secret@db.example:5432/millrace');
  const shown = viewSettings(settings, environment).filter(({ from }) => from !== 'default');
  assert.deepEqual(
    shown.map(({ env, from, value }) => [env, from, value]),
    [
      ['MILLRACE_DATABASE_URL', 'file', 'postgres://db.example:5432/millrace'],
      ['MILLRACE_API_KEY', 'file', null],
    ],
  );
});

test('a file that cannot be used is a problem that names it and shows nothing of it', async () => {
  await using folder = await createTempFolder('settings');
  const at = (name: string) => join(folder.path, name);
  await writeFile(at('empty'), '\n');
  await writeFile(at('two'), `${key}\n${key}\n`);
  await writeFile(at('large'), key.repeat(2_000));
  await writeFile(at('good'), key);
  await writeFile(at('marked'), `\uFEFF${key}\n`);
  await writeFile(at('blank'), `${key} \n`);
  await symlink(at('circle'), at('circle'));
  await mkdir(at('folder'));
  for (const [environment, problem] of [
    [{ MILLRACE_API_KEY_FILE: at('none') }, /MILLRACE_API_KEY_FILE: expected a file, found none at ".*none"/],
    [{ MILLRACE_API_KEY_FILE: at('folder') }, /MILLRACE_API_KEY_FILE: expected a file, found something else/],
    [{ MILLRACE_API_KEY_FILE: at('empty') }, /expected a value in ".*empty", found an empty file/],
    [{ MILLRACE_API_KEY_FILE: at('two') }, /expected one line in ".*two", found several/],
    [{ MILLRACE_API_KEY_FILE: at('large') }, /expected at most 64 KB in ".*large", found 86000 bytes/],
    [
      { MILLRACE_API_KEY_FILE: at('good'), MILLRACE_API_KEY: key },
      /MILLRACE_API_KEY_FILE: MILLRACE_API_KEY is set too; expected one of the two/,
    ],
    [
      { MILLRACE_API_KEY_FILE: at('marked') },
      /MILLRACE_API_KEY_FILE \(".*marked"\): .*found a byte order mark \(U\+FEFF\).* as character 1 of 44/,
    ],
    [
      { MILLRACE_API_KEY_FILE: at('blank') },
      /MILLRACE_API_KEY_FILE \(".*blank"\): .*found a space as character 44 of 44/,
    ],
    [{ MILLRACE_API_KEY: `${key}é` }, /MILLRACE_API_KEY: .*found U\+00E9 as character 44 of 44/],
    [
      { MILLRACE_API_KEY_FILE: at('circle') },
      /MILLRACE_API_KEY_FILE: .*its symbolic links form a circle\) at ".*circle"/,
    ],
    [
      { MILLRACE_PORT_FILE: at('good') },
      /MILLRACE_PORT_FILE: no such setting: MILLRACE_PORT is not read from a file; expected MILLRACE_PORT itself$/,
    ],
  ] as const) {
    assert.throws(
      () => readSettings(environment),
      (error: Error) => problem.test(error.message) && !error.message.includes(key),
      String(problem),
    );
  }
});
