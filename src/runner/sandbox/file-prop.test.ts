import assert from 'node:assert/strict';
import { mkdir, readFile, stat, symlink, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { describe, test } from 'node:test';
import { FakeFiles } from '../../../test/support/fake-files.ts';
import { createTempFolder } from '../../../test/support/temp-folder.ts';
import { makeDir, syncIn } from './file-prop.ts';
import type { ResolvedProp } from './prop-definitions.ts';

const dirOf = (attributes: object): ResolvedProp => ({ type: 'dir', ...attributes });

describe('this.<prop> of type dir', () => {
  test('has the files of the stash in its value, otherwise those of the project', async () => {
    const files = new FakeFiles();
    files.put('stash_1', 'a', 'stash');
    files.put('files', 'a', 'project');
    const open = (value: unknown) =>
      makeDir('dir', dirOf({}), value, files.hostCall).open('a').toEncodedString();
    assert.equal(await open('stash_1'), 'stash');
    assert.equal(await open({ id: 'stash_1' }), 'stash');
    for (const value of [undefined, null, '', true, {}]) assert.equal(await open(value), 'project');
  });

  test('respects its accessMode', async () => {
    const files = new FakeFiles();
    files.put('files', 'a', 'x');
    const reading = makeDir('dir', dirOf({ accessMode: 'read' }), undefined, files.hostCall).open('a');
    assert.equal(await reading.toEncodedString(), 'x');
    await assert.rejects(reading.delete(), { message: 'this.dir was opened for reading only' });
    const writing = makeDir('dir', dirOf({ accessMode: 'write' }), undefined, files.hostCall).open('a');
    await assert.rejects(writing.toBuffer(), { message: 'this.dir was opened for writing only' });
    await writing.delete();
  });

  test('a file that was written returns its download URL, in its JSON too, also where reading is not allowed', async () => {
    const files = new FakeFiles();
    const dir = makeDir('dir', dirOf({ accessMode: 'write' }), undefined, files.hostCall);
    const written = await dir.open('a').fromReadableStream(Readable.from(['x']));
    assert.deepEqual(JSON.parse(JSON.stringify(written)), { path: 'a', name: 'a' });
    const linked = await written.withoutPutUrl().withGetUrl();
    const { get_url: url, ...rest } = JSON.parse(JSON.stringify(linked));
    assert.deepEqual(rest, { path: 'a', name: 'a' });
    assert.match(url, /^https?:/);
    assert.equal(linked.get_url, url);
  });
});

describe('sync: true of a dir prop', () => {
  const props = (attributes: object): [string, ResolvedProp][] => [
    ['dir', dirOf({ sync: true, ...attributes })],
  ];

  test('copies the stash into /tmp, and new or changed files back', async () => {
    await using temp = await createTempFolder('sync');
    const files = new FakeFiles();
    for (const path of ['a.txt', 'b/c.txt', 'same.txt']) files.put('stash_1', path, `${path} of the stash`);
    await writeFile(join(temp.path, 'of-an-earlier-step'), 'x');
    const syncOut = await syncIn(props({}), { dir: 'stash_1' }, files.hostCall, temp.path);
    assert.equal(await readFile(join(temp.path, 'b/c.txt'), 'utf8'), 'b/c.txt of the stash');
    await writeFile(join(temp.path, 'a.txt'), 'changed');
    await mkdir(join(temp.path, 'new'));
    await writeFile(join(temp.path, 'new/d.txt'), 'd');
    await symlink('/etc/hostname', join(temp.path, 'link'));
    const asked = files.asked.length;
    await syncOut();
    const stash = files.folder('stash_1');
    assert.deepEqual([...stash.keys()].sort(), ['a.txt', 'b/c.txt', 'new/d.txt', 'same.txt']);
    assert.equal(String(stash.get('a.txt')?.body), 'changed');
    assert.equal(String(stash.get('new/d.txt')?.body), 'd');
    const written = files.asked.slice(asked).filter(({ op }) => op === 'finish');
    assert.deepEqual(written.map(({ path }) => path).sort(), ['a.txt', 'new/d.txt']);
  });

  test('detects a change that keeps the size and the time of a file', async () => {
    await using temp = await createTempFolder('sync');
    const files = new FakeFiles();
    files.put('stash_1', 'a', 'one');
    const syncOut = await syncIn(props({}), { dir: { id: 'stash_1' } }, files.hostCall, temp.path);
    const { atime, mtime } = await stat(join(temp.path, 'a'));
    await writeFile(join(temp.path, 'a'), 'two');
    await utimes(join(temp.path, 'a'), atime, mtime);
    await syncOut();
    assert.equal(String(files.folder('stash_1').get('a')?.body), 'two');
  });

  test('copies in one direction only when accessMode says so', async () => {
    await using temp = await createTempFolder('sync');
    const files = new FakeFiles();
    files.put('stash_1', 'a', 'one');
    const out = await syncIn(props({ accessMode: 'write' }), { dir: 'stash_1' }, files.hostCall, temp.path);
    await assert.rejects(readFile(join(temp.path, 'a')), { code: 'ENOENT' });
    await writeFile(join(temp.path, 'b'), 'b');
    await out();
    assert.ok(files.folder('stash_1').has('b'));
    const back = await syncIn(props({ accessMode: 'read' }), { dir: 'stash_1' }, files.hostCall, temp.path);
    assert.equal(await readFile(join(temp.path, 'a'), 'utf8'), 'one');
    await writeFile(join(temp.path, 'c'), 'c');
    await back();
    assert.equal(files.folder('stash_1').has('c'), false);
  });

  test('does nothing without a value, and nothing for props without sync', async () => {
    await using temp = await createTempFolder('sync');
    const files = new FakeFiles();
    await (await syncIn(props({}), {}, files.hostCall, temp.path))();
    await (await syncIn([['dir', dirOf({})]], { dir: 'stash_1' }, files.hostCall, temp.path))();
    assert.deepEqual(files.asked, []);
  });

  test('writes only below /tmp, whatever paths a stash has', async () => {
    await using temp = await createTempFolder('sync');
    const files = new FakeFiles();
    files.put('stash_1', '../outside', 'x');
    await assert.rejects(
      syncIn(props({}), { dir: 'stash_1' }, files.hostCall, join(temp.path, 'tmp')),
      TypeError,
    );
    await assert.rejects(readFile(join(temp.path, 'outside')), { code: 'ENOENT' });
  });
});
