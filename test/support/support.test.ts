import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { Client } from 'pg';
import { createTestDatabase, postgresSkip } from './databases.ts';
import { HttpReceiver } from './http-receiver.ts';
import { startPostgres } from './postgres-server.ts';
import { projectRoot } from './project-files.ts';
import { slowest } from './slowest-first.ts';
import { createTempFolder } from './temp-folder.ts';
import { waitFor } from './wait-for.ts';

async function query(url: string, statement: string): Promise<Record<string, unknown>[]> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(statement)).rows;
  } finally {
    await client.end();
  }
}

describe('PostgreSQL for tests', { skip: postgresSkip() }, () => {
  test('a test database is empty, its own, on a server that syncs, and gone after drop', async () => {
    const first = await createTestDatabase();
    const second = await createTestDatabase();
    try {
      await query(first.url, 'CREATE TABLE notes (text text)');
      const count =
        "SELECT count(*)::int AS tables FROM information_schema.tables WHERE table_schema = 'public'";
      assert.deepEqual(await query(first.url, count), [{ tables: 1 }]);
      assert.deepEqual(await query(second.url, count), [{ tables: 0 }]);
      assert.deepEqual(await query(second.url, 'SHOW fsync'), [{ fsync: 'on' }]);
    } finally {
      await first.drop();
      await second.drop();
    }
    await first.drop();
    await assert.rejects(query(first.url, 'SELECT 1'), { code: '3D000' });
  });

  test('a private server keeps what it committed through a kill, and ends for good', async () => {
    const server = await startPostgres();
    try {
      await query(server.url, 'CREATE TABLE notes (text text)');
      await query(server.url, "INSERT INTO notes VALUES ('kept')");
      const firstPid = server.pid;
      await server.kill();
      await assert.rejects(query(server.url, 'SELECT 1'));
      await server.restart();
      assert.notEqual(server.pid, firstPid);
      assert.deepEqual(await query(server.url, 'SELECT text FROM notes'), [{ text: 'kept' }]);
    } finally {
      await server.stop();
    }
    await server.stop();
    await assert.rejects(query(server.url, 'SELECT 1'), { code: 'ECONNREFUSED' });
  });
});

describe('the HTTP receiver', () => {
  test('keeps requests, answers as scripted, and lets a test wait for the n-th', async () => {
    await using receiver = await HttpReceiver.start({ answer: { status: 204 } });
    receiver.answerOnce({ status: 503, body: { error: 'busy' } }, ({ method }) => ({ body: method }));
    const third = receiver.waitForRequest(3);
    const first = await fetch(`${receiver.url}/a?b=c`, { method: 'POST', body: '{"n":1}' });
    assert.deepEqual([first.status, await first.json()], [503, { error: 'busy' }]);
    assert.equal(await (await fetch(receiver.url, { method: 'PUT' })).text(), 'PUT');
    assert.equal((await fetch(`${receiver.url}/third`)).status, 204);
    assert.equal((await third).url, '/third');
    const kept = await receiver.waitForRequest(1);
    assert.deepEqual([kept.method, kept.url, kept.json()], ['POST', '/a?b=c', { n: 1 }]);
  });

  test('says what it waited for when the request never comes', async () => {
    await using receiver = await HttpReceiver.start();
    await assert.rejects(receiver.waitForRequest(1, 20), /waited 20 ms in vain for: request 1/);
  });
});

test('waitFor returns what the condition gave, and names the condition when it stays false', async () => {
  let asked = 0;
  assert.equal(await waitFor(() => (asked++ > 1 ? 'there' : undefined)), 'there');
  await assert.rejects(
    waitFor(() => false, { timeoutMs: 10, what: 'nothing' }),
    /in vain for: nothing/,
  );
});

test('a temporary folder is there until it is removed', async () => {
  const folder = await createTempFolder();
  await writeFile(join(folder.path, 'file'), 'text');
  await folder.remove();
  await folder.remove();
  assert.equal(existsSync(folder.path), false);
});

test('the slowest files, which begin first, are there', () => {
  assert.deepEqual(
    slowest.filter((file) => !existsSync(join(projectRoot, file))),
    [],
  );
});
