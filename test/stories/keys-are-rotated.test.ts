import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { chmod, readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { systemClock } from '#lib/clock.ts';
import { silentLogger } from '#lib/logger.ts';
import { openStore } from '#storage/open-store.ts';
import type { Store } from '#storage/store.ts';
import { checkMasterKey, takeMasterKey } from '#vault/check-master-key.ts';
import { countDataKeys } from '#vault/data-key-store.ts';
import { keyFilePath, loadMasterKey } from '#vault/master-key.ts';
import { rotateMasterKey } from '#vault/rotate-master-key.ts';
import { addDataKey } from '#vault/sealed-values.ts';
import { Vault } from '#vault/vault.ts';
import { borrowTestDatabase, postgresSkip, type TestDatabase } from '../support/databases.ts';
import { Millrace, type MillraceOptions } from '../support/millrace.ts';
import { programFile } from '../support/program-file.ts';
import { allTexts, expectedSecrets, openSealed, storeSealed } from '../support/sealed-store.ts';
import { storesOfStory, turnVariable } from '../support/story-stores.ts';
import { createTempFolder, type TempFolder } from '../support/temp-folder.ts';
import { waitFor } from '../support/wait-for.ts';

const adminFile = programFile('src/admin.ts');
const rotationFile = programFile('test/support/rotation-process.ts');

/** Where a store and its key are. */
class Place {
  readonly dialect: 'sqlite' | 'postgres';
  readonly folder: TempFolder;
  readonly database: TestDatabase | undefined;

  private constructor(dialect: Place['dialect'], folder: TempFolder, database: TestDatabase | undefined) {
    this.dialect = dialect;
    this.folder = folder;
    this.database = database;
  }

  static async create(dialect: Place['dialect']): Promise<Place> {
    const database = dialect === 'postgres' ? await borrowTestDatabase() : undefined;
    return new Place(dialect, await createTempFolder('keys'), database);
  }

  get dataFolder(): string {
    return join(this.folder.path, 'data');
  }

  get options(): MillraceOptions {
    return {
      dataFolder: this.dataFolder,
      ...(this.database === undefined ? {} : { databaseUrl: this.database.url }),
    };
  }

  async withStore<T>(work: (store: Store) => Promise<T>): Promise<T> {
    const store = await openStore({
      databaseUrl: this.database?.url ?? '',
      folder: this.dataFolder,
      logger: silentLogger,
    });
    try {
      return await work(store);
    } finally {
      await store.close();
    }
  }

  async vault(mayCreate = false): Promise<Vault> {
    return new Vault(await loadMasterKey({ setting: '', dataFolder: this.dataFolder, mayCreate }));
  }

  /** `npm run millrace -- …` without npm. */
  admin(args: string[], environment: Record<string, string> = {}) {
    const env = {
      PATH: process.env.PATH,
      NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE,
      MILLRACE_DATA: this.dataFolder,
      ...(this.database === undefined ? {} : { MILLRACE_DATABASE_URL: this.database.url }),
      ...environment,
    };
    return new Promise<{ code: number; stdout: string; stderr: string }>((resolve) => {
      execFile(process.execPath, [adminFile, ...args], { env }, (error, stdout, stderr) => {
        resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr });
      });
    });
  }

  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape.
  async adminJson(args: string[], environment: Record<string, string> = {}): Promise<any> {
    const ended = await this.admin([...args, '--json'], environment);
    assert.equal(ended.code, 0, ended.stderr);
    assert.equal(ended.stderr, '');
    return JSON.parse(ended.stdout);
  }

  /** A start of the service that has to fail: its exit code and what it says. */
  async failingStart(environment: Record<string, string> = {}): Promise<string> {
    const child = Millrace.spawn({ ...this.options, environment });
    let said = '';
    child.stderr?.on('data', (chunk: Buffer) => {
      said += chunk;
    });
    child.stdout?.resume();
    const [code] = (await once(child, 'close')) as [number];
    assert.equal(code, 1, said);
    assert.doesNotMatch(said, /\n +at /, 'no stack for people');
    return said;
  }

  async remove(): Promise<void> {
    await this.database?.drop();
    await this.folder.remove();
  }
}

/** A killed rotation loses nothing on either store; the rest runs on one of them, in turns. */
const stores = storesOfStory(import.meta.filename, process.env[turnVariable]);

