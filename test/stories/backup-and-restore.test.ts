import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'pg';
import { Webhook } from 'standardwebhooks';
import { createTestDatabase, postgresSkip, type TestDatabase } from '../support/databases.ts';
import { createEmittingSource, createListeningWebhook } from '../support/emitting-source.ts';
import { HttpReceiver } from '../support/http-receiver.ts';
import { Millrace } from '../support/millrace.ts';
import { programFile } from '../support/program-file.ts';
import { projectRoot } from '../support/project-files.ts';
import { storesOfStory, turnVariable } from '../support/story-stores.ts';
import { createTempFolder, type TempFolder } from '../support/temp-folder.ts';
import { waitFor } from '../support/wait-for.ts';

const commandLine = join(projectRoot, 'cli/main.ts');
const passphrase = 'four words nobody guesses';

interface Place {
  dataFolder: string;
  databaseUrl?: string;
}

interface Ended {
  code: number | null;
  stdout: string;
  stderr: string;
  /** The most memory that the program on the store had, in MB; 0 without /proc. */
  peakMb: number;
}

/** Runs `millrace …` as at a terminal; `onStart` gets the process that works on the store. */
async function millrace(
  place: Place,
  words: readonly string[],
  more: { environment?: Record<string, string>; killWhen?: () => boolean } = {},
): Promise<Ended> {
  const child = spawn(process.execPath, [programFile('src/admin.ts'), ...words], {
    env: {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE,
      MILLRACE_DATA: place.dataFolder,
      MILLRACE_BACKUP_PASSPHRASE: passphrase,
      ...(place.databaseUrl === undefined ? {} : { MILLRACE_DATABASE_URL: place.databaseUrl }),
      ...more.environment,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const ended = { stdout: '', stderr: '', peakMb: 0 };
  child.stdout.on('data', (chunk: Buffer) => {
    ended.stdout += chunk;
  });
  child.stderr.on('data', (chunk: Buffer) => {
    ended.stderr += chunk;
  });
  const watch = setInterval(() => {
    if (more.killWhen?.() === true) child.kill('SIGKILL');
    readFile(`/proc/${child.pid}/status`, 'utf8').then(
      (status) => {
        ended.peakMb = Math.max(ended.peakMb, Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024);
      },
      () => {},
    );
  }, 20);
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
  clearInterval(watch);
  return { code, ...ended };
}

async function done(place: Place, ...words: string[]) {
  const ended = await millrace(place, [...words, '--json']);
  assert.equal(ended.code, 0, ended.stderr);
  return JSON.parse(ended.stdout);
}

/** Emits on the timer, and for each request. */
const timed = `export default {
  name: 'Timed', type: 'source', version: '0.0.1', props: { timer: '$.interface.timer' },
  run() { this.$emit({ tick: true }); },
};`;

/** Both directions in turns: src/backup has each piece of a backup on both stores. */
for (const from of storesOfStory(import.meta.filename, process.env[turnVariable])) {
  const to = from === 'sqlite' ? 'postgres' : 'sqlite';
  describe(`an instance on ${from} that is brought to ${to}`, { skip: postgresSkip() }, () => {
    test('continues with all that was acknowledged before the backup, which was made while it was busy', async () => {
      await using folder = await createTempFolder('moved');
      await using receiver = await HttpReceiver.start();
      const database: TestDatabase = await createTestDatabase();
      const placeOf = (name: string, dialect: string): Place => ({
        dataFolder: join(folder.path, name),
        ...(dialect === 'postgres' ? { databaseUrl: database.url } : {}),
      });
      const old = placeOf('old', from);
      const place = placeOf('new', to);
      let service = await Millrace.start(old);
      try {
        const quiet = await createEmittingSource(service);
        const busy = await createEmittingSource(service);
        const webhook = await createListeningWebhook(service, { url: receiver.url, emitterId: quiet.id });
        const timer = await service.createSource({
          component_code: timed,
          configured_props: { timer: { intervalSeconds: 15 } },
        });
        const { body: person } = await service.api('POST', '/v1/users', {
          username: 'ann',
          email: 'ann@example.com',
        });
        const { body: account } = await service.api('POST', '/v1/accounts', {
          app: 'acme_vault',
          name: 'Work',
          credentials: { token: 'canary-of-the-account' },
        });
        assert.ok(account.data?.id, JSON.stringify(account));
        const variables = [
          { name: 'SECRET', value: 'canary-of-a-secret-variable', secret: true },
          { name: 'PLAIN', value: 'canary-of-a-plain-variable' },
        ];
        assert.equal((await service.api('PUT', '/v1/variables', { variables })).status, 200);
        await quiet.emit(Array.from({ length: 50 }, (_, n) => ({ n })));
        await waitFor(() => receiver.requests.length === 50, { what: 'deliveries before the backup' });

        let isOver = false;
        const acknowledged: { name: string; atMs: number }[] = [];
        const load = (async () => {
          for (let n = 0; !isOver; n += 1) {
            const name = `hook ${n}`;
            const made = await service.api('POST', '/v1/webhooks', { url: receiver.url, name });
            assert.equal(made.status, 200);
            acknowledged.push({ name, atMs: performance.now() });
            await busy.emit([{ n }]);
          }
        })();
        await waitFor(() => acknowledged.length >= 10);
        const beganMs = performance.now();
        const made = await done(old, 'backup', folder.path);
        await waitFor(() => acknowledged.some(({ atMs }) => atMs > beganMs), {
          what: 'more, after the backup',
        });
        isOver = true;
        await load;
        const checked = await done(place, 'backup', '--check', made.file);
        assert.equal(checked.rows, made.rows);
        await service.stop();
        const bytes = await readFile(made.file);
        for (const secret of ['canary-of', 'hook 1', webhook.signing_secret])
          assert.ok(!bytes.includes(secret), secret);

        const wrong = await millrace(place, ['restore', made.file], {
          environment: { MILLRACE_BACKUP_PASSPHRASE: 'four words nobody guessed' },
        });
        assert.deepEqual([wrong.code, /not the passphrase/.test(wrong.stderr)], [1, true]);
        const restored = await done(place, 'restore', made.file);
        assert.equal(restored.store, to);
        assert.ok(restored.data_keys >= 1);
        service = await Millrace.start(place);
        assert.ok(!/API key/.test(service.output), 'no user is created again');

        const events = await service.events(quiet.id);
        assert.equal(events.length, 50);
        const { body: hooks } = await service.api('GET', '/v1/users/me/webhooks?limit=100');
        const names = new Set(hooks.data.map(({ name }: { name: string }) => name));
        for (const { name, atMs } of acknowledged)
          if (atMs < beganMs && names.size < 100) assert.ok(names.has(name), name);
        const ns = (await service.events(busy.id))
          .map(({ event }) => event.n as number)
          .sort((a, b) => a - b);
        assert.deepEqual(
          ns,
          Array.from({ length: ns.length }, (_, at) => (ns[0] ?? 0) + at),
          'of one moment: no holes',
        );

        const ann = await service.api('GET', '/v1/users/me', undefined, { key: person.data.api_key });
        assert.equal(ann.body.data.username, 'ann');
        const opened = await service.api('GET', `/v1/accounts/${account.data.id}?include_credentials=1`);
        assert.equal(opened.body.data.credentials.token, 'canary-of-the-account');
        const code =
          'export default { run() { return process.env.SECRET.length + process.env.PLAIN.length; } };';
        const workflow = await service.createWorkflow({
          steps: [{ namespace: 'a', code }],
          triggers: [{ type: 'http' }],
        });
        await fetch(service.url + new URL(workflow.triggers[0].endpoint_url).pathname, { method: 'POST' });
        const run = await service.runInState(workflow.id, 'succeeded');
        assert.equal(
          run.steps[0].exports.$return_value,
          'canary-of-a-secret-variable'.length + 'canary-of-a-plain-variable'.length,
        );

        const { body: kept } = await service.api('GET', `/v1/sources/${quiet.id}`);
        const before = receiver.requests.length;
        await fetch(kept.data.configured_props.http.endpoint_url, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ values: [{ n: 'after' }] }),
        });
        const sent = await waitFor(
          () => receiver.requests.slice(before).find(({ body }) => String(body).includes('after')),
          { what: 'a delivery of the restored instance' },
        );
        new Webhook(webhook.signing_secret).verify(sent.body, sent.headers as Record<string, string>);

        const ticks = async () =>
          (await service.api('GET', `/v1/sources/${timer.id}/ticks?limit=100`)).body.data;
        await waitFor(async () => (await ticks()).length >= 2, { what: 'the timer to run on' });
      } finally {
        await service.stop();
        await database.drop();
      }
    });
  });
}

