import assert from 'node:assert/strict';
import { chmod, mkdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { createTempFolder } from '../../test/support/temp-folder.ts';
import { makePrivate } from './private-folder.ts';

describe('a data folder', { skip: process.platform === 'win32' && 'no modes on Windows' }, () => {
  const modeOf = async (path: string) => ((await stat(path)).mode & 0o777).toString(8);
  const collecting = () => {
    const lines: string[] = [];
    const note = (_fields: unknown, text: string) => lines.push(text);
    return { lines, logger: { info: note, warn: note } as unknown as Parameters<typeof makePrivate>[1] };
  };

  test('that other users could read is closed, with the files of the store, and this is logged once', async () => {
    await using folder = await createTempFolder();
    const store = join(folder.path, 'millrace.sqlite');
    await writeFile(store, '');
    await mkdir(join(folder.path, 'backups'));
    await writeFile(join(folder.path, 'sandbox-self-test.json'), '');
    await chmod(store, 0o644);
    await chmod(folder.path, 0o755);
    const { lines, logger } = collecting();
    makePrivate(folder.path, logger);
    assert.deepEqual([await modeOf(folder.path), await modeOf(store)], ['700', '600']);
    assert.deepEqual(lines, ['data-folder.restricted', 'data-folder.restricted']);
    makePrivate(folder.path, logger);
    assert.equal(lines.length, 2);
  });

  test('that contains files of others stays as it is, except for the files of the store', async () => {
    await using folder = await createTempFolder();
    const store = join(folder.path, 'millrace.sqlite-wal');
    await writeFile(store, '');
    await writeFile(join(folder.path, 'website.html'), '');
    await chmod(store, 0o644);
    await chmod(folder.path, 0o755);
    const { lines, logger } = collecting();
    makePrivate(folder.path, logger);
    assert.deepEqual([await modeOf(folder.path), await modeOf(store)], ['755', '600']);
    assert.deepEqual(lines, ['data-folder.left-open', 'data-folder.restricted']);
  });
});
