import assert from 'node:assert/strict';
import { chmod, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Store } from '#storage/store.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { createTempFolder } from '../../test/support/temp-folder.ts';
import { TestClock } from '../../test/support/test-clock.ts';
import { findApiKeyByHash, hashApiKey } from './api-key-store.ts';
import { firstStart } from './first-start.ts';
import { listProjects } from './project-store.ts';
import { findUser } from './user-store.ts';
import { listMembers, listWorkspacesOf } from './workspace-store.ts';

forEachStore((fixture) => {
  const clock = new TestClock();

  test('the first start makes an admin of the instance, a workspace, a project and a key that works', async () => {
    const { store } = fixture;
    await using folder = await createTempFolder('first-start');
    const first = await firstStart(store, { folder: folder.path, apiKey: '', clock });
    assert.ok(first);
    assert.match(first.apiKey, /^[0-9A-Za-z]{32,}$/);
    assert.equal(first.isKeyMade, true);
    const user = await findUser(store.read, first.userId);
    assert.deepEqual([user?.username, user?.email, user?.is_admin], ['admin', 'admin@localhost', 1]);
    const workspaces = await listWorkspacesOf(store.read, first.userId);
    assert.deepEqual(
      workspaces.map(({ id }) => id),
      [first.workspaceId],
    );
    const members = await listMembers(store.read, first.workspaceId);
    assert.deepEqual(
      members.map(({ user_id, role }) => [user_id, role]),
      [[first.userId, 'admin']],
    );
    const projects = await listProjects(store.read, first.workspaceId);
    assert.deepEqual(
      projects.map(({ id }) => id),
      [first.projectId],
    );
    const key = await findApiKeyByHash(store.read, hashApiKey(first.apiKey));
    assert.equal(key?.user_id, first.userId);
  });

  test('the key stands in a file that only its owner can read, also where a readable one stood before', async () => {
    const { store } = fixture;
    await using folder = await createTempFolder('first-start');
    const keyFile = join(folder.path, 'api-key');
    await writeFile(keyFile, 'the key of an older store\n');
    await chmod(keyFile, 0o644);
    const first = await firstStart(store, { folder: folder.path, apiKey: '', clock });
    assert.equal(first?.keyFile, keyFile);
    assert.equal(await readFile(keyFile, 'utf8'), `${first.apiKey}\n`);
    assert.equal((await stat(keyFile)).mode & 0o777, 0o600);
    assert.deepEqual(await readdir(folder.path), ['api-key'], 'and nothing is left beside it');
  });

  test('a key that is given is the one that works', async () => {
    const { store } = fixture;
    await using folder = await createTempFolder('first-start');
    const apiKey = 'a key of twenty characters or more';
    const first = await firstStart(store, { folder: folder.path, apiKey, clock });
    assert.deepEqual([first?.apiKey, first?.isKeyMade], [apiKey, false]);
    assert.ok(await findApiKeyByHash(store.read, hashApiKey(apiKey)));
  });

  test('a later start makes nothing and leaves the key file alone', async () => {
    const { store } = fixture;
    await using folder = await createTempFolder('first-start');
    const first = await firstStart(store, { folder: folder.path, apiKey: '', clock });
    await fixture.reopen();
    const second = await firstStart(fixture.store, {
      folder: folder.path,
      apiKey: 'another key that comes too late',
      clock,
    });
    assert.equal(second, undefined);
    assert.equal(await readFile(join(folder.path, 'api-key'), 'utf8'), `${first?.apiKey}\n`);
    assert.deepEqual(await counts(fixture.store), { users: 1, keys: 1, workspaces: 1, projects: 1 });
  });

  test('a key file that cannot be written leaves nothing behind, and the next start is the first', async () => {
    const { store } = fixture;
    await using folder = await createTempFolder('first-start');
    const notAFolder = join(folder.path, 'file');
    await writeFile(notAFolder, '');
    await assert.rejects(firstStart(store, { folder: notAFolder, apiKey: '', clock }));
    assert.deepEqual(await counts(store), { users: 0, keys: 0, workspaces: 0, projects: 0 });
    assert.ok(await firstStart(store, { folder: folder.path, apiKey: '', clock }));
  });

  test('of nodes that start together, each with a folder of its own, exactly one makes the first user', async () => {
    // SQLite has one process; there the starts meet on one store.
    const nodes =
      fixture.dialect === 'postgres'
        ? await Promise.all(Array.from({ length: 4 }, () => fixture.open()))
        : Array.from({ length: 4 }, () => fixture.store);
    await using folder = await createTempFolder('first-start');
    await using other = await createTempFolder('first-start');
    const starts = await Promise.all(
      nodes.map((node, index) =>
        firstStart(node, { folder: index % 2 === 0 ? folder.path : other.path, apiKey: '', clock }),
      ),
    );
    const winners = starts.filter((start) => start !== undefined);
    assert.equal(winners.length, 1);
    assert.deepEqual(await counts(fixture.store), { users: 1, keys: 1, workspaces: 1, projects: 1 });
    const files = [...(await readdir(folder.path)), ...(await readdir(other.path))];
    assert.deepEqual(files, ['api-key'], 'no node keeps a key that does not work');
    assert.equal(await readFile(winners[0]?.keyFile ?? '', 'utf8'), `${winners[0]?.apiKey}\n`);
  });
});

async function counts(store: Store) {
  const count = async (table: 'users' | 'api_keys' | 'workspaces' | 'projects') =>
    (await store.read.selectFrom(table).select('id').execute()).length;
  return {
    users: await count('users'),
    keys: await count('api_keys'),
    workspaces: await count('workspaces'),
    projects: await count('projects'),
  };
}