describe('a large backup', () => {
  const megabyte = 1024 * 1024;
  /** Long enough in the making and the restoring to be killed in the middle. */
  const killedMb = 40;
  /** The program takes up to 400 MB, with garbage that a busy machine has not collected; one that kept this file in memory, more. */
  const large = { megabytes: 200, rows: 100_000, peakMbMax: 500 };
  let folder: TempFolder;
  let place: Place;
  let file: string;
  /** Opens the backup; with a passphrase, each look at it would take half a second of work. */
  let withKey: readonly string[];

  before(async () => {
    folder = await createTempFolder('large');
    place = { dataFolder: join(folder.path, 'large') };
    await (await Millrace.start(place)).stop();
    await writeRows({ megabytes: killedMb, rows: 1 });
    withKey = ['--key-file', await recoveryKey('recovery.key')];
    file = (await backUp('killed.backup')).file;
  });
  after(() => folder?.remove());

  /** So much that cannot be compressed, and so many small rows, in the place of what was there. */
  async function writeRows({ megabytes, rows }: { megabytes: number; rows: number }): Promise<void> {
    const database = new DatabaseSync(join(place.dataFolder, 'millrace.sqlite'));
    database.exec('begin; delete from file_chunks; delete from component_dbs');
    const chunk = database.prepare('insert into file_chunks values (?, ?, ?, randomblob(?))');
    for (let n = 0; n < megabytes; n += 1) chunk.run('f_1', n, 'u_1', megabyte);
    database.exec(`insert into component_dbs with recursive n(i) as (select 1 union all select i + 1 from n where i < ${rows})
      select 's' || i, 'u_1', '{"n":' || i || '}' from n`);
    database.exec('commit');
    database.close();
  }

  async function backUp(name: string): Promise<{ file: string; bytes: number; peakMb: number }> {
    const ended = await millrace(place, ['backup', join(folder.path, name), ...withKey, '--json']);
    assert.equal(ended.code, 0, ended.stderr);
    const { bytes } = JSON.parse(ended.stdout);
    return { file: join(folder.path, name), bytes, peakMb: ended.peakMb };
  }

  async function recoveryKey(name: string): Promise<string> {
    const path = join(folder.path, name);
    await writeFile(path, randomBytes(32).toString('base64'), { mode: 0o600 });
    return path;
  }

  function looksRestored(restored: Place, { megabytes, rows }: { megabytes: number; rows: number }): void {
    assert.ok(!existsSync(join(restored.dataFolder, 'restoring')));
    const database = new DatabaseSync(join(restored.dataFolder, 'millrace.sqlite'), { readOnly: true });
    assert.deepEqual(database.prepare('select id from webhooks').all(), []);
    const count = database.prepare('select count(*) as rows from component_dbs').get();
    const sum = database.prepare('select sum(length(bytes)) as bytes from file_chunks').get();
    database.close();
    assert.deepEqual({ ...count, ...sum }, { rows, bytes: megabytes * megabyte });
  }

  test('killed in the middle of a restore, the instance is as it was; wrong and damaged ones are refused', async () => {
    // Into nothing: killed, nothing is there.
    const target = { dataFolder: join(folder.path, 'target') };
    const draft = join(target.dataFolder, 'restoring', 'millrace.sqlite');
    const killed = await millrace(target, ['restore', file, ...withKey], {
      killWhen: () => existsSync(draft),
    });
    assert.equal(killed.code, null, killed.stderr);
    assert.ok(!existsSync(join(target.dataFolder, 'millrace.sqlite')));

    // In the place of one that is used: killed, it is as it was.
    let service = await Millrace.start(target);
    const { body: made } = await service.api('POST', '/v1/webhooks', {
      url: 'https://example.com/x',
      name: 'mine',
    });
    await service.stop();
    const refused = await millrace(target, ['restore', file, ...withKey]);
    assert.equal(refused.code, 1);
    assert.match(refused.stderr, /this instance is in use/);
    const unsaid = await millrace(target, ['restore', file, '--replace', ...withKey]);
    assert.equal(unsaid.code, 2);
    const replace = ['--replace', '--yes', ...withKey];
    const again = await millrace(target, ['restore', file, ...replace], {
      killWhen: () => existsSync(draft),
    });
    assert.equal(again.code, null, again.stderr);
    const otherKey = ['--replace', '--yes', '--key-file', await recoveryKey('other.key')];
    const wrong = await millrace(target, ['restore', file, ...otherKey]);
    assert.deepEqual([wrong.code, /not the recovery key/.test(wrong.stderr)], [1, true]);
    const cut = join(folder.path, 'cut.backup');
    await writeFile(cut, (await readFile(file)).subarray(0, megabyte));
    const told = await millrace(target, ['restore', cut, ...replace, '--json']);
    assert.equal(told.code, 1);
    assert.match(JSON.parse(told.stderr).error, /the file is cut off/);
    service = await Millrace.start(target);
    assert.equal((await service.api('GET', `/v1/webhooks/${made.data.id}`)).body.data.name, 'mine');
    const live = await millrace(target, ['restore', file, ...replace]);
    assert.match(live.stderr, /the service is running on the data folder/);
    await service.stop();

    const restored = await millrace(target, ['restore', file, ...replace, '--json']);
    assert.equal(restored.code, 0, restored.stderr);
    looksRestored(target, { megabytes: killedMb, rows: 1 });
  });

  test('killed in the middle of a restore into PostgreSQL, nothing is there, and the next one succeeds', {
    skip: postgresSkip(),
  }, async () => {
    const database = await createTestDatabase();
    const client = new Client({ connectionString: database.url });
    await client.connect();
    try {
      const target = { dataFolder: join(folder.path, 'postgres'), databaseUrl: database.url };
      const databaseMb = async () => {
        const { rows } = await client.query('select pg_database_size(current_database()) as bytes');
        return Number(rows[0].bytes) / megabyte;
      };
      /** So much of the large rows is there, which its one transaction writes, and not all. */
      const someMb = (await databaseMb()) + killedMb / 4;
      let isWriting = false;
      const hasEnded = new AbortController();
      const watching = (async () => {
        while (!isWriting && !hasEnded.signal.aborted) {
          isWriting = (await databaseMb()) > someMb;
          await delay(20);
        }
      })();
      const killed = await millrace(target, ['restore', file, ...withKey], { killWhen: () => isWriting });
      hasEnded.abort();
      await watching;
      assert.equal(killed.code, null, killed.stderr);
      const restored = await done(target, 'restore', file, ...withKey);
      assert.equal(restored.store, 'postgres');
      const second = await millrace(target, ['restore', file, ...withKey]);
      assert.match(second.stderr, /this instance is in use/);
      const service = await Millrace.start(target);
      const live = await millrace(target, ['restore', file, '--replace', '--yes', ...withKey]);
      await service.stop();
      assert.deepEqual(
        [live.code, /the service is running \(node_/.test(live.stderr)],
        [1, true],
        live.stderr,
      );
    } finally {
      await client.end();
      await database.drop();
    }
  });

  test('takes bounded memory, as does its restore', async (t) => {
    await writeRows(large);
    const made = await backUp('large.backup');
    assert.ok(made.bytes > large.megabytes * megabyte);
    const target = { dataFolder: join(folder.path, 'bounded') };
    const restored = await millrace(target, ['restore', made.file, ...withKey]);
    assert.equal(restored.code, 0, restored.stderr);
    t.diagnostic(
      `backup: ${Math.round(made.peakMb)} MB of memory; restore: ${Math.round(restored.peakMb)} MB`,
    );
    assert.ok(made.peakMb < large.peakMbMax, `${made.peakMb} MB`);
    assert.ok(restored.peakMb < large.peakMbMax, `${restored.peakMb} MB`);
    looksRestored(target, large);
  });
});

test('`millrace backup` is for the store itself, wherever one is logged in', async () => {
  await using folder = await createTempFolder('backup-words');
  const child = spawn(process.execPath, [commandLine, 'backup', folder.path], {
    env: {
      PATH: process.env.PATH,
      HOME: folder.path,
      MILLRACE_DATA: join(folder.path, 'none'),
      MILLRACE_URL: 'http://127.0.0.1:1',
      MILLRACE_BACKUP_PASSPHRASE: passphrase,
    },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let stderr = '';
  child.stderr.on('data', (chunk: Buffer) => {
    stderr += chunk;
  });
  const code = await new Promise((resolve) => child.once('close', resolve));
  assert.equal(code, 1);
  assert.match(stderr, /there is no store in .*none: set MILLRACE_DATA/);
});