for (const dialect of ['sqlite', 'postgres'] as const) {
  const isEmbedded = dialect === 'sqlite';
  describe(isEmbedded ? 'on SQLite' : 'on PostgreSQL', { skip: !isEmbedded && postgresSkip() }, () => {
    describe('a process that rotates keys is killed at every point in turn, and the next one continues', () => {
      /** Owners of nothing but a key: enough for two batches. */
      const plainOwners = 220;
      const owners = Array.from({ length: 3 }, (_, index) => `o_${index}`);
      let place: Place;
      before(async () => {
        place = await Place.create(dialect);
        await place.withStore(async (store) => {
          const vault = await place.vault(true);
          await takeMasterKey(store, vault, systemClock);
          for (const ownerId of owners) await storeSealed(store, { vault, clock: systemClock }, ownerId);
        });
      });
      after(() => place.remove());

      /** Returns whether it finished. */
      async function rotateAndDie(kind: string, diesAt: number): Promise<boolean> {
        const args = [kind, place.dataFolder, place.database?.url ?? '', String(diesAt)];
        const child = spawn(process.execPath, [rotationFile, ...args], {
          stdio: ['ignore', 'ignore', 'pipe'],
        });
        let said = '';
        child.stderr.on('data', (chunk: Buffer) => {
          said += chunk;
        });
        const [code, signal] = (await once(child, 'close')) as [number | null, string | null];
        if (signal === 'SIGKILL') return false;
        assert.equal(code, 0, said);
        return true;
      }

      const everythingOpens = () => place.withStore(everythingOpensIn);

      async function everythingOpensIn(store: Store): Promise<void> {
        const vault = await place.vault();
        await checkMasterKey(store.read, vault);
        for (const ownerId of owners)
          assert.deepEqual(await openSealed(store, vault, ownerId), expectedSecrets(ownerId));
      }

      test('of the data keys, where all credentials open in between', async () => {
        let kills = 0;
        while (!(await rotateAndDie('data', kills + 1))) {
          kills += 1;
          if (kills % 3 === 1) await everythingOpens();
        }
        assert.ok(kills >= 6, `killed ${kills} times`);
        await everythingOpens();
        await place.withStore(async (store) => {
          const rows = await store.read
            .selectFrom('data_keys')
            .select('owner_id')
            .where('retired_at_ms', 'is', null)
            .execute();
          assert.equal(rows.length, owners.length, 'one key of each owner is in use');
        });
      });

      test('of the master key', async () => {
        await place.withStore(async (store) => {
          const vault = await place.vault();
          await store.transaction(async (tx) => {
            for (let n = 0; n < plainOwners; n += 1)
              await addDataKey(tx, { vault, clock: systemClock }, `u_${String(n).padStart(4, '0')}`);
          });
        });
        const old = await place.vault();
        let kills = 0;
        while (!(await rotateAndDie('master', kills + 1))) {
          kills += 1;
          await place.withStore(async (store) => {
            await rotateMasterKey({
              store,
              clock: systemClock,
              keys: { encryptionKey: '', newEncryptionKey: '', dataFolder: place.dataFolder },
              progress: () => {},
            });
            await everythingOpensIn(store);
          });
        }
        assert.ok(kills >= 10, `killed ${kills} times`);
        await everythingOpens();
        assert.notEqual((await place.vault()).masterKeyId, old.masterKeyId);
        await place.withStore(async (store) => {
          await assert.rejects(checkMasterKey(store.read, old), { code: 'wrong_encryption_key' });
          assert.equal((await countDataKeys(store.read, 1000)).length, owners.length + plainOwners);
        });
      });

      test('of both, at random moments', async () => {
        for (const kind of ['master', 'data']) {
          const args = [kind, place.dataFolder, place.database?.url ?? '', '0'];
          const child = spawn(process.execPath, [rotationFile, ...args], { stdio: 'ignore' });
          const closed = once(child, 'close');
          const timer = setTimeout(() => child.kill('SIGKILL'), 200 + Math.random() * 400);
          await closed;
          clearTimeout(timer);
          assert.ok(await rotateAndDie(kind, 0));
          await everythingOpens();
        }
      });
    });

    if (stores.includes(dialect))
      describe('a service whose keys are rotated', () => {
        let place: Place;
        let service: Millrace;
        let made: { account: string; webhook: string; workflow: string; endpoint: string; source: string };
        const credentials = { api_key: 'the-key-of-acme-0123456789', region: 'eu' };
        const own = `export default {
        props: { password: { type: 'string', secret: true }, http: '$.interface.http', acme: { type: 'app', app: 'acme' } },
        async run() { this.$emit({ password: this.password.length, key: this.acme.$auth.api_key.length }); },
      };`;
        const step = `export default defineComponent({
        props: { password: { type: 'string', secret: true }, acme: { type: 'app', app: 'acme' } },
        async run() { return [this.password.length, this.acme.$auth.api_key.length]; },
      });`;

        before(async () => {
          place = await Place.create(dialect);
          service = await Millrace.start(place.options);
          const account = await service.api('POST', '/v1/accounts', { app: 'acme', name: 'a', credentials });
          assert.equal(account.status, 200, JSON.stringify(account.body));
          const accountId: string = account.body.data.id;
          const webhook = await service.api(
            'POST',
            '/v1/webhooks?url=http://127.0.0.1:9/hook&name=a&description=a',
          );
          assert.equal(webhook.status, 200, JSON.stringify(webhook.body));
          await service.api('POST', `/v1/webhooks/${webhook.body.data.id}/rotate_secret`, {});
          const props = { password: 'a-secret-prop', acme: { authProvisionId: accountId } };
          const source = await service.createSource({
            component_code: own,
            name: 'sealed',
            configured_props: { ...props, http: {} },
          });
          const workflow = await service.createWorkflow({
            steps: [{ namespace: 'a', code: step, props }],
            triggers: [
              {
                type: 'http',
                props: { auth: { type: 'static_bearer_token', token: 'a-trigger-token-0123' } },
              },
            ],
          });
          made = {
            account: accountId,
            webhook: webhook.body.data.id,
            workflow: workflow.id,
            endpoint: workflow.triggers[0].endpoint_url,
            source: source.id,
          };
        });
        after(async () => {
          await service.stop();
          await place.remove();
        });

        /** Uses everything that was sealed, through the service, which is started when it is stopped. */
        async function useAll(): Promise<void> {
          if (service.process.exitCode !== null) service = await Millrace.start(place.options);
          const { body } = await service.api('GET', `/v1/accounts/${made.account}?include_credentials=1`);
          assert.equal(body.data.credentials.api_key, credentials.api_key);
          const source = (await service.api('GET', `/v1/sources/${made.source}`)).body.data;
          const events = (await service.events(made.source)).length;
          await fetch(
            new URL(
              new URL(source.endpoint_url ?? source.configured_props.http.endpoint_url).pathname,
              service.url,
            ),
            {
              method: 'POST',
            },
          );
          const [event] = await waitFor(async () => {
            const found = await service.events(made.source);
            return found.length > events && found;
          });
          assert.deepEqual(event.event, { password: 13, key: credentials.api_key.length });
          const url = new URL(new URL(made.endpoint).pathname, service.url);
          const runs = (await service.runs(made.workflow)).length;
          assert.equal((await fetch(url, { method: 'POST' })).status, 401);
          const headers = { authorization: 'Bearer a-trigger-token-0123' };
          assert.ok((await fetch(url, { method: 'POST', headers })).ok);
          await waitFor(async () => (await service.runs(made.workflow)).length > runs);
          const run = await service.runInState(made.workflow, 'succeeded');
          assert.deepEqual(run.steps[0].exports.$return_value, [13, credentials.api_key.length]);
        }

        /** The next `useAll` starts it again. */
        async function whileStopped(work: () => Promise<void>): Promise<void> {
          await service.stop();
          await work();
        }

        test('keys status shows the master key, of data keys by owner, and of nothing unfinished; the master key is rotated once the service has stopped', async () => {
          await useAll();
          const before = await readFile(keyFilePath(place.dataFolder), 'utf8');
          const refused = await place.admin(['keys', 'rotate-master']);
          assert.equal(refused.code, 1);
          assert.match(
            refused.stderr,
            isEmbedded ? /stop it first$/m : /the service is running \(node_\w+\)/,
          );
          assert.equal(await readFile(keyFilePath(place.dataFolder), 'utf8'), before);
          await whileStopped(async () => {
            const status = await place.adminJson(['keys', 'status']);
            const vault = await place.vault();
            assert.equal(status.master_key, vault.masterKeyId);
            assert.deepEqual(
              [status.configured_key, status.configured, status.wrapped_by, status.unfinished],
              [vault.masterKeyId, 'same', [vault.masterKeyId], []],
            );
            assert.equal(status.owners.length, 1);
            assert.equal(status.owners[0].keys, 1);
            const done = await place.adminJson(['keys', 'rotate-master']);
            assert.equal(done.rewrapped, 1);
          });
          assert.notEqual(await readFile(keyFilePath(place.dataFolder), 'utf8'), before);
          await useAll();
        });

        test('data keys are rotated, and all that was sealed works on', async () => {
          const rotate = async () => {
            const done = await place.adminJson(['keys', 'rotate-data']);
            assert.equal(done.new_keys, 1);
            // Account, two secrets of the webhook, trigger, source, deployment.
            assert.ok(done.resealed >= 6, JSON.stringify(done));
            assert.deepEqual(done.unopened, []);
          };
          if (!isEmbedded) {
            // Beside the running service, which knows the old key alone.
            await rotate();
            await useAll();
          }
          await whileStopped(async () => {
            if (isEmbedded) await rotate();
            await place.withStore(async (store) => {
              // Nothing needs them now.
              const retired = await store.transaction((tx) =>
                tx
                  .deleteFrom('data_keys')
                  .where('retired_at_ms', 'is not', null)
                  .returning('key_id')
                  .execute(),
              );
              assert.ok(retired.length >= 1);
              for (const { table, column, text } of await allTexts(store))
                for (const { key_id } of retired)
                  assert.ok(!text.includes(`v1.${key_id}.`), `${table}.${column} was not resealed`);
            });
          });
          await useAll();
        });

        test('a rotation killed from outside: the service does not start and says which command finishes it', async () => {
          await whileStopped(async () => {
            const next = randomBytes(32).toString('base64');
            const master = await readFile(keyFilePath(place.dataFolder), 'utf8');
            // As a kill after its first durable step leaves the store.
            await writeFile(`${keyFilePath(place.dataFolder)}.next`, next, { mode: 0o600 });
            await place.withStore((store) =>
              store.transaction((tx) =>
                tx
                  .updateTable('key_rotations')
                  .set({ key_id: new Vault(Buffer.from(next, 'base64')).masterKeyId, finished_at_ms: null })
                  .where('kind', '=', 'master')
                  .execute(),
              ),
            );
            const said = await place.failingStart();
            assert.match(said, /npm run millrace -- keys rotate-master/);
            assert.equal(said.trim().split('\n').length, 1);
            const status = await place.adminJson(['keys', 'status']);
            assert.equal(status.unfinished[0].command, 'keys rotate-master');
            assert.match((await place.admin(['keys', 'rotate-data'])).stderr, /rotation of the master key/);
            const done = await place.adminJson(['keys', 'rotate-master']);
            assert.equal(done.rewrapped, (await place.adminJson(['keys', 'status'])).owners[0].keys);
            assert.equal(await readFile(keyFilePath(place.dataFolder), 'utf8'), next);
            assert.notEqual(next, master);
          });
        });

        test('a wrong, missing, damaged, readable or linked key: no start, a message in one line, and nothing changed', async () => {
          await whileStopped(async () => {
            const text = await readFile(keyFilePath(place.dataFolder), 'utf8');
            const sealed = () =>
              place.withStore(async (store) =>
                (await allTexts(store)).filter(({ text: cell }) => cell.includes('v1.')),
              );
            const before = await sealed();
            const files = await readdir(place.folder.path);
            const refuse = async (message: RegExp, environment: Record<string, string> = {}) => {
              const said = await place.failingStart(environment);
              assert.match(said, message);
              assert.equal(said.trim().split('\n').length, 1, said);
              assert.ok(!said.includes(text.trim()));
            };
            const other = randomBytes(32).toString('base64');
            await refuse(/sealed under another encryption key/, { MILLRACE_ENCRYPTION_KEY: other });
            const path = keyFilePath(place.dataFolder);
            await rename(path, `${path}.away`);
            await refuse(/is missing.*backup/);
            await rename(`${path}.away`, path);
            // What is wrong with a setting or with the content of the file does not depend on the store: shown on one of them; more
            // of it in src/vault/master-key.test.ts.
            if (isEmbedded) {
              await refuse(/MILLRACE_ENCRYPTION_KEY: expected 32 bytes/, {
                MILLRACE_ENCRYPTION_KEY: 'short',
              });
              await writeFile(path, text.slice(0, 20));
              await refuse(/holds no key/);
              assert.equal(await readFile(path, 'utf8'), text.slice(0, 20), 'left as it is');
              await writeFile(path, text);
              if (process.platform !== 'win32') {
                await chmod(path, 0o644);
                await refuse(/has mode 0644.*chmod 600/);
                await chmod(path, 0o600);
              }
            }
            const status = await place.adminJson(['keys', 'status'], { MILLRACE_ENCRYPTION_KEY: other });
            assert.equal(status.configured, 'other');
            assert.deepEqual(await sealed(), before);
            assert.deepEqual(await readdir(place.folder.path), files);
          });
          await useAll();
        });

        test('to keys in the settings and on: each start needs the one that was rotated to', async () => {
          const [first, second] = [randomBytes(32).toString('base64'), randomBytes(32).toString('hex')];
          await service.stop();
          const moved = await place.admin(['keys', 'rotate-master'], { MILLRACE_NEW_ENCRYPTION_KEY: first });
          assert.equal(moved.code, 0, moved.stderr);
          assert.match(moved.stdout, /as MILLRACE_ENCRYPTION_KEY/);
          assert.ok(!`${moved.stdout}${moved.stderr}`.includes(first), 'no key is printed');
          await place.failingStart();
          const on = { MILLRACE_ENCRYPTION_KEY: first, MILLRACE_NEW_ENCRYPTION_KEY: second };
          await place.adminJson(['keys', 'rotate-master'], on);
          assert.match(
            await place.failingStart({ MILLRACE_ENCRYPTION_KEY: first }),
            /sealed under another encryption key/,
          );
          service = await Millrace.start({
            ...place.options,
            environment: { MILLRACE_ENCRYPTION_KEY: second },
          });
          await useAll();
        });
      });
  });
}
